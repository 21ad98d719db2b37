"""Continuation: through larger λ, straighter penalties and wider losses to a start.

A working set chosen at zero for a small λ is mostly wrong, and a nonconvex problem has many
minima. So λ is lowered in a few steps, with one working set each, roughly solved. For a nonconvex
penalty that is done with its convex part, down to the λ wanted; from there the penalty is made
nonconvex step by step. That mostly ended in lower minima than following it down in λ.

Losses that are curved in a narrow window only are approached through wider ones (`Softening`).
The Huber loss with δ far below the spread of the residuals, or a quantile with hardly any
smoothing, is all but piecewise linear: φ'' is zero on nearly all rows, and quadratic models tell
nothing about the next step. Wider windows with the same slopes far out are easy, and each solution
is a good start for the next: along them the rows inside the window hardly change.

A path is followed by the start at the next λ, predicted from the last solutions.

Squared loss, groups: solutions, z and gradients are nearly linear in λ while the same blocks are
in, so the line through the last two solutions predicts the next without a pass over X.

Curved losses, scalar penalties: one quadratic model per λ. The gradient is known from the check
that the last λ ended with. The curvature is the mean of φ'' along the way δ, as far as the last
step tells where that goes, since  φ'(z + δ) = φ'(z) + (mean of φ'' between) δ:  so one model is as
good as two Newton steps. Its columns are the support and those that the strong rule,
|∇_j f| > λ − (λ_before − λ), does not rule out; in larger steps those that violate optimality. A
check of all columns follows; what is missing is left to another such step, and then to the working
sets.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels.losses import secants
from cyclade.linear.loss_at import LossAt
from cyclade.linear.panels.protocols import Columns
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, lifted, step_length
from cyclade.linear.screening import Gradient
from cyclade.linear.state import State, begin, judge, measure, rebase
from cyclade.linear.subproblem.coordinate import minimise_model
from cyclade.linear.tuning import DEFAULT, Tuning
from cyclade.linear.working_set import improve, minimise, most_violate, products_are_dear

Array = NDArray[Any]


class Continuation:
    """From x = 0 near the solution, where a scalar penalty has a λ to follow."""

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """Bring a state at x = 0 near the solution; any other is left alone."""
        if problem.penalty.is_scalar and not state.x.any():
            approach(problem, state, max_passes)
        return state


def approach(problem: Problem, state: State, max_passes: int) -> None:
    """One working set, roughly solved, at each of a few λ on the way."""
    convex = problem.penalty.convex
    if problem.loss.convex and convex:
        if most_violate(problem, state) or products_are_dear(problem, state):  # all at once
            return
        if not problem.loss.quadratic and warm_start(problem, state, max_passes):
            return
    for at, lam, distance in easier(
        problem.penalty.penalty, convex, problem.loss.convex, state.measured.g, problem.tuning
    ):
        if state.passes >= max_passes:
            break
        stage = problem.at(at)
        rebase(stage, state)
        improve(stage, state, distance * lam, lam, max_passes)
    rebase(problem, state)


def easier(
    penalty: Any, convex: bool, easy: bool, g: Array, tuning: Tuning
) -> list[tuple[Any, float, float]]:
    """Penalties on the way from zero, each with its λ and the distance in λ that is enough.

    `g` is the gradient at zero; `convex` is of the penalty, `easy` says that the loss is convex.
    """
    guide = penalty if convex else _convex_part(penalty)
    if not all(hasattr(guide, name) for name in ("lam", "scaled", "lam_max")):
        return []
    largest, lam, step = float(guide.lam_max(g)), float(guide.lam), tuning.lam_step
    if not 0 < lam < largest < math.inf or (convex and easy and lam > step**2 * largest):
        return []
    stages = [(guide.scaled(at), at, tuning.forcing) for at in lams_between(largest, lam, step)]
    if not convex:
        bent = [penalty.straighter(times) for times in (tuning.hop**2, tuning.hop)]
        stages += [(at, lam, tuning.rough) for at in (guide, *bent)]
    return stages


def _convex_part(penalty: Any) -> Any:
    known = hasattr(penalty, "convex_part") and hasattr(penalty, "straighter")
    return penalty.convex_part() if known else None


class Softening:
    """From x = 0 through easier losses, each solved to `tol`."""

    def __init__(self, easier: list[Any], tol: float, report: Any) -> None:
        self.easier, self.tol, self.report = easier, tol, report

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The state at the solution for the last of the easier losses."""
        x, c, passes = np.zeros(problem.size), 0.0 * state.c, 0
        for loss in self.easier:
            left = (max_passes - passes) // 2
            if left > 0:
                at = problem.with_loss(loss)
                easier = Continuation().advance(at, begin(at, x, c), left)
                minimise(at, easier, self.tol, left, self.report)
                x, c, passes = easier.x, easier.c, passes + easier.passes
        start = begin(problem, x, c)
        start.passes = passes
        return start


def softer(
    loss: Any, penalty: Any, y: Array, offset: Array, fit_intercept: bool = True,
    tuning: Tuning = DEFAULT,
) -> list[Any]:  # fmt: skip
    """Losses to solve first, widest window first; none where the loss is wide enough.

    Nonconvex penalties come down in λ instead, since the way there decides where they end.

    Examples
    --------
    >>> from cyclade.linear.losses import Quantile
    >>> from cyclade.linear.penalties import L1
    >>> softer(Quantile(0.5, smoothing=0.01), L1(0.1), np.arange(6.0), np.zeros(6))
    [Quantile(q=0.5, smoothing=0.27), Quantile(q=0.5, smoothing=0.09),
     Quantile(q=0.5, smoothing=0.03)]
    """
    width = getattr(loss, "width", None)
    if width is None or not getattr(penalty, "convex", False):
        return []
    residuals = y - (offset[:, None] if y.ndim > offset.ndim else offset)
    if fit_intercept:
        residuals = residuals - np.median(residuals, axis=0)
    spread = float(np.median(np.abs(residuals)))
    step = tuning.window_step
    ratio = spread / step**2 / width  # of the first window: half of the residuals are in three such
    if not step < ratio < np.inf:
        return []
    stages = int(np.ceil(np.log(ratio) / np.log(step)))
    most = min(stages, limits.STEPS)
    step = step if stages <= most else ratio ** (1.0 / most)
    return [loss.widened(step**k) for k in range(most, 0, -1)]


class WarmStart:
    """The solution at the last λ, as it is."""

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The same point under another penalty."""
        rebase(problem, state)
        return state


class Extrapolation:
    """The line through the last two solutions, where F is lower there than at the last."""

    def __init__(self) -> None:
        self.solved: list[tuple[float, Array, Array, Any, Array]] = []  # λ, x, z, c, g

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The last solution, or the point on the line at the λ of `problem`."""
        lam, z, g = float(problem.penalty.penalty.lam), state.loss_at.z, state.measured.g
        last = float(state.measured.problem.penalty.penalty.lam)
        self.solved = [*self.solved[-1:], (last, state.x.copy(), z, state.c, g)]
        rebase(problem, state)
        if len(self.solved) < 2 or not self.solved[0][0] > last:
            return state
        old, now = self.solved
        t = (last - lam) / (old[0] - last)
        x, z, c, g = (b + t * (b - a) for a, b in zip(old[1:], now[1:], strict=True))
        there = problem.loss_at(z)
        ahead = judge(problem, x, there, Gradient(None, there.slopes, g))
        if ahead.objective < state.measured.objective:
            state.x, state.c, state.loss_at, state.measured = x, c, there, ahead
            state.fresh = False
        return state


def predictor(problem: Problem) -> WarmStart | Extrapolation | Predictor:
    """The start that suits the problem."""
    if suits(problem):
        return Predictor()
    if problem.loss.quadratic and not (problem.penalty.is_scalar or problem.penalty.is_sorted):
        return Extrapolation()
    return WarmStart()


class Predictor:
    """One quadratic model per λ."""

    def __init__(self) -> None:
        self.z: Array | None = None  # at the solution before the last
        self.columns: Columns | None = None  # of the last model

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """Follow the path to the λ of `problem`, or stay."""
        self.follow([problem], state, max_passes)
        if state.measured.problem is not problem:
            rebase(problem, state)
        return state

    def follow(self, stages: list[Problem], state: State, budget: int) -> None:
        """From one λ to the next, with a model at each and some at the last, while F comes down."""
        tuning = stages[0].tuning
        for problem in stages:
            enough = tuning.close if problem is stages[-1] else 0.5
            own = problem.penalty.zero_threshold
            strong = 2.0 * own - state.measured.problem.penalty.zero_threshold
            bar = own if (strong < tuning.near * own).any() else strong
            before, self.z = self.z, state.loss_at.z
            curvature = on_the_way(problem, state.loss_at, before)
            for _ in range(limits.STEPS):
                V = candidates(problem, state, bar)
                if state.passes >= budget or not self.step(problem, state, V, curvature, budget):
                    return
                near = state.measured.distance <= enough * problem.penalty.top
                if near or (state.enough and state.measured.gap <= state.enough):
                    break
                bar, curvature = own, state.loss_at.second

    def step(
        self, problem: Problem, state: State, V: Array, curvature: Array, budget: int
    ) -> bool:  # fmt: skip
        """A model over the columns V, its minimum and a check there; no if F has not come down.

        What was measured may have been so at the λ before: only the slopes are taken from it.
        """
        columns = self.columns
        if columns is None or not np.isin(V, columns.cols, assume_unique=True).all():
            if not V.size or not problem.design.products_pay(V):
                return False
            columns = self.columns = problem.design.unweighted(V, problem.fit_intercept)
        W, now, here, tuning = columns.cols, state.measured, state.loss_at, problem.tuning
        x, g, moving = state.x[W], now.gradient.exactly(W), np.searchsorted(W, V)
        worst = float(problem.penalty.distances(V, x[moving], g[moving]).max())
        w = problem.s * lifted(problem.loss, tuning, curvature)
        w = np.maximum(w, numerics.FLAT * float(w.max(initial=numerics.TINY)))
        model = Model(problem, here, 1.0, 1.0, w)
        dx, dc, made = minimise_model(
            model, columns, moving, g - columns.centres * now.slope, now.slope, x,
            tuning.model_precision * max(worst, abs(now.slope)), budget - state.passes,
        )  # fmt: skip
        state.passes += made
        dc -= float(columns.centres[moving] @ dx)
        whole = state.x.copy()
        whole[V] += dx
        end = problem.loss_at(problem.predict(whole, state.c + dc, V))
        t, there = step_length(model, V, x[moving], dx, end)
        if t == 0.0 or there.z is here.z:
            return False
        if t < 1.0:
            whole[V] = x[moving] + t * dx
            there = problem.loss_at(problem.predict(whole, state.c + t * dc, V))
        state.x, state.c, state.loss_at = whole, state.c + t * dc, there
        state.measured = measure(problem, whole, there)
        state.working, state.fresh = V, True
        return True


def candidates(problem: Problem, state: State, bar: Array) -> Array:
    """The support, and zeros with |g_j| above the bar: the worst ones, at most about as many."""
    over = np.where(state.x == 0.0, np.abs(state.measured.g) - bar, np.inf)
    V, support = np.flatnonzero(over > 0.0), int(np.count_nonzero(state.x))
    room = support + max(support, problem.tuning.room)
    return V if V.size <= room else np.sort(V[np.argpartition(-over[V], room)[:room]])


def on_the_way(problem: Problem, loss_at: LossAt, before: Array | None) -> Array:
    """The mean of φ'' between z and as far on as it has come from `before`: a difference of φ'."""
    if before is None:
        return loss_at.second
    ends, out = problem.loss_at(2.0 * loss_at.z - before), np.empty_like(loss_at.z)
    secants(ends.z, ends.u, loss_at.z, loss_at.u, loss_at.second, numerics.ROOT, out)
    return out


def suits(problem: Problem) -> bool:
    """Whether models are to be had by products of columns: convex, curved, and in float64."""
    loss, penalty = problem.loss, problem.penalty
    if not (loss.convex and penalty.convex and penalty.shipped) or loss.quadratic:
        return False
    if not penalty.is_scalar or problem.design.dtype != np.float64:
        return False
    return bool(penalty.zero_threshold.min() >= 0 and 0 < penalty.top < np.inf)


def warm_start(problem: Problem, state: State, budget: int) -> bool:
    """Bring a state at x = 0 to the solution, roughly; no if that was not got to.

    Where a check reads very much, λ near λ_max are left to the working sets.
    """
    penalty, tuning = problem.penalty.penalty, problem.tuning
    if not suits(problem):
        return False
    largest, lam = float(penalty.lam_max(state.measured.g)), float(penalty.lam)
    large, step = problem.design.entries > tuning.large, tuning.lam_step
    if not 0 < lam < largest < np.inf or (large and lam > step**2 * largest):
        return False
    stages = lams_between(largest, lam, step)
    easier = [problem.at(penalty.scaled(at)) for at in stages]
    Predictor().follow([*easier, problem], state, budget)
    there = state.measured.problem is problem
    if not there:  # else the last check was made at this λ, and what it knows is kept
        rebase(problem, state)
    return there


def lams_between(largest: float, lam: float, step: float) -> list[float]:
    """λ strictly between, decreasing by the factor `step` or a little less."""
    stages = int(
        np.ceil(np.log(lam / largest) / np.log(step) - numerics.ROOT)
    )  # 2 and rounding is 2
    return [float(at) for at in np.geomspace(largest, lam, stages + 1)[1:-1]]
