"""How far a point is from optimal: a duality gap where there is a dual, else dist(∂F, 0)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.loss_at import LossAt, by_rows

if TYPE_CHECKING:  # this module is loaded with `cyclade.linear`, without numba
    from cyclade.linear.problem import Problem
    from cyclade.linear.screening import Gradient

Array = NDArray[Any]


@dataclass(frozen=True)
class Certificate:
    """What was measured on all columns at the point that is reported.

    Attributes
    ----------
    kind : {"gap", "distance"}
        "gap": F(x, c) − D(θ) for a feasible dual point θ, an upper bound on F(x, c) − min F.
        "distance": the largest dist(∂F, 0), over all coordinates (of groups and of rows of several
        outputs, in the Euclidean norm) and the intercept.
    value : float
        The measurement.
    tolerance : float
        What it had to come under.
    """

    kind: Literal["gap", "distance"]
    value: float
    tolerance: float

    @property
    def reached(self) -> bool:
        """Whether value ≤ tolerance."""
        return self.value <= self.tolerance


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
    def g(self) -> Array:
        """∇_x; of columns that were screened out, an estimate."""
        return self.gradient.g

    @cached_property
    def dual(self) -> float:
        """D at a feasible point, −inf if there is none."""
        return dual_value(self) if self.problem.has_dual else -np.inf


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
        distance = max(largest, float(np.max(np.abs(slope))))
    objective = loss_at.value + r
    return Measured(problem, loss_at, gradient, slope, distances, distance, objective)


def dual_value(now: Measured) -> float:
    """D(θ) = Σ s_i (θ_i offset_i − φ*(y_i, θ_i)) − r*(−Xᵀ(sθ)) at a θ made feasible from u = φ'(z).

    With an intercept, Σ s_i θ_i = 0 is required: u is balanced first. Then it is shrunk until
    Xᵀ(sθ) lies in the domain of r*.
    """
    problem, loss_at, slope, u, g = now.problem, now.loss_at, now.slope, now.loss_at.u, now.g
    moved = False
    if problem.fit_intercept:
        size = problem.s @ np.abs(u)
        moved = bool(np.any(np.abs(slope) > 1e-15 * size))
    if moved:
        u = balanced(u, slope, problem.s, problem.loss.target == "classes")
        if np.any(np.abs(slope) > 1e-13 * size):
            g = problem.gradient(by_rows(problem.s, u), np.zeros(g.size)).g
    over = problem.penalty.excess(g)
    shrink = 1.0 if over <= 1.0 else (1.0 - 1e-15) / over
    value = -loss_at.conjugate(shrink * u) if moved else loss_at.dual(shrink)
    if problem.has_offset:
        value += shrink * float(np.sum(problem.s @ (u * problem.offset)))
    value -= problem.penalty.conjugate(g, shrink)
    return value if np.isfinite(value) else -np.inf


def balanced(u: Array, slope: Any, s: Array, classes: bool) -> Array:
    """The u with Σ s_i u_i = slope brought to zero by shrinking its entries of slope's sign.

    Entries only move towards zero and zeros stay, so u stays in the domain of every φ*: taking
    `slope` off all of them would leave that of a hinge, which ends at zero. Where the entries of a
    row form probabilities, of classes, it is taken off: their sums must stay.
    """
    if classes:
        return np.asarray(u - slope)
    side = np.where(slope > 0, np.maximum(u, 0.0), np.minimum(u, 0.0))
    weight = np.asarray(s @ side)
    part = np.divide(slope, weight, out=np.zeros_like(weight), where=weight != 0)
    return np.asarray(u - part * side)
