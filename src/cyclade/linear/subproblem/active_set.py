"""Nonconvex losses under r = Σ λ_j |x_j|: Newton models on products of the columns that matter.

A majoriser's weights make short steps, and weights without the φ'' < 0 of outliers make a model
that is blind where they bend F most. So φ'' is taken as it is: G = A diag(sφ'') Aᵀ is positive
definite on the support at a minimum, and steps converge as Newton's do. Columns along which F is
bent down wait. Where it is on the support, rows with φ'' < 0 get part of the majoriser's weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels import linalg
from cyclade.linear.loss_at import LossAt
from cyclade.linear.panels.protocols import Columns
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import curvatures, line_search
from cyclade.linear.state import Measured, State, measure
from cyclade.linear.subproblem.gram import Gram, profiled_products

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
    if cycles <= tuning.support_cycles:
        return True
    if not few or state.measured.distance > tuning.rough * problem.penalty.scale:
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
    moved, begun, true_hessian = False, state.passes, True
    target = max(state.target, numerics.TINY)
    for _ in range(limits.STEPS):
        now, V = state.measured, candidates(problem, state)
        at_the_end = now.distance <= target or state.passes >= budget
        if at_the_end or not V.size or not suits(problem, state):
            break
        state.working, state.passes = V, state.passes + 1
        model = QuadraticModel(problem, state, V, true_hessian)
        t = model.step(problem, state, target, budget)
        left_out = now.distances[np.setdiff1d(V, model.V, assume_unique=True)]
        true_hessian = not model.true_hessian or (t >= 1.0 and not left_out.any())
        if t == 0.0:
            if not model.true_hessian:
                break
            continue
        moved, there = True, state.measured
        no_nearer = distance_on(V, there) >= distance_on(V, now)
        if no_nearer and there.objective >= now.objective:  # rounding level
            break
    if not moved:
        state.passes = begun
    return moved


def distance_on(V: Array, measured: Measured) -> float:
    """From optimal, of the columns V and the intercept."""
    return max(float(measured.distances[V].max()), abs(float(measured.slope)))


class QuadraticModel:
    """F around the point of a state, over the columns V, or over those along which it bends up."""

    def __init__(self, problem: Problem, state: State, V: Array, true_hessian: bool) -> None:
        here, penalty = state.loss_at, problem.penalty
        columns: Columns | None = state.kept.get("active_set")
        if columns is None or not np.isin(V, columns.cols, assume_unique=True).all():
            columns = problem.design.unweighted(V, problem.fit_intercept)
            state.kept["active_set"] = columns
        at, some = np.searchsorted(columns.cols, V), None
        w, centred = problem.s * here.second, problem.fit_intercept
        if true_hessian and w.sum() > 0:
            G, means = profiled_products(columns, at, w, centred)
            with np.errstate(divide="ignore"):
                pull = np.abs(state.measured.g[V]) / penalty.zero_threshold[V]
            rank = np.argsort(-np.where(state.x[V] != 0, np.inf, pull))
            some = convex_part(G, rank, int(np.count_nonzero(state.x)))
        self.true_hessian = some is not None
        if some is None:
            w = problem.s * curvatures(problem.loss, problem.tuning, here, 1.0, state.trust)
            G, means = profiled_products(columns, at, w, centred)
            some = np.arange(V.size)
        self.G, self.V, self.mass = G[np.ix_(some, some)], V[some], float(w.sum())
        self.means = columns.centres[at[some]] + means[some]

    def step(self, problem: Problem, state: State, target: float, budget: int) -> float:
        """To the minimum of the model, or part of the way; what part, 0 if F does not fall."""
        now, V, tuning = state.measured, self.V, problem.tuning
        x, c = state.x[V], self.means * now.slope - now.gradient.exactly(V)
        target = max(tuning.inner_part * target, tuning.model_precision * now.distance)
        gram = Gram.of(self.G, c, x, V, problem.penalty, tuning)
        state.passes += gram.minimise(target, budget - state.passes)
        dx = gram.x - x
        if not (dx.any() and np.isfinite(dx).all()):
            return 0.0
        shift = -float(self.means @ dx) - now.slope / self.mass * problem.fit_intercept
        t = move(problem, state, V, gram.x, shift, longer=not self.true_hessian)
        if not self.true_hessian:  # where φ'' < 0 a good model may have smaller weights still
            trust = 0.5 * state.trust if t >= 1.0 else 2.0 * state.trust
            state.trust = min(max(trust, tuning.least_curvature), 1.0)
        return t


def convex_part(G: Array, rank: Array, support: int) -> Array | None:
    """Columns on which G is positive semidefinite: the first of `rank`, and what goes with them.

    The first `support` of these must be among them; else None.
    """
    S, Z = rank[:support], rank[support:]
    factor = linalg.cholesky(G[np.ix_(S, S)]) if support else None
    if factor is None:
        return None
    cross, inside = G[np.ix_(S, Z)], np.zeros(Z.size, bool)
    left, least = G[np.ix_(Z, Z)] - cross.T @ linalg.solve(factor, cross), G.diagonal()[Z]
    for j in range(Z.size):
        inside[j] = left[j, j] >= -numerics.ROOT * least[j] and least[j] > 0
        if inside[j]:
            pivot = max(left[j, j], numerics.FLAT * least[j])
            left -= np.outer(left[j], left[j] / pivot)
    return np.sort(np.concatenate([S, Z[inside]]))


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
    room = max(tuning.room, support.size // 2)
    if close.size > room:
        with np.errstate(divide="ignore"):
            part = size[close] / limits[close]
        close = close[np.argpartition(-part, room)[:room]]
    return np.sort(np.concatenate([support, close]))
