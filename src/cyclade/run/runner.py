"""Runs a method to its end: evaluates, records, reports, stops, and survives interrupts.

`Runner` drives any oracle that has `sweep` and `evaluate`; `minimize`, the stochastic fits of
linear models and their streams all use it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np

from cyclade._arrays import all_finite, largest_entry, norm2, rounding_unit
from cyclade.blocks import Point
from cyclade.certificates import Contradiction, curvature_used, metric_inflation, squared_distance
from cyclade.core import State, iterate, start
from cyclade.files.objects import stored
from cyclade.oracles.counting import Counting, CountingProx
from cyclade.run.exact_blocks import BlockMinimiser, not_minimised
from cyclade.run.extrapolation import Anderson, extrapolated
from cyclade.run.result import HISTORY, Report
from cyclade.run.stopping import (
    MOST_RETREATS,
    Bar,
    Best,
    Ended,
    EveryCycles,
    EverySamples,
    Interrupt,
    Limits,
    Rule,
    Seen,
    course,
)
from cyclade.sampling.orders import Order
from cyclade.sampling.samplers import Full, Sample, Sampler, StreamEnded
from cyclade.steps import LineSearchError, Rated


@dataclass
class Setup:
    """What is run: the arguments of `core.iterate`, and the sample on which F is evaluated."""

    oracle: Counting
    reg: Any
    steps: Rated
    sampler: Sampler
    order: Order
    evaluation_sample: Sample  # None: F is never evaluated
    resample: Literal["cycle", "block"] = "cycle"
    visits_all: bool = True  # whether every block has its turn in every cycle
    guarded: bool = False  # whether η may be halved when F rises
    cut: Ended | None = None  # how the run ends before it begins, if it does
    problem: Any = None  # what checks what a user gave, and makes numbers alike on all ranks
    measure: Callable[[Point], Evaluation] | None = None  # in place of dist(∂F, 0) from the oracle
    iterate: Callable[[State], Iterator[State]] | None = None  # in place of `core.iterate`
    ready: Callable[[], bool] | None = None  # whether the samples of another cycle are there


@stored
@dataclass
class Carried:
    """What a stopped run hands to the one that resumes it."""

    method: str
    state: State
    steps: dict[str, Any]
    rule: Rule
    best: Best
    evaluation_sample: Any  # what F and the certificate are evaluated on
    history: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in HISTORY})
    n: float = 1.0
    described: dict[str, Any] = field(default_factory=dict)  # what must be the same on resuming
    anderson: Anderson | None = None
    gradients: float = 0.0
    values: float = 0.0
    hvps: float = 0.0
    nfev: int = 0
    njev: int = 0
    prox_calls: int = 0
    seconds: float = 0.0  # in cycles
    wall: float = 0.0  # in all
    retreats: int = 0

    @property
    def first_dist(self) -> float:
        """dist at x0, or at the first iterate in the domain of r, where x0 is outside."""
        return next((d for d in self.history["dist"] if math.isfinite(d)), 0.0)


@dataclass
class Evaluation:
    """F and how far from stationary a point is."""

    fun: float
    smooth: float  # f alone
    squared_distance: float  # dist²(∂F, 0) in the norm of Λ^{−1}
    dist: float  # dist(∂F, 0) in the Euclidean norm
    gradient: list[Any] = field(default_factory=list, repr=False)
    reached: str | None = None  # what `Setup.measure` finds good enough to stop at


TOO_SHORT = 1e-3  # of the curvature that steps allow for, from which a run says so
FAR = 1e4  # how many times tol the Euclidean distance must be for a Λ that was measured to be odd


class Runner:
    """One run of one method on one problem."""

    def __init__(
        self,
        setup: Setup,
        carried: Carried,
        limits: Limits,
        every: EveryCycles | EverySamples,
        callback: Callable[[Report], Any] | None = None,
        progress: bool = False,
        save: Callable[[Callable[[], Carried]], None] | None = None,
    ) -> None:
        self.setup, self.carried, self.limits = setup, carried, limits
        self.every, self.callback, self.progress = every, callback, progress
        self.save = save  # called after every cycle with what gives the state to resume from
        self.state = carried.state
        self._oracle, self._steps = setup.oracle, setup.steps
        self._evaluates = setup.evaluation_sample is not None
        self._prox = CountingProx(setup.reg)
        self._prox.calls = carried.prox_calls
        setup.oracle.gradients, setup.oracle.values, setup.oracle.hvps = (
            carried.gradients, carried.values, carried.hvps,
        )  # fmt: skip
        self._last = Evaluation(math.nan, math.nan, math.nan, math.nan)
        setup.oracle.calls.nfev += carried.nfev  # before this process
        setup.oracle.calls.njev += carried.njev
        self._largest_Lambda = math.inf
        self._inflation = 0.0  # how many times Λ exceeds the curvature of f, once that was found
        self._eps = rounding_unit(self.state.x.leaves[0])

    def evaluate(self, x: Point) -> Evaluation:
        """F(x) and its certificate; not counted as part of the run."""
        if self.setup.measure is not None:
            return self.setup.measure(x)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            smooth, gradient = self._oracle.evaluate(x, self.setup.evaluation_sample)
            blocks, reg = x.blocks(), self.setup.reg
            fun = smooth + sum(reg.value(j, u) for j, u in enumerate(blocks))
            certified = squared_distance(blocks, gradient, reg, self._steps.metric)
            dist2 = squared_distance(blocks, gradient, reg, lambda j: 1.0)
        return Evaluation(fun, smooth, certified, math.sqrt(dist2), gradient)

    def value(self, x: Point) -> float:
        """F(x) alone, counted."""
        smooth = self._oracle.sweep(x, self.setup.evaluation_sample).value()
        return smooth + float(sum(self.setup.reg.value(j, u) for j, u in enumerate(x.blocks())))

    def run(self) -> Ended:
        """Cycle until something says stop."""
        carried, state = self.carried, self.state
        begun = time.perf_counter() - carried.wall
        at_start = Seen(state.k, state.x, math.nan, math.nan)
        bar = Bar(carried.method, self.limits.max_cycles, self.progress)
        before = state.x.copy()
        try:
            # Overflow is not worth a warning: what is not finite ends the run with a message.
            with Interrupt() as interrupt, bar, np.errstate(over="ignore", invalid="ignore"):
                self._begin(at_start)
                if self.setup.cut is not None:
                    raise self.setup.cut
                self._stop_if_stationary(at_start)
                if self._spent() is not None and carried.history["cycle"][-1:] != [state.k]:
                    self._see_last(at_start)  # a run that died between two evaluations
                self._stop_if_spent(at_start)
                cycles = self._cycles()
                while True:
                    before = state.x.copy()
                    self._advance(cycles, before)
                    seen = self._look(before)
                    bar.show(state.k, self._last.fun, self._last.squared_distance)
                    asked = self.callback is not None and self._asks_to_stop(seen)
                    now = [time.perf_counter() - begun, asked, interrupt.asked]
                    if self.setup.problem is not None:
                        now = self.setup.problem.alike(now)
                    carried.wall, stopped, interrupted = now
                    if self.save is not None:
                        self.save(self.carry)
                    self._stop_if_done(seen, bool(stopped))
                    if interrupted:
                        self._see_last(seen)
                        message = f"interrupted after cycle {state.k}; the best so far is returned"
                        raise Ended("interrupted", self._best(), False, message)
        except Ended as stop:
            ending = stop
        except KeyboardInterrupt:
            message = f"interrupted in cycle {state.k + 1}; the best so far is returned"
            ending = Ended("interrupted", self._best(before), False, message, resumable=False)
        ending.message += self._remarks(ending)
        carried.wall = time.perf_counter() - begun
        self.carry()
        return ending

    def carry(self) -> Carried:
        """What a run that is resumed takes up from here."""
        carried = self.carried
        carried.prox_calls = self._prox.calls
        carried.gradients, carried.values = self._oracle.gradients, self._oracle.values
        carried.hvps = self._oracle.hvps
        carried.nfev, carried.njev = self._oracle.calls.nfev, self._oracle.calls.njev
        carried.steps = self._steps.memory()
        return carried

    def _begin(self, at_start: Seen) -> None:
        """Look at x_0; a run that is resumed knows it already."""
        history = self.carried.history
        if not self._evaluates:
            return
        if not history["cycle"]:
            self._record(at_start)
        else:
            fun, certified, dist = (
                history[name][-1] for name in ("fun", "squared_distance", "dist")
            )
            self._last = Evaluation(fun, fun, certified, dist)
        self._largest_Lambda = self._bound_of_Lambda()

    def _cycles(self) -> Iterator[State]:
        setup = self.setup
        if setup.iterate is not None:
            return setup.iterate(self.state)
        cycles = iterate(
            self.state, self._oracle, self._prox, self._steps, setup.sampler, setup.order,
            setup.resample,
        )  # fmt: skip
        anderson = self.carried.anderson
        return cycles if anderson is None else extrapolated(cycles, anderson, self.value)

    def _advance(self, cycles: Iterator[State], before: Point) -> None:
        """One cycle, timed."""
        begun = time.perf_counter()
        try:
            next(cycles)
        except (LineSearchError, StreamEnded) as error:
            words, j = str(error), getattr(error, "block", None)
            if j is not None and (name := before.layout.names[j]) not in (str(j), "x"):
                words += f". Block {j} is {name!r}"
            raise Ended(error.status, before, False, words, resumable=False) from None
        finally:
            self.carried.seconds += time.perf_counter() - begun

    def _look(self, before: Point) -> Seen:
        """What x_k is like; evaluated when it is due."""
        state, limits, sampler = self.state, self.limits, self.setup.sampler
        if not all(all_finite(a) for a in state.x.leaves):
            return self._diverged("x is not finite")
        due = self._evaluates and self.due()
        seen = Seen(state.k, state.x, math.nan, math.nan)
        if due or self.carried.rule.needs_change or limits.change_tol is not None:
            seen.change = self._change(before)
        # The certificate is about the size of the change (Lemma 2), so look when that is small.
        tol = limits.tol if isinstance(sampler, Full) else None
        if due or (tol is not None and self._moved(before) <= tol):
            if math.isnan(seen.change):
                seen.change = self._change(before)
            self._record(seen)
            seen = self._keep_course(seen)
            if seen.change == 0.0 and self.setup.visits_all and isinstance(sampler, Full):
                self._stop_if_stationary(seen)
                self._stop_if_stuck(seen)
        self.carried.rule.see(seen)
        return seen

    def due(self) -> bool:
        """Whether F is to be evaluated here: when it is time, and at the end of the run."""
        samples, seen = self._oracle.gradients, self.carried.history["samples"]
        return self.every.due(self.state.k, samples, seen) or self._spent() is not None

    def _moved(self, before: Point) -> float:
        """An upper bound on ‖x_k − x_{k−1}‖_Λ that costs no loop over blocks."""
        pairs = zip(self.state.x.leaves, before.leaves, strict=True)
        return math.sqrt(self._largest_Lambda * sum(norm2(a - b) for a, b in pairs))

    def _change(self, before: Point) -> float:
        """‖x_k − x_{k−1}‖_Λ."""
        pairs = zip(self.state.x.blocks(), before.blocks(), strict=True)
        metric = self._steps.metric
        return math.sqrt(sum(norm2(a - b, metric(j)) for j, (a, b) in enumerate(pairs)))

    def _bound_of_Lambda(self) -> float:
        entries = [largest_entry(self._steps.metric(j)) for j in range(self.state.x.layout.m)]
        return max(entries) if not any(map(math.isnan, entries)) else math.inf

    def _record(self, seen: Seen) -> None:
        self._last = self.evaluate(seen.x)
        seen.fun = self._last.fun
        self._largest_Lambda = self._bound_of_Lambda()
        row = (
            seen.k, self._oracle.gradients, self.carried.seconds, seen.fun,
            self._last.squared_distance, self._last.dist, seen.change,
            self._steps.rate,
        )  # fmt: skip
        for name, value in zip(HISTORY, row, strict=True):
            self.carried.history[name].append(value)
        self.carried.best.see(seen)

    def _keep_course(self, seen: Seen) -> Seen:
        """Retreat or stop where F rises, explodes or has no end."""
        first = next((f for f in self.carried.history["fun"] if math.isfinite(f)), math.nan)
        best = self.carried.best.fun
        where = course(seen.fun, self._last.smooth, first, best, self._eps)
        if where == "unbounded":
            message = f"F seems to be unbounded below: F = {seen.fun:.3g} after cycle {seen.k}"
            raise Ended("unbounded", seen.x, False, message, resumable=False)
        if where == "diverged":
            finite = math.isfinite(self._last.smooth) and not math.isnan(seen.fun)
            return self._diverged(f"F = {seen.fun:.3g}" if finite else "F is not finite")
        if where == "rising" and self.setup.guarded:
            return self._retreat(f"F = {seen.fun:.6g} rose above the best, {best:.6g}")
        return seen

    def _diverged(self, what: str) -> Seen:
        if self.setup.guarded:
            return self._retreat(what)
        return self._give_up(
            f"diverged: {what} after cycle {self.state.k}",
            "the best iterate seen is returned. A smaller eta (or larger L) may help",
        )

    def _give_up(self, what: str, otherwise: str) -> NoReturn:
        """End a run that diverged: because of its gradient, or `otherwise`."""
        best = self._best()
        wrong: object = self._contradiction(best)
        if self._evaluates and not all(map(all_finite, self.evaluate(best).gradient)):
            wrong = "the gradient of fun turned NaN or infinite"
        status = "wrong_gradient" if wrong else "diverged"
        message = f"{what}; {wrong or otherwise}"
        raise Ended(status, best, False, message, resumable=False)

    def _contradiction(self, x: Point) -> Contradiction | None:
        """What is wrong with the gradient at x, if the values of f around it say so."""
        problem = self.setup.problem
        if problem is None or not problem.by_hand:
            return None
        found: Contradiction | None = problem.contradiction(
            x, self.evaluate(x).gradient, self.setup.evaluation_sample
        )
        return found

    def _wrong_regulariser(self, x: Point) -> str:
        """What is wrong with a regulariser that the user wrote, if it contradicts itself at x."""
        problem, limits = self.setup.problem, self.limits
        if problem is None:
            return ""
        tol = max(limits.tol or 0.0, limits.change_tol or 0.0)
        tol = max(tol, (limits.rtol or 0.0) * self.carried.first_dist)
        gradient = self.evaluate(x).gradient
        return str(problem.wrong_regulariser(x, gradient, self._steps.metric, tol))

    def _retreat(self, why: str) -> Seen:
        """Back to the best iterate with smaller steps."""
        state, best = self.state, self._best()
        self.carried.retreats += 1
        if self.carried.retreats > MOST_RETREATS:
            self._give_up(
                f"diverged: {why}, however small eta", "the best iterate seen is returned"
            )
        for j in range(state.x.layout.m):
            state.x.set(j, best.get(j))
        afresh = start(self._oracle, state.x, self.setup.sampler, state.sample_rng)
        state.lag, state.g = afresh.lag, afresh.g
        large = self._oracle.sweep(state.x, self.setup.sampler.large(state.sample_rng))
        self._steps.slow(large, state.g, self._prox)
        if self.carried.anderson is not None:
            self.carried.anderson.forget()
        return Seen(state.k, state.x, math.nan, math.nan)

    def _stop_if_done(self, seen: Seen, stopped: bool) -> None:
        if stopped:
            self._see_last(seen)
            message = f"stopped by the callback after cycle {seen.k}"
            raise Ended("callback", seen.x, False, message)
        if self._spent() is not None:
            self._see_last(seen)
        self._stop_if_stationary(seen)
        self._stop_if_small_change(seen)
        self._stop_if_spent(seen)

    def _asks_to_stop(self, seen: Seen) -> bool:
        assert self.callback is not None
        report = Report(
            seen.k, self._oracle.gradients, self.carried.seconds, self._last.fun,
            self._last.squared_distance, self._last.dist, seen.change, seen.x.whole(),
        )  # fmt: skip
        try:
            answer = self.callback(report)
        except StopIteration:
            return True
        # Boolean arrays and tensors count where they hold one True; a forgotten return does not.
        boolean = str(getattr(answer, "dtype", "")) in ("bool", "torch.bool")
        return answer is True or (boolean and bool(answer.all()))

    def _see_last(self, seen: Seen) -> None:
        """Look at the last iterate of a run, if it was not looked at already."""
        if self._evaluates and math.isnan(seen.fun):
            self._record(seen)  # which the rule "best" sees too; the others saw it already

    def _stop_if_stationary(self, seen: Seen) -> None:
        """Success, if x_k is as stationary as was asked for: of F itself, not of small steps."""
        limits, now = self.limits, self._last
        if now.reached is not None and not math.isnan(seen.fun):
            raise Ended("stationary", seen.x, True, now.reached)
        if not math.isfinite(seen.fun) or not limits.tolerant:
            return
        message = None
        if limits.tol is not None and math.sqrt(now.squared_distance) <= limits.tol:
            if now.dist <= limits.tol or not self._inflated(seen.x, limits.tol):
                message = f"stationary: √squared_distance ≤ tol = {limits.tol:g}"
        elif limits.tol is not None and self._inflation and now.dist <= limits.tol:
            message = f"stationary: dist ≤ tol = {limits.tol:g}"
        if limits.rtol is not None and now.dist <= limits.rtol * self.carried.first_dist:
            message = f"stationary: dist ≤ rtol = {limits.rtol:g} of that at x0"
        if message is not None and not self._may_move(seen):
            self._succeed("stationary", seen, message)

    def _stop_if_small_change(self, seen: Seen) -> None:
        """Success, if the change is small, and not because Λ is far too large."""
        change_tol = self.limits.change_tol
        if change_tol is None or not seen.change <= change_tol:
            return
        if self._inflation and math.isnan(seen.fun):
            return  # it waits for the next evaluation
        self._see_last(seen)
        if self._last.dist <= change_tol or not self._inflated(seen.x, change_tol):
            message = f"still: ‖x_k − x_{{k−1}}‖_Λ ≤ change_tol = {change_tol:g}"
            self._succeed("small_change", seen, message)

    def _succeed(self, status: str, seen: Seen, message: str) -> NoReturn:
        """End in success, unless values of f contradict the gradient, or r contradicts itself."""
        wrong = self._contradiction(seen.x)
        if wrong is not None and not wrong.between:
            raise Ended("wrong_gradient", seen.x, False, str(wrong))
        if words := self._wrong_regulariser(seen.x):
            raise Ended("wrong_regulariser", seen.x, False, words)
        raise Ended(status, seen.x, True, message)

    def _may_move(self, seen: Seen) -> bool:
        """Whether r is nonconvex, so that zero may be a subgradient where its prox leads away."""
        if self.setup.reg.convex:
            return False
        return not seen.change <= 10 * math.sqrt(self._last.squared_distance) + 100 * self._eps

    def _inflated(self, x: Point, tol: float) -> bool:
        """Whether Λ is so large that its norm certifies anything."""
        if self._steps.measured and self._last.dist <= FAR * tol:
            return False  # Λ is the curvature that was seen; only at a kink that has no bound
        if not self._inflation:
            self._inflation = metric_inflation(
                self._oracle, x, self.setup.evaluation_sample, self._last.gradient, self.setup.reg,
                self._steps.metric, tol,
            )  # fmt: skip
        return self._inflation > 0

    def _stop_if_stuck(self, seen: Seen) -> None:
        """No block moved in a whole cycle: rounding ends the run before the tolerance does."""
        dist = f"dist(∂F(x), 0) = {self._last.dist:.3g}"
        if not self.limits.tolerant and not self._inflated(seen.x, 0.0):
            self._succeed("still", seen, f"still: no block moves any more; {dist}")
        before = ", before the tolerance" if self.limits.tolerant else ""
        message = f"no block moves any more in this precision{before}: {dist}"
        wrong = self._contradiction(seen.x) or self._wrong_regulariser(seen.x)
        raise Ended("still", seen.x, False, f"{message}; {wrong}" if wrong else message)

    def _spent(self) -> tuple[str, str] | None:
        """Which limit is reached, if one is: its name, and words."""
        limits = self.limits
        if limits.max_cycles is not None and self.state.k >= limits.max_cycles:
            return "max_cycles", f"max_cycles = {limits.max_cycles} reached"
        if limits.max_samples is not None and (
            self._oracle.gradients >= limits.max_samples * (1 - 1e-12)  # shares add up to rounding
        ):
            return "max_samples", f"max_samples = {limits.max_samples:g} reached"
        if limits.max_seconds is not None and self.carried.wall >= limits.max_seconds:
            return "max_seconds", f"max_seconds = {limits.max_seconds:g} reached"
        if self.setup.ready is not None and not self.setup.ready():
            return "no_samples", "the samples at hand are used up"
        return None

    def _stop_if_spent(self, seen: Seen) -> None:
        """A limit is a success where no tolerance was asked for."""
        spent = self._spent()
        if spent is None:
            return
        (status, message), rule, tolerant = spent, self.carried.rule, self.limits.tolerant
        x = seen.x if rule.x is None else rule.x
        message += " before the tolerance" * tolerant + f"; {rule.name} is returned"
        wrong = tolerant and (self._contradiction(x) or self._wrong_regulariser(x))  # may be why
        raise Ended(status, x, not tolerant, f"{message}; {wrong}" if wrong else message)

    def _best(self, otherwise: Point | None = None) -> Point:
        best = self.carried.best.x
        return best if best is not None else otherwise or self.state.x

    def _remarks(self, ending: Ended) -> str:
        remarks = []
        if self._inflation and not ending.success:
            why = "give a smaller L"
            if self._steps.measured:
                why = "fun has a kink here, or jac is wrong"
            remarks.append(
                f"Λ is {self._inflation:.1g} times the curvature of f, so a certificate in its "
                f"norm means little: {why}"
            )
        if self._steps.remark and self._last.reached is None:
            remarks.append(self._steps.remark)
        if self.carried.retreats:
            times = "once" if self.carried.retreats == 1 else f"{self.carried.retreats} times"
            remarks.append(f"η was halved {times} because F rose")
        if not ending.success and ending.status.startswith(("max_", "still")):
            reg, oracle, sample = self.setup.reg, self._oracle, self.setup.evaluation_sample
            if isinstance(reg, BlockMinimiser):
                remarks += not_minimised(reg, oracle, sample, ending.x)
        if self.setup.guarded and ending.status.startswith("max_") and self.limits.tolerant:
            remarks += self._too_short(ending.x)
        return "".join(f"; {remark}" for remark in remarks)

    def _too_short(self, x: Point) -> list[str]:
        """What to say where steps from x could be a thousand times as long, by f itself."""
        if self.setup.measure is not None or not math.isfinite(self._steps.rate):
            return []
        used = curvature_used(
            self._oracle,
            x,
            self.setup.evaluation_sample,
            self.evaluate(x).gradient,
            self._prox,
            self._steps.current,
        )
        if not 0.0 <= used <= TOO_SHORT:
            return []
        why = self._steps.why_short
        if self.carried.retreats:
            why = "longer ones made F rise"
        return [
            f"steps look far too small: f curves {used:.1g} times as much as they allow for, "
            f"because {why}. Rescale x or the terms, give L and eta, or take P-CCD"
        ]
