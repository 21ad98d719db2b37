"""Runs a method to its end: evaluates, records, reports, stops, and survives interrupts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cyclade._arrays import all_finite, norm2
from cyclade.blocks import Point
from cyclade.certificate import certificate
from cyclade.core import State, iterate
from cyclade.counting import Counting, CountingProx
from cyclade.keep import Best, Rule, Seen
from cyclade.progress import Bar, Interrupt
from cyclade.result import HISTORY
from cyclade.samplers import StreamEnded
from cyclade.steps import LineSearchError


@dataclass
class Limits:
    """When to stop; None means never for that reason."""

    tol: float | None
    change_tol: float | None
    max_cycles: int | None
    max_samples: float | None
    max_seconds: float | None

    @property
    def tolerant(self) -> bool:
        """Whether there is a tolerance to reach."""
        return self.tol is not None or self.change_tol is not None


@dataclass
class Carried:
    """What a stopped run hands to the one that resumes it."""

    method: str
    state: State
    steps: dict[str, Any]
    rule: Rule
    best: Best
    history: dict[str, list[float]]
    evaluation_sample: Any  # what F and the certificate are evaluated on
    gradients: float = 0.0
    values: float = 0.0
    hvps: float = 0.0
    prox_calls: int = 0
    seconds: float = 0.0


@dataclass
class Report:
    """What a callback is given after each cycle; return True from it to stop the run.

    `fun` and `certificate` are those of the last evaluation (see `every`); `x` is a copy of x_k in
    the structure of x0.
    """

    cycle: int
    samples: float
    seconds: float
    fun: float
    certificate: float
    change: float
    x: Any = field(repr=False)


@dataclass
class Ending:
    """How a run ended: the point it returns, and why."""

    x: Point
    success: bool
    message: str
    resumable: bool = True


class Stop(Exception):
    """Raised inside a run to end it."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


class Runner:
    """One run of one method on one problem."""

    def __init__(
        self,
        carried: Carried,
        oracle: Counting,
        reg: Any,
        steps: Any,
        sampler: Any,
        order: Any,
        resample: Any,
        evaluation_sample: Any,
        limits: Limits,
        every: int,
        callback: Callable[[Report], Any] | None,
        progress: bool,
    ) -> None:
        self.carried, self.oracle, self.reg, self.steps = carried, oracle, reg, steps
        self.limits, self.every, self.callback = limits, every, callback
        self.sampler, self.order, self.resample = sampler, order, resample
        self.progress = progress
        self._evaluation_sample = evaluation_sample
        self._last_fun = self._last_certificate = math.nan
        self._smooth_finite = True
        self._prox = CountingProx(reg)
        self._prox.calls = carried.prox_calls
        oracle.gradients, oracle.values, oracle.hvps = (
            carried.gradients, carried.values, carried.hvps,
        )  # fmt: skip

    def evaluate(self, x: Point) -> tuple[float, float]:
        """F(x) and its certificate; not counted as part of the run."""
        with np.errstate(over="ignore", invalid="ignore"):
            fun, gradient = self.oracle.evaluate(x, self._evaluation_sample)
            self._smooth_finite = math.isfinite(fun)
            blocks = x.blocks()
            fun += sum(self.reg.value(j, u) for j, u in enumerate(blocks))
            return fun, certificate(blocks, gradient, self.reg, self.steps.metric)

    def run(self) -> Ending:
        """Cycle until something says stop."""
        carried, limits = self.carried, self.limits
        state = carried.state
        at_start = Seen(state.k, state.x, math.nan, math.nan)
        if not carried.history["cycle"]:
            self._record(at_start)
        else:
            self._last_fun = carried.history["fun"][-1]
            self._last_certificate = carried.history["certificate"][-1]
        steps = iterate(
            state, self.oracle, self._prox, self.steps, self.sampler, self.order, self.resample
        )
        bar = Bar(carried.method, limits.max_cycles, self.progress)
        before = state.x.copy()
        try:
            # Overflow is not worth a warning: what is not finite ends the run with a message.
            with Interrupt() as interrupt, bar, np.errstate(over="ignore", invalid="ignore"):
                self._stop_if_stationary(at_start)
                self._stop_if_spent(state, before)
                while True:
                    before = state.x.copy()
                    self._advance(steps, before)
                    seen = self._look(state, before)
                    bar.show(state.k, self._last_fun, self._last_certificate)
                    self._stop_if_done(seen)
                    if interrupt.asked:
                        self._see_last(seen)
                        message = f"interrupted after cycle {state.k}; the best so far is returned"
                        raise Stop(Ending(self._best(state.x), False, message))
        except Stop as stop:
            ending = stop.ending
        except KeyboardInterrupt:
            message = f"interrupted in cycle {state.k + 1}; the best so far is returned"
            ending = Ending(self._best(before), False, message, resumable=False)
        carried.gradients, carried.prox_calls = self.oracle.gradients, self._prox.calls
        carried.values, carried.hvps = self.oracle.values, self.oracle.hvps
        carried.steps = self.steps.memory()
        return ending

    def _advance(self, steps: Any, before: Point) -> None:
        """One cycle, timed."""
        begun = time.perf_counter()
        try:
            next(steps)
        except (LineSearchError, StreamEnded) as error:
            raise Stop(Ending(before, False, str(error), resumable=False)) from None
        finally:
            self.carried.seconds += time.perf_counter() - begun

    def _look(self, state: State, before: Point) -> Seen:
        """What x_k is like; evaluated when it is due."""
        x, limits = state.x, self.limits
        if not all(all_finite(a) for a in x.leaves):
            raise Stop(self._not_finite(before, state.k, "x"))
        change = math.nan
        if self.carried.rule.needs_change or limits.change_tol is not None or self._due(state.k):
            change = self._change(x, before)
        seen = Seen(state.k, x, change, math.nan)
        # The certificate is about the size of the change (Lemma 2), so look when that is small.
        near = limits.tol is not None and change <= limits.tol
        if near or self._due(state.k) or state.k == limits.max_cycles:
            if math.isnan(change):
                seen.change = self._change(x, before)
            self._record(seen)
            # r may be +∞ where a block that started outside its domain has not had its turn yet.
            if not self._smooth_finite or math.isnan(seen.fun):
                raise Stop(self._not_finite(before, state.k, "F"))
        self.carried.rule.see(seen)
        return seen

    def _change(self, x: Point, before: Point) -> float:
        """‖x_k − x_{k−1}‖_Λ."""
        pairs = zip(x.blocks(), before.blocks(), strict=True)
        return math.sqrt(sum(norm2(a - b, self.steps.metric(j)) for j, (a, b) in enumerate(pairs)))

    def _due(self, k: int) -> bool:
        return k % self.every == 0

    def _record(self, seen: Seen) -> None:
        seen.fun, self._last_certificate = self.evaluate(seen.x)
        self._last_fun = seen.fun
        row = (
            seen.k, self.oracle.gradients, self.carried.seconds, seen.fun, self._last_certificate,
            seen.change,
        )  # fmt: skip
        for name, value in zip(HISTORY, row, strict=True):
            self.carried.history[name].append(value)
        self.carried.best.see(seen)

    def _stop_if_done(self, seen: Seen) -> None:
        limits = self.limits
        if self.callback is not None and self.callback(self._report(seen)) is True:
            self._see_last(seen)
            raise Stop(Ending(self._returned(seen.x), False, "stopped by the callback"))
        if self._spent(self.carried.state) is not None:
            self._see_last(seen)
        self._stop_if_stationary(seen)
        if limits.change_tol is not None and seen.change <= limits.change_tol:
            message = f"still: ‖x_k − x_{{k−1}}‖_Λ ≤ change_tol = {limits.change_tol:g}"
            raise Stop(Ending(seen.x, True, message))
        self._stop_if_spent(self.carried.state, seen.x)

    def _see_last(self, seen: Seen) -> None:
        """Look at the last iterate of a run, if it was not looked at already."""
        if math.isnan(seen.fun):
            self._record(seen)

    def _stop_if_stationary(self, seen: Seen) -> None:
        tol = self.limits.tol
        if tol is not None and not math.isnan(seen.fun) and self._last_certificate <= tol**2:
            message = f"stationary: dist(∂F(x), 0) ≤ tol = {tol:g}"
            raise Stop(Ending(seen.x, True, message))

    def _spent(self, state: State) -> str | None:
        """Which limit is reached, if one is."""
        limits, spent = self.limits, None
        if limits.max_cycles is not None and state.k >= limits.max_cycles:
            spent = f"max_cycles = {limits.max_cycles} reached"
        elif limits.max_samples is not None and (
            self.oracle.gradients >= limits.max_samples * (1 - 1e-12)  # shares add up to rounding
        ):
            spent = f"max_samples = {limits.max_samples:g} reached"
        elif limits.max_seconds is not None and self.carried.seconds >= limits.max_seconds:
            spent = f"max_seconds = {limits.max_seconds:g} reached"
        return spent

    def _stop_if_spent(self, state: State, x: Point) -> None:
        limits, spent = self.limits, self._spent(state)
        if spent is not None:
            if limits.tolerant:
                spent += " before the tolerance"
            raise Stop(Ending(self._returned(x), not limits.tolerant, spent))

    def _report(self, seen: Seen) -> Report:
        return Report(
            seen.k, self.oracle.gradients, self.carried.seconds, self._last_fun,
            self._last_certificate, seen.change, seen.x.whole(),
        )  # fmt: skip

    def _returned(self, x: Point) -> Point:
        kept = self.carried.rule.x
        return x if kept is None else kept

    def _best(self, x: Point) -> Point:
        return self._returned(x) if self.carried.best.x is None else self.carried.best.x

    def _not_finite(self, before: Point, k: int, what: str) -> Ending:
        """A run that left the numbers: the last finite iterate, or the best if F fails there."""
        message = (
            f"{what} is not finite after cycle {k}; the last finite iterate is returned. "
            "A smaller eta (or larger L) may help"
        )
        fun, _ = self.evaluate(before)
        x = before if math.isfinite(fun) else self._best(before)
        return Ending(x, False, message, resumable=False)
