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

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import threads
from cyclade.linear.kernels import linalg
from cyclade.linear.kernels.dense import pick
from cyclade.linear.kernels.products import add_products, centre_products, room
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import curvatures, line_search
from cyclade.linear.state import State, measure
from cyclade.linear.subproblem.gram import Gram

Array = NDArray[Any]
Stages = Sequence[tuple[BoundPenalty, float]]  # penalties, each with a distance


def suits(problem: Problem, state: State) -> bool:
    """Whether X is very tall, the loss convex, and the last step came far enough."""
    penalty, kept = problem.penalty, state.kept.get("sampled")
    if not (problem.is_very_tall and problem.loss.convex and penalty.is_scalar and penalty.shipped):
        return False
    return kept is None or bool(kept.converges(problem, state))


def improve(problem: Problem, state: State, W: Array, goal: float, budget: int) -> bool:
    """One step, with a check of all columns at its end; whether F fell. W is not used."""
    newton = newton_of(problem, state)
    if newton.step(problem, state, budget):
        return True
    newton.last = problem.penalty, 0.0  # the next would fail too
    return False


def newton_of(problem: Problem, state: State) -> SampledNewton:
    """The steps of this fit."""
    if "sampled" not in state.kept:
        state.kept["sampled"] = SampledNewton(problem)
    return state.kept["sampled"]  # type: ignore[no-any-return]


class SampledNewton:
    """A sample of the rows, products of columns on it, and how far the last step came."""

    def __init__(self, problem: Problem) -> None:
        tuning, (n, p) = problem.tuning, (problem.design.n, problem.design.p)
        # Products of the sample cost about as much as a step, which is two passes over X.
        least, most = tuning.sampled_rows
        many = min(max(2.0 * n / (tuning.cost.product * p), least * p), most * p)
        self.rows = sample(n, int(many), tuning.sampled_run)
        s = problem.s[self.rows]
        self.s = s / max(float(s.sum()), np.finfo(np.float64).tiny)
        self.cols = np.empty(0, np.int64)  # with products, in order
        self.A, self.G = np.empty((0, 0)), np.empty((0, 0))  # A by columns, about their centres
        self.centres, self.means = np.empty(0), np.empty(0)
        self.last: tuple[BoundPenalty | None, float] = None, np.inf  # penalty and distance then

    def converges(self, problem: Problem, state: State) -> bool:
        """Whether the last step for this penalty, if there was one, came far enough."""
        penalty, distance = self.last
        rate = problem.tuning.sampled_rate
        return penalty is not problem.penalty or state.measured.distance <= rate * distance

    def step(self, problem: Problem, state: State, budget: int, through: Stages = ()) -> bool:
        """Towards the minimum of the model, as far as F falls; False if it does not.

        The minimum is approached `through` those for other penalties, each to a distance.
        """
        penalty, x = problem.penalty, state.x
        self.form(problem, state)
        V, self.last = self.cols, (penalty, state.measured.distance)
        gram, g = self.model(state)
        made = minimise(gram, through, budget - state.passes)
        made += minimise(gram, [(penalty, self.precision(problem, state))], budget - state.passes)
        state.passes += made
        if not made or not np.isfinite(gram.x).all():
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
        state.loss_at, state.c = problem.shifted(there.z, state.c + t * shift, there)
        state.x, state.working, state.fresh = new, V, t == 1.0
        state.measured = ahead = measure(problem, new, state.loss_at)
        if problem.loss.quadratic:
            self.learn(t * dx, ahead.gradient.exactly(V) - self.means * ahead.slope - g)
        return True

    def model(self, state: State) -> tuple[Gram, Array]:
        """The model at the point of `state`, and its gradient there."""
        V, now = self.cols, state.measured
        g = now.gradient.exactly(V) - self.means * now.slope
        return Gram.of(self.G, -g, state.x[V], V, now.problem.penalty, now.problem.tuning), g

    def precision(self, problem: Problem, state: State) -> float:
        """The distance that a model is brought to."""
        top = problem.penalty.top if 0 < problem.penalty.top < np.inf else np.inf
        return float(problem.tuning.model_precision * min(state.measured.distance, top))

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
            self.gather(problem, np.float32)
        elif exact:
            return
        w = self.s
        if not exact:
            curvature = curvatures(problem.loss, problem.tuning, state.loss_at, 1.0, state.trust)
            w = w * curvature[self.rows]
        self.multiply(problem, w)
        if self.A.dtype == np.float32 and not is_precise(self.G):
            self.gather(problem, np.float64)
            self.multiply(problem, w)

    def multiply(self, problem: Problem, w: Array) -> None:
        """G and the means under weights w, with the intercept minimised over first."""
        self.G, sums = products(self.A, w)
        self.means = np.zeros(self.cols.size)
        if problem.fit_intercept:
            least = problem.tuning.least_curvature * self.G.diagonal()
            self.means = self.centres + sums / float(w.sum())
            self.G -= np.outer(sums, sums / float(w.sum()))
            self.G.flat[:: self.cols.size + 1] = np.maximum(self.G.diagonal(), least)

    def gather(self, problem: Problem, dtype: Any) -> None:
        """The sample of the columns, about their means if there is an intercept.

        A sample is far from exact, so that single precision takes nothing away.
        """
        design, cols, rows = problem.design, self.cols, self.rows
        X, centred = design.X, problem.fit_intercept  # type: ignore[attr-defined]
        self.centres = np.zeros(cols.size)
        with np.errstate(over="ignore"):  # the caller looks
            if design.by_columns:
                A = self.A = np.empty((cols.size, rows.size), dtype)
                ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, rows.size)
                firsts = rows[np.append(0, ends[:-1])]
                threads.split(
                    lambda some: pick(
                        X.T, cols[some], firsts, ends, centred, self.centres[some], A[some]
                    ),
                    cols.size, threads.number(A.size, problem.tuning),
                )  # fmt: skip
                return
            A = np.empty((rows.size, cols.size), dtype)
            some = slice(None) if cols.size == design.p else cols
            step = max(problem.tuning.block_entries // design.p, 1)
            parts = [slice(first, first + step) for first in range(0, rows.size, step)]
            if centred:
                sums = (X[rows[part]].sum(axis=0, dtype=np.float64) for part in parts)
                self.centres = sum(sums, np.zeros(design.p))[some] / rows.size
            for part in parts:
                A[part] = X[rows[part]][:, some] - self.centres
            self.A = A.T

    def learn(self, d: Array, dg: Array) -> None:
        """Change G, as little as leaves it positive definite, to one with Gd = dg."""
        Gd = self.G @ d
        guessed, true = float(d @ Gd), float(d @ dg)
        if guessed > 0.0 and true > 0.0:
            self.G += np.outer(dg, dg / true) - np.outer(Gd, Gd / guessed)


def minimise(gram: Gram, stages: Stages, budget: int) -> int:
    """Minimise a model for one penalty after another; the cycles that took.

    They are few: a model that is nearly unbounded would take all that a fit may make.
    """
    made = 0
    for gram.penalty, distance in stages:
        most = min(budget - made, gram.tuning.sampled_cycles)
        made += gram.minimise(distance, most) if most > 0 else 0
    return made


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


def products(A: Array, w: Array) -> tuple[Array, Array]:
    """A diag(w) Aᵀ in float64, from products that are as precise as A, and Aw."""
    m = len(A)
    found, zero = np.zeros((m + 2, m)), np.zeros(m)
    add_products(A, 0, 1, zero, w, np.zeros(w.size), room(m, A.dtype), found)
    centre_products(found, False, zero)
    return found[:m], found[m]


def is_precise(G: Array) -> bool:
    """Whether products in single precision are in its range, and no less than positive definite.

    Beside a component that all columns share, rounding is more than what they differ by; a model
    that is not convex has no minimum to step to.
    """
    kind, squares = np.finfo(np.float32), G.diagonal()
    least, most = float(kind.tiny) / float(kind.eps) ** 2, float(kind.max) * float(kind.eps)
    in_range = bool(((squares >= least) & (squares <= most)).all())
    H = G.copy()
    H.flat[:: len(G) + 1] += float(kind.eps) * squares  # columns that are there twice do no harm
    return in_range and linalg.cholesky(H) is not None
