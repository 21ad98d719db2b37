"""The start at the next λ, predicted from the last solutions: on a path, and to a single fit's λ.

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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.columns import Columns
from cyclade.linear.kernels.losses import secants
from cyclade.linear.loss_at import LossAt
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, lifted, step_length
from cyclade.linear.screening import Gradient
from cyclade.linear.state import State, judge, measure, rebase
from cyclade.linear.subproblem.coordinate import minimise_model

Array = NDArray[Any]
ROUNDING = float(np.sqrt(numerics.EPS))  # of z: for shorter moves φ'' itself is as good


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
            enough = tuning.predictor_distance if problem is stages[-1] else 0.5
            limits = problem.penalty.zero_threshold
            last = state.measured.problem.penalty.zero_threshold
            bar = limits if (limits < tuning.strong_rule_step * last).any() else 2.0 * limits - last
            before, self.z = self.z, state.loss_at.z
            curvature = on_the_way(problem, state.loss_at, before)
            for _ in range(tuning.predictor_steps):
                V = candidates(problem, state, bar)
                if state.passes >= budget or not self.step(problem, state, V, curvature, budget):
                    return
                near = state.measured.distance <= enough * problem.penalty.top
                if near or (state.enough and state.measured.gap <= state.enough):
                    break
                bar, curvature = limits, state.loss_at.second

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
    secants(ends.z, ends.u, loss_at.z, loss_at.u, loss_at.second, ROUNDING, out)
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
    large, step = problem.design.entries > tuning.large, tuning.lam_step[0]
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
    stages = int(np.ceil(np.log(lam / largest) / np.log(step) - 1e-9))  # 2 and rounding is 2
    return [float(at) for at in np.geomspace(largest, lam, stages + 1)[1:-1]]
