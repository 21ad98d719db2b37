"""A point and what is known about it: what the outer loop hands to the subproblems.

A check of all columns gives the distance dist(∂F, 0) and, where there is a dual, a duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.loss_at import LossAt, balanced, by_rows
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import Problem
from cyclade.linear.results import Certificate, Solution
from cyclade.linear.screening import Gradient
from cyclade.linear.tuning import DEFAULT

Array = NDArray[Any]
NO_COLUMNS = np.empty(0, np.int64)


def in_units(now: Any, units: Array | None) -> float:
    """The distance of what was measured, with those of blocks multiplied by their units."""
    if units is None:
        return float(now.distance)
    off = now.distance if now.distance > now.distances.max() else 0.0  # the intercept's
    return float(max(off, (now.distances * units).max()))


@dataclass
class Measured:
    """A full check at (x, z): everything the next working set is chosen from."""

    problem: Problem
    loss_at: LossAt  # the loss at z
    gradient: Gradient  # ∇_x of the smooth part
    slope: Any  # in the intercept, if there is one: a number, or (T,)
    distances: Array  # dist(−g, ∂r(x)) by blocks
    distance: float  # the largest of them, or of the intercept's slopes
    objective: float

    @property
    def certified(self) -> float:
        """The distance in units that do not depend on those of unpenalised columns."""
        return in_units(self, self.problem.units)

    @property
    def g(self) -> Array:
        """∇_x; of columns that were screened out, an estimate."""
        return self.gradient.g

    @cached_property
    def dual(self) -> float:
        """D at a feasible point, −inf if there is none."""
        return dual_value(self) if self.problem.has_dual else -np.inf

    @property
    def gap(self) -> float:
        """F − D, infinite where there is no dual."""
        return self.objective - self.dual


@dataclass
class State:
    """A point (x, c), and what is known about it."""

    x: Array  # flat, in the order of the bound penalty
    c: Any  # the intercept: a number, or (T,)
    loss_at: LossAt
    measured: Measured  # the last check of all columns
    passes: int = 0
    working: Array = field(default_factory=lambda: NO_COLUMNS)  # blocks of the last working set
    history: list[dict[str, float]] = field(default_factory=list)
    target: float = np.inf  # the distance that all columns will be brought to in the end
    enough: float = 0.0  # a duality gap that ends a fit
    trust: float = DEFAULT.forcing  # of a majoriser's weights, where φ'' < 0
    fresh: bool = True  # whether z was computed from x and c, not carried along
    on_path: bool = False  # whether a slightly smaller λ comes next
    before: BoundPenalty | None = None  # at the λ before, until a working set was chosen
    kept: dict[str, Any] = field(default_factory=dict)  # by a subproblem: its panels and products

    def fork(self) -> State:
        """A state at the same point, which moves on its own; what is kept serves both."""
        return replace(self, x=self.x.copy(), history=[])

    def point(self) -> Any:
        """What `return_to` needs; None where z was carried along and not checked."""
        return (self.x.copy(), self.c, self.loss_at, self.measured) if self.fresh else None

    def return_to(self, point: Any) -> None:
        """Go back to a point that was passed."""
        self.x, self.c, self.loss_at, self.measured = point


def begin(problem: Problem, x: Array, c: Any) -> State:
    """Start at (x, c), moved into the domain of r; the intercept is made optimal."""
    x = np.array(x, np.float64)
    problem.penalty.project(x)
    if x.any() or np.any(c):
        loss_at, c = problem.settle(x, c)
    else:
        loss_at, c = problem.null.loss_at, problem.null.c + 0.0  # a copy
    return State(x, c, loss_at, measure(problem, x, loss_at))


def rebase(problem: Problem, state: State) -> None:
    """Carry a state over to another penalty: nothing has moved, so few columns are read at most."""
    gradient, state.before = state.measured.gradient, state.measured.problem.penalty
    gradient.read_undecided(state.x, problem.penalty.zero_threshold)
    state.measured = judge(problem, state.x, state.loss_at, gradient)


def check(problem: Problem, state: State) -> None:
    """Measure all columns at a z computed from x, with the best intercept; if anything moved."""
    if state.fresh and state.loss_at is state.measured.loss_at:
        return
    if state.fresh:
        state.loss_at, state.c = problem.shifted(state.loss_at.z, state.c, state.loss_at)
    else:
        state.loss_at, state.c = problem.settle(state.x, state.c)
    state.fresh = True
    state.measured = measure(problem, state.x, state.loss_at)


def measure(problem: Problem, x: Array, loss_at: LossAt) -> Measured:
    """All columns at x, where z = Xx + c + offset was computed afresh: one pass at most."""
    return judge(problem, x, loss_at, problem.gradient(loss_at.slopes, x))


def judge(problem: Problem, x: Array, loss_at: LossAt, gradient: Gradient) -> Measured:
    """The same where the gradient Xᵀ(sφ') is known."""
    distances, largest, r, finite = problem.penalty.check(x, gradient.g)
    if not finite:
        problem.design.refuse()
        raise FloatingPointError("the gradient overflowed: X or y hold numbers that are too large")
    slope, distance = problem.slope(loss_at), largest
    if problem.fit_intercept:
        one = isinstance(slope, float)
        off = abs(slope) if one else float(np.abs(slope).max())
        # Slopes in x have the units of X, this one has none: beside a tiny X its rounding shows.
        if off > largest and exceeds(slope, numerics.SUM * loss_at.balance[1]):
            distance = off
    objective = loss_at.value + r
    return Measured(problem, loss_at, gradient, slope, distances, distance, objective)


def exceeds(slope: Any, size: Any) -> bool:
    """Whether |slope| is larger than `size` anywhere; of numbers NumPy would take longer."""
    if isinstance(slope, float):
        return bool(abs(slope) > size)
    return bool((np.abs(slope) > size).any())


def dual_value(now: Measured) -> float:
    """D(θ) = Σ s_i (θ_i offset_i − φ*(y_i, θ_i)) − r*(−Xᵀ(sθ)) at a θ made feasible from u = φ'(z).

    With an intercept, Σ s_i θ_i = 0 is required: u is balanced first. Then it is shrunk until
    Xᵀ(sθ) lies in the domain of r*.
    """
    problem, loss_at, slope, g = now.problem, now.loss_at, now.slope, now.g
    moved = False
    if problem.fit_intercept:
        size = loss_at.balance[1]
        moved = exceeds(slope, numerics.SUM * size)
    if moved:
        u = balanced(loss_at.u, slope, problem.s, problem.loss.target == "classes")
        if exceeds(slope, numerics.SOLVED * size):
            g = problem.gradient(by_rows(problem.s, u), np.zeros(g.size)).g
    over = problem.penalty.excess(g)
    shrink = 1.0 if over <= 1.0 else (1.0 - numerics.SUM) / over
    value = -loss_at.conjugate(shrink * u) if moved else loss_at.dual(shrink)
    if problem.has_offset:
        u = u if moved else loss_at.u
        value += shrink * float(np.sum(problem.s @ (u * problem.offset)))
    value -= problem.penalty.conjugate(g, shrink)
    return value if np.isfinite(value) else -np.inf


def coefficients(problem: Problem, state: State) -> tuple[Array, Any]:
    """x by features in the precision of X, and c, in the shapes that a caller gets; not copied."""
    x = problem.penalty.by_features(state.x).astype(problem.design.given, copy=False)
    if problem.offset.ndim == 1:
        return x, float(state.c)
    c = state.c.copy()
    if problem.loss.target == "classes" and problem.fit_intercept:
        c -= c.mean()  # probabilities do not change; of all that are as good, one is returned
    return x.reshape(-1, c.size), c


def as_returned(
    problem: Problem, state: State, certificate: Certificate
) -> tuple[State, Certificate]:
    """The point that a caller gets, with x rounded as X is, and the certificate of that point."""
    x = state.x.astype(problem.design.given, copy=False).astype(np.float64, copy=False)
    if np.array_equal(x, state.x):
        return state, certificate
    loss_at, c = problem.settle(x, state.c)
    now = measure(problem, x, loss_at)
    certificate = moved(certificate, state.measured, now)
    return replace(state, x=x, c=c, loss_at=loss_at, measured=now), certificate


def moved(certificate: Certificate, before: Any, now: Any) -> Certificate:
    """The certificate of a point beside the one it was measured at; of a gap the dual stays."""
    if certificate.kind == "distance":
        return replace(certificate, value=now.certified)
    gap = certificate.value + now.objective - before.objective
    return replace(certificate, value=max(gap, 0.0))


def as_solution(problem: Problem, state: State, certificate: Certificate) -> Solution:
    """What a caller gets."""
    return Solution(
        *coefficients(problem, state), state.measured.objective, certificate, state.passes,
        problem.penalty.features(state.working), state.history,
    )  # fmt: skip
