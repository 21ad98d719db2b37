"""Nonconvex losses under r = Σ λ_j |x_j|: Newton's steps on products of columns, by pivots.

A majoriser's weights make short steps, and φ'' < 0 of outliers left out makes a model that is
blind where they bend F most. Near a minimum φ'' may be taken as it is: G = A diag(s φ'') Aᵀ is
positive definite on the support, or that were no minimum, and pivots ask for no more. So steps
converge as Newton's do. Where it is not, rows with φ'' < 0 get a part of the majoriser's weight.

Far out, outliers hardly bend the loss, and what the other rows leave undetermined is left to the
kinks of r: the solution is close to a corner, and cycles would creep along edges towards it.
Pivots walk from corner to corner. As products cost more than all else, they and their factor are
used again, with new slopes, as long as a step with them brings the point much nearer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Measured, measure
from cyclade.linear.kernels.strong import drawn
from cyclade.linear.loss_at import LossAt
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import curvatures, line_search
from cyclade.linear.state import State

if TYPE_CHECKING:
    from cyclade.linear.weighted_columns import Columns

Array = NDArray[Any]

MOST_COLUMNS = 4_000  # whose products are formed
CHEAP, DEAR = 60.0, 400.0  # what products and a factor may cost, in cycles: anywhere, and nearby
TIRED = 2  # models in a row that cycles did not get to the end of: then anything is tried
NEAR = 0.95  # columns at rest ride along if pulled by more than this part of their threshold
ROOM = 64  # columns that may always come in
MOST_PIVOTS = 400  # on one model
FORCING = 0.1  # what part of the first violation may be left
EXTRA = 2  # the part of the columns that may lack products is one in so many
WORST = 0.8  # of the distance before it: after a step that leaves more, products are made anew
CLOSE = 0.3  # of λ: from this distance on products may be dear
NEARBY = 1.0  # of λ: from this distance on φ'' is taken as it is
STEPS = 20  # before all else is thought over
MANY = 24  # violations: so many are first cycled over
CYCLES = 8  # times
RIDGE = 1e-11  # of the diagonal, so that dependent columns have a factor
BOLDER, LEAST_TRUST = 0.3, 1e-3  # what the weights of rows with φ'' < 0 come down by, and to
HALVED = 8  # lengths of a step that are tried
FURTHER = 1.5  # times F must fall for twice the way


def suits(problem: Problem, state: State) -> bool:
    """Whether pivots are to be had: a nonconvex loss, r = Σ λ_j |x_j|, not too many columns.

    Where products are dear, far from the minimum, cycles find their way sooner; where they are very
    dear those are tried first.
    """
    if problem.loss.convex or not problem.penalty.is_norm:
        return False
    cycles = price(problem, state.x)
    if cycles <= CHEAP:
        return True
    many = int(np.count_nonzero(state.x)) > MOST_COLUMNS
    if many or state.measured.distance > CLOSE * problem.penalty.top:
        return False
    return cycles <= DEAR or bool(state.kept.get("slow", 0) >= TIRED)


def price(problem: Problem, x: Array) -> float:
    """What products and a factor of the columns with x ≠ 0 cost, in cycles over them."""
    k, e = int(np.count_nonzero(x)), problem.design.entries / problem.design.p
    return k / 8 + k * k / (6.0 * max(e, 1.0))


def worth(first: float, last: float, goal: float, cycles: float) -> bool:
    """Whether steps like the one from `first` to `last` get to the goal for less than new products.

    New ones get there in about two, each of which costs about eight cycles.
    """
    if last <= goal:
        return True
    if last > WORST * first:
        return False
    return math.log(last / goal) < math.log(first / last) * min(max(cycles / 8.0, 1.0), 8.0)


def improve(problem: Problem, state: State, W: Array, goal: float, max_passes: int) -> bool:
    """Newton steps until all columns are at the target distance, or steps fail; whether any was."""
    kept = state.kept.get("active_set") or ActiveSetNewton(problem.design.p)
    state.kept["active_set"] = kept
    return bool(kept.minimise(problem, state, state.target, max_passes))


class ActiveSetNewton:
    """Products of some columns under some weights, their factor on the support, and steps."""

    def __init__(self, p: int) -> None:
        self.columns: Columns = None  # type: ignore[assignment]  # until there are some
        self.place = np.full(p, -1)  # of a coordinate among the columns
        self.cols = np.empty(0, np.int64)  # coordinates with products, in order
        self.G, self.factor = np.empty((0, 0)), np.empty((0, 0))
        self.order, self.size = np.empty(0, np.int64), 0  # the support that the factor is of
        self.means, self.mass = np.empty(0), 1.0
        self.raw, self.w = np.empty((0, 0)), np.empty(0)  # products before that, and weights
        self.good = False  # whether these products are worth using again
        self.true_hessian = False  # whether they have φ'' as it is
        self.fallback = False  # whether that has just failed

    def minimise(self, problem: Problem, state: State, goal: float, most: int) -> bool:
        """Steps until the distance is below the goal, or they fail; whether any was made."""
        moved, begun, goal = False, state.passes, max(goal, np.finfo(np.float64).tiny)
        for _ in range(STEPS):
            now = state.measured
            if now.distance <= goal or state.passes >= most or not suits(problem, state):
                break
            again = self.good and self.extend(problem, state, goal)
            if not again and not self.form(problem, state):
                break
            first = self.distance(now)
            state.passes += 1
            if not self.step(problem, state, goal, most):
                if not again and not self.true_hessian:
                    break
                self.good, self.fallback = False, self.true_hessian
                continue
            moved = True
            last = self.distance(state.measured)
            self.good &= worth(first, last, goal, price(problem, state.x))
            if last >= first and state.measured.objective >= now.objective:  # rounding
                break
        state.working = self.cols
        if not moved:
            state.passes = begun
        return moved

    def distance(self, measured: Measured) -> float:
        """From optimal, as far as columns with products and the intercept are concerned."""
        return max(float(measured.distances[self.cols].max()), abs(float(measured.slope)))

    def form(self, problem: Problem, state: State) -> bool:
        """Products of the support and the columns close to it; no if there are none."""
        V, loss_at = company(problem, state), state.loss_at
        if not (V.size and self.take(problem, V)):
            return False
        S, second = np.flatnonzero(state.x[V]), problem.s * loss_at.second
        self.good, fallback, self.fallback = True, self.fallback, False
        self.true_hessian = not fallback and 0 < S.size <= int(np.count_nonzero(second > 0))
        self.true_hessian &= state.measured.distance <= NEARBY * problem.penalty.top
        if self.true_hessian:
            self.raw, self.w = self.columns.products(self.place[V], second), second
            self.true_hessian = self.profile(problem) and self.refactor(S)
            if self.true_hessian:
                return True
        w = problem.s * curvatures(problem, loss_at, 1.0, state.trust)
        if self.w is second:  # only rows that φ'' is too small in are others
            self.raw += self.columns.products(self.place[V], w - second)
        else:
            self.raw = self.columns.products(self.place[V], w)
        self.w, self.size = w, -1
        self.profile(problem)
        return True

    def take(self, problem: Problem, V: Array) -> bool:
        """Have the columns V at hand; no if they cannot be had."""
        if self.columns is None or not (self.place[V] >= 0).all():
            columns = problem.design.columns(V, problem.fit_intercept, wide=True)
            if columns is None:
                return False
            self.columns = columns
            self.place[:] = -1
            self.place[columns.cols] = np.arange(columns.cols.size)
        self.cols = V
        return True

    def extend(self, problem: Problem, state: State, goal: float) -> bool:
        """Products of the columns that lack them, with weights as they are; no if too many."""
        lacking = (state.measured.distances > goal) | (state.x != 0)
        lacking[self.cols] = False
        new, old, k = np.flatnonzero(lacking), self.cols, max(self.size, 0)
        if not new.size:
            return True
        both = np.sort(np.concatenate([old, new]))
        if EXTRA * new.size > old.size or not self.take(problem, both):
            return False
        at, before, after = self.place[both], *(np.searchsorted(both, part) for part in (old, new))
        rows = self.columns.products_of(at[after], at, self.w)
        raw, factor, order = np.empty((at.size, at.size)), *self.room(at.size)
        raw[np.ix_(before, before)] = self.raw
        raw[after], raw[:, after] = rows, rows.T
        factor[:k, :k], order[:k] = self.factor[:k, :k], before[self.order[:k]]
        self.raw, self.factor, self.order = raw, factor, order
        return self.profile(problem)

    def profile(self, problem: Problem) -> bool:
        """G, with the intercept minimised over first; no if that has no minimum."""
        at, m, w = self.place[self.cols], self.cols.size, self.w
        G, self.means, self.mass = self.raw.copy(), self.columns.centres[at], float(w.sum())
        if problem.fit_intercept:
            if not self.mass > 0:
                return False
            sums = self.columns.slopes(w)[at]
            G -= np.outer(sums, sums / self.mass)
            self.means = self.means + sums / self.mass
        if not self.true_hessian:
            G.flat[:: m + 1] *= 1.0 + RIDGE
        self.G = G
        return True

    def refactor(self, S: Array) -> bool:
        """Cholesky's factor of G_SS; no if that is not positive definite."""
        from scipy.linalg.lapack import dpotrf

        m, k = self.cols.size, S.size
        if self.order.size != m:
            self.factor, self.order = self.room(m)
        diagonal = self.G.diagonal()[S]
        for ridge in (0.0,) if self.true_hessian else (0.0, 1e-10, 1e-8):
            part = self.G[np.ix_(S, S)]
            part.flat[:: k + 1] += ridge * diagonal
            lower, failed = dpotrf(part.T, lower=True, overwrite_a=True, clean=False)
            if not failed:
                self.factor[:k, :k] = lower
                self.order[:k], self.size = S, k
                return True
        return False

    @staticmethod
    def room(m: int) -> tuple[Array, Array]:
        """For a factor of m columns, and their places."""
        return np.empty((m, m)), np.empty(m, np.int64)

    def step(self, problem: Problem, state: State, goal: float, most: int) -> bool:
        """To the minimum of the model, or part of the way; no if F does not come down."""
        from cyclade.linear.kernels.pivots import pivots, soft_cycles

        penalty, now, V = problem.penalty, state.measured, self.cols
        x = state.x[V]
        new, c, lam = (
            x.copy(),
            self.means * now.slope - now.gradient.exactly(V),
            penalty.zero_threshold[V],
        )
        goal = max(0.3 * goal, FORCING * now.distance)
        if not self.true_hessian and np.count_nonzero(now.distances[V] > goal) > MANY:
            soft_cycles(self.G, c, new, lam, CYCLES, goal)
        S = np.flatnonzero(new)
        known = self.size == S.size and bool(new[self.order[: S.size]].all())
        if not known and not self.refactor(S):
            return False
        left = min(MOST_PIVOTS, most - state.passes)
        done, size, kept_out = pivots(
            self.G, c, new, lam, self.factor, self.order, S.size, left, goal
        )
        state.passes, self.size = state.passes + int(done), int(size)
        dx = new - x
        if not (dx.any() and np.isfinite(dx).all()):
            return False
        shift = -float(self.means @ dx)
        if problem.fit_intercept:
            shift -= now.slope / self.mass
        t = move(problem, state, V, new, shift, not self.true_hessian)
        if not self.true_hessian:  # φ'' < 0 lets a good model be bolder still
            times = BOLDER if t >= 1.0 else 3.0
            state.trust = min(max(times * state.trust, LEAST_TRUST), 1.0)
        self.fallback = self.true_hessian and (t < 1.0 or kept_out > 0)
        self.good &= t == 1.0 and kept_out == 0
        return t > 0


def move(problem: Problem, state: State, V: Array, new: Array, shift: float, bolder: bool) -> float:
    """Go the largest part 1, ½, ¼, … of the way that lowers F as Armijo wants, and check there.

    A bolder one goes 2, 4, … times the way while F falls much further: where F is bent down, a
    model that does not know it makes short steps in the right direction.
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
        problem, here, there(1.0), lambda t: penalty.total(V, point(t)), HALVED,
        there if bolder else None, FURTHER,
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


def company(problem: Problem, state: State) -> Array:
    """The support, and the columns at rest that are pulled most."""
    zero_threshold, g = problem.penalty.zero_threshold, state.measured.g
    support, close = np.empty((2, g.size), np.int64)
    inside, many = drawn(state.x, g, zero_threshold, NEAR, support, close)
    support, close, room = support[:inside], close[:many], max(ROOM, inside)
    if many > room:
        with np.errstate(divide="ignore"):
            pull = np.abs(g[close]) / zero_threshold[close]
        close = close[np.argpartition(-pull, room)[:room]]
    return np.sort(np.concatenate([support, close]))
