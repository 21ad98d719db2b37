"""A tall dense X: Newton steps whose curvature comes from a sample of the rows.

Products A diag(w) Aᵀ over all rows cost about p/2 gradients. A sample of m ≫ p rows has the same
curvature to within a factor 1 ± O(√(p/m)). So with the exact gradient g of all rows

    d = argmin  gᵀd + ½ dᵀĜd + r(x + d),   Ĝ from the sample,

leaves about √(p/m) of the distance from the solution, and a few such steps cost less than exact
products. Every step ends with a check of all columns: the solution and its certificate are as exact
as any. A squared loss bends everywhere alike, so there a step d tells Gd = Δg exactly, and Ĝ learns
it (BFGS). Where rows are too different, as with few rows of huge leverage, steps bring the distance
down too little; then the next strategy of the table goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import curvatures, line_search
from cyclade.linear.state import State, measure
from cyclade.linear.subproblem.gram import Gram

Array = NDArray[Any]


def suits(problem: Problem, state: State) -> bool:
    """Whether X is very tall, the loss convex, and the last step came far enough."""
    penalty, kept = problem.penalty, state.kept.get("sampled")
    if not (problem.is_very_tall and problem.loss.convex and penalty.is_scalar and penalty.shipped):
        return False
    return kept is None or bool(kept.converges(problem, state))


def improve(problem: Problem, state: State, W: Array, goal: float, budget: int) -> bool:
    """One step, with a check of all columns at its end; whether F fell. W is not used."""
    kept = state.kept.get("sampled")
    if kept is None:
        kept = state.kept["sampled"] = SampledNewton(problem)
    return bool(kept.step(problem, state, budget))


class SampledNewton:
    """A sample of the rows, products of columns on it, and how far the last step came."""

    def __init__(self, problem: Problem) -> None:
        tuning, (n, p) = problem.tuning, (problem.design.n, problem.design.p)
        self.rows = sample(n, tuning.sampled_rows * p, tuning.sampled_run)
        s = problem.s[self.rows]
        self.s = s / max(float(s.sum()), np.finfo(np.float64).tiny)
        self.cols = np.empty(0, np.int64)  # with products, in order
        self.A, self.G, self.means = np.empty((0, 0)), np.empty((0, 0)), np.empty(0)
        self.last: tuple[BoundPenalty | None, float] = None, np.inf  # penalty and distance then

    def converges(self, problem: Problem, state: State) -> bool:
        """Whether the last step for this penalty, if there was one, came far enough."""
        penalty, distance = self.last
        rate = problem.tuning.sampled_rate
        return penalty is not problem.penalty or state.measured.distance <= rate * distance

    def step(self, problem: Problem, state: State, budget: int) -> bool:
        """Towards the minimum of the model, as far as F falls; False if it does not."""
        penalty, now, x, tuning = problem.penalty, state.measured, state.x, problem.tuning
        self.form(problem, state)
        V, self.last = self.cols, (penalty, now.distance)
        g = now.gradient.exactly(V) - self.means * now.slope
        gram = Gram.of(self.G, -g, x[V], V, penalty, tuning)
        top = penalty.top if 0 < penalty.top < np.inf else np.inf
        precision = tuning.model_precision * min(now.distance, top)
        made = gram.minimise(precision, budget - state.passes)
        state.passes += made
        if not made:
            return False
        dx, new = gram.x - x[V], x.copy()
        shift = -float(self.means @ dx)
        new[V] = gram.x
        end = problem.loss_at(problem.predict(new, state.c + shift))
        t, there = line_search(
            problem, state.loss_at, end, lambda t: penalty.total(V, x[V] + t * dx)
        )
        if t == 0.0:
            return False
        new[V] = gram.x if t == 1.0 else x[V] + t * dx
        state.loss_at, state.c = problem.shifted(there, state.c + t * shift)
        state.x, state.working, state.fresh = new, V, t == 1.0
        state.measured = ahead = measure(problem, new, state.loss_at)
        if problem.loss.quadratic:
            self.learn(t * dx, ahead.gradient.exactly(V) - self.means * ahead.slope - g)
        return True

    def form(self, problem: Problem, state: State) -> None:
        """Products of the support and the columns that violate or are close to it."""
        now, limits = state.measured, problem.penalty.zero_threshold
        moving = (state.x != 0) | (now.distances > 0)
        moving |= np.abs(now.g) > problem.tuning.near * limits
        exact = problem.loss.quadratic
        outside = moving.copy()
        outside[self.cols] = False
        if outside.any() or not self.cols.size:
            moving[self.cols] |= exact
            if exact and 4 * np.count_nonzero(moving) > moving.size:
                moving[:] = True  # others would come in soon, and products are made once
            self.cols = np.flatnonzero(moving)
            self.A = part(problem.design, self.rows, self.cols)
        elif exact:
            return
        w = self.s
        if not exact:
            curvature = curvatures(problem.loss, problem.tuning, state.loss_at, 1.0, state.trust)
            w = w * curvature[self.rows]
        A = self.A if w.min() == w.max() else self.A * np.sqrt(w)[:, None]
        self.G, self.means = A.T @ A, np.zeros(self.cols.size)
        self.G *= w[0] if A is self.A else 1.0
        if problem.fit_intercept:  # minimised over first
            sums, least = w @ self.A, problem.tuning.least_curvature * self.G.diagonal()
            self.means = sums / float(w.sum())
            self.G -= np.outer(sums, self.means)
            self.G.flat[:: self.cols.size + 1] = np.maximum(self.G.diagonal(), least)

    def learn(self, d: Array, dg: Array) -> None:
        """Change G, as little as leaves it positive definite, to one with Gd = dg."""
        Gd = self.G @ d
        guessed, true = float(d @ Gd), float(d @ dg)
        if guessed > 0.0 and true > 0.0:
            self.G += np.outer(dg, dg / true) - np.outer(Gd, Gd / guessed)


def sample(n: int, m: int, run: int) -> Array:
    """About m of n rows, in runs of neighbours evenly spread over all of them.

    Examples
    --------
    >>> sample(100, 4, 2)
    array([ 0,  1, 98, 99])
    """
    if m >= n:
        return np.arange(n)
    starts = np.linspace(0, n - run, max(m // run, 2)).astype(np.int64)
    return np.asarray((starts[:, None] + np.arange(run)).ravel())


def part(design: Any, rows: Array, cols: Array) -> Array:
    """These rows and columns of X, in float64."""
    if not design.by_columns:
        return np.asarray(design.X[rows][:, cols], np.float64)
    out = np.empty((rows.size, cols.size), order="F")
    for k, j in enumerate(cols):
        out[:, k] = design.X[:, j][rows]
    return out
