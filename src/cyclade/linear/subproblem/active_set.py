"""Nonconvex losses under r = Σ λ_j |x_j|: an active-set Newton method on products of columns.

A majoriser's weights make short steps, and weights without the φ'' < 0 of outliers make a model
that is blind where they bend F most. So φ'' is taken as it is: G = A diag(sφ'') Aᵀ is positive
definite on the support at a minimum, and `kernels/pivots.py` asks for no more. So steps converge as
Newton's do. Where G is not, rows with φ'' < 0 get a part of the majoriser's weight.

Far from the minimum outliers hardly bend the loss, and what the other rows leave undetermined is
left to the kinks of r: the solution is close to a corner, and cycles would creep along edges
towards it, while pivots walk from corner to corner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels import linalg
from cyclade.linear.kernels.pivots import pivots
from cyclade.linear.loss_at import LossAt
from cyclade.linear.panels.protocols import Columns
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import curvatures, line_search
from cyclade.linear.state import Measured, State, measure

Array = NDArray[Any]


def suits(problem: Problem, state: State) -> bool:
    """Whether products of the support are affordable, for a nonconvex loss and a weighted l1 norm.

    Where they are expensive, cycles make progress sooner far from the minimum; where they are very
    expensive, cycles are tried first in any case.
    """
    tuning = problem.tuning
    if problem.loss.convex or not problem.penalty.is_norm:
        return False
    cycles, few = price(problem, state.x), np.count_nonzero(state.x) <= tuning.most_columns
    if cycles <= tuning.pivot_cycles:
        return True
    if not few or state.measured.distance > tuning.rough * problem.penalty.top:
        return False
    return bool(state.kept.get("slow")) or cycles <= limits.CYCLES


def price(problem: Problem, x: Array) -> float:
    """What products and a factor of the columns with x ≠ 0 cost, in cycles over them."""
    k, e = int(np.count_nonzero(x)), problem.design.entries / problem.design.p
    return k / 8 + k * k / (6.0 * max(e, 1.0))


def improve(problem: Problem, state: State, W: Array, target: float, budget: int) -> bool:
    """Newton steps until all columns are at the target distance; whether any step was made.

    Every step chooses its own columns and checks all of them, so W is not used.
    """
    kept = state.kept.get("active_set") or ActiveSetNewton(problem.design.p)
    state.kept["active_set"] = kept
    return bool(kept.minimise(problem, state, state.target, budget))


class ActiveSetNewton:
    """Steps on products of the support and the columns close to it; copies of columns are kept."""

    columns: Columns
    means: Array  # of the columns with products, in the order of these

    def __init__(self, p: int) -> None:
        self.place = np.full(p, -1)  # of a coordinate among the columns
        self.cols = np.empty(0, np.int64)  # coordinates with products, in order
        self.G, self.factor, self.mass = np.empty((0, 0)), np.empty((0, 0)), 1.0
        self.true_hessian = False  # whether products have φ'' as it is
        self.fallback = False  # whether that has just failed

    def minimise(self, problem: Problem, state: State, target: float, budget: int) -> bool:
        """Steps until the distance is below the target, or they fail; whether any was made."""
        moved, begun, target = False, state.passes, max(target, numerics.TINY)
        for _ in range(limits.STEPS):
            now, V = state.measured, candidates(problem, state)
            if now.distance <= target or state.passes >= budget or not suits(problem, state):
                break
            if not V.size:
                break
            self.take(problem, V)
            first = self.distance(now)
            state.passes += 1
            if not (self.form(problem, state) and self.step(problem, state, target, budget)):
                if not self.true_hessian:
                    break
                self.fallback = True
                continue
            moved = True
            no_nearer = self.distance(state.measured) >= first
            if no_nearer and state.measured.objective >= now.objective:  # rounding level
                break
        state.working = self.cols
        if not moved:
            state.passes = begun
        return moved

    def distance(self, measured: Measured) -> float:
        """From optimal, of the columns with products and the intercept."""
        return max(float(measured.distances[self.cols].max()), abs(float(measured.slope)))

    def take(self, problem: Problem, V: Array) -> None:
        """Copy the columns V, unless they are there."""
        if not (self.place[V] >= 0).all():
            self.columns = problem.design.unweighted(V, problem.fit_intercept)
            self.place[:] = -1
            self.place[self.columns.cols] = np.arange(self.columns.cols.size)
        self.cols = V

    def form(self, problem: Problem, state: State) -> bool:
        """Products, and their factor on the support; False if that is not positive definite."""
        loss_at, S = state.loss_at, np.flatnonzero(state.x[self.cols])
        second = problem.s * loss_at.second
        fallback, self.fallback = self.fallback, False
        self.true_hessian = not fallback and 0 < S.size <= int(np.count_nonzero(second > 0))
        if self.true_hessian:
            self.true_hessian = self.profile(problem, second) and self.refactor(S, 0.0)
        if self.true_hessian:
            return True
        w = problem.s * curvatures(problem.loss, problem.tuning, loss_at, 1.0, state.trust)
        self.profile(problem, w)
        self.G.flat[:: self.cols.size + 1] *= 1.0 + numerics.FLAT
        return self.refactor(S, 0.0) or self.refactor(S, numerics.ROOT)

    def profile(self, problem: Problem, w: Array) -> bool:
        """G, with the intercept minimised over first; False if that has no minimum."""
        at = self.place[self.cols]
        self.means, self.mass = self.columns.centres[at], float(w.sum())
        if problem.fit_intercept and not self.mass > 0:
            return False
        self.G = self.columns.products(at, w)
        if problem.fit_intercept:
            sums = self.columns.slopes(w, at)
            linalg.subtract_outer(self.G, 0, sums, sums / self.mass)
            self.means = self.means + sums / self.mass
        return True

    def refactor(self, S: Array, ridge: float) -> bool:
        """The Cholesky factor of G_SS, with room for more; False if it is not positive definite."""
        m, k = self.cols.size, S.size
        H = self.G[np.ix_(S, S)]
        H.flat[:: k + 1] += ridge * self.G.diagonal()[S]
        lower = linalg.cholesky(H)
        if lower is None:
            return False
        self.factor = np.empty((m, m))
        self.factor[:k, :k] = lower
        return True

    def step(self, problem: Problem, state: State, target: float, budget: int) -> bool:
        """To the minimum of the model, or part of the way; False if F does not fall."""
        penalty, now, V, tuning = problem.penalty, state.measured, self.cols, problem.tuning
        x, lam = state.x[V], penalty.zero_threshold[V]
        new, c = x.copy(), self.means * now.slope - now.gradient.exactly(V)
        target = max(tuning.inner_part * target, tuning.forcing * now.distance)
        S, order = np.flatnonzero(new), np.empty(V.size, np.int64)
        order[: S.size] = S
        made, _, kept_out = pivots(
            self.G, c, new, lam, self.factor, order, S.size, budget - state.passes, target
        )
        state.passes += int(made)
        dx = new - x
        if not (dx.any() and np.isfinite(dx).all()):
            return False
        shift = -float(self.means @ dx)
        if problem.fit_intercept:
            shift -= now.slope / self.mass
        t = move(problem, state, V, new, shift, longer=not self.true_hessian)
        if not self.true_hessian:  # where φ'' < 0 a good model may have smaller weights still
            trust = 0.5 * state.trust if t >= 1.0 else 2.0 * state.trust
            state.trust = min(max(trust, tuning.least_curvature), 1.0)
        self.fallback = self.true_hessian and (t < 1.0 or kept_out > 0)
        return t > 0


def move(problem: Problem, state: State, V: Array, new: Array, shift: float, longer: bool) -> float:
    """Go towards `new` as far as F falls (Armijo), and measure all columns there.

    With `longer`, 2, 4, … times the way is tried: a majoriser makes short steps.
    """
    penalty, here, x, dx = problem.penalty, state.loss_at, state.x[V], new - state.x[V]

    def point(t: float) -> Array:
        """x at t; beyond 1, coordinates stop where they leave the orthant of `new`."""
        at = x + t * dx if t != 1.0 else new
        return np.where((new == 0) | (at * new < 0), 0.0, at) if t > 1.0 else at

    def there(t: float) -> LossAt:
        at, whole = point(t), state.x.copy()
        whole[V] = at
        return problem.loss_at(problem.predict(whole, state.c + t * shift, V[at != 0]))

    t, loss_at = line_search(
        problem, here, there(1.0), lambda t: penalty.total(V, point(t)),
        there=there if longer else None, further=1.5,
    )  # fmt: skip
    if t == 0.0:
        return t
    state.x = state.x.copy()
    state.x[V], state.c = point(t), state.c + t * shift
    if t < 1.0:
        loss_at = problem.loss_at(problem.predict(state.x, state.c))
    state.loss_at, state.fresh = loss_at, True
    state.measured = measure(problem, state.x, loss_at)
    return t


def candidates(problem: Problem, state: State) -> Array:
    """The support, and the zeros with |g_j| closest to their threshold or above it."""
    tuning, limits, size = problem.tuning, problem.penalty.zero_threshold, np.abs(state.measured.g)
    support = np.flatnonzero(state.x)
    close = np.flatnonzero((state.x == 0) & (size > (1.0 - 0.5 * tuning.forcing) * limits))
    room = max(tuning.room, support.size)
    if close.size > room:
        with np.errstate(divide="ignore"):
            part = size[close] / limits[close]
        close = close[np.argpartition(-part, room)[:room]]
    return np.sort(np.concatenate([support, close]))
