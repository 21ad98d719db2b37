"""How far a point is from optimal: a duality gap where there is a dual, else dist(∂F, 0)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cyclade.linear.loss_at import LossAt
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
        "distance": the largest entry of dist(∂F, 0), over all coordinates and the intercept.
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
    slope: float  # in the intercept, if there is one
    distances: Array  # dist(−g_j, ∂r_j(x_j))
    distance: float  # the largest of them, or the intercept's slope
    objective: float

    @property
    def g(self) -> Array:
        """That, foretold for columns that surely rest."""
        return self.gradient.g

    @cached_property
    def dual(self) -> float:
        """D at a feasible point, −inf if there is none."""
        if not self.problem.has_dual:
            return -np.inf
        return dual_value(self.problem, self.loss_at, self.g, self.slope)


def measure(problem: Problem, x: Array, loss_at: LossAt) -> Measured:
    """All columns at x, where z = Xx + c + offset was computed afresh: one pass at most."""
    return judge(problem, x, loss_at, problem.gradient(loss_at.slopes, x))


def judge(problem: Problem, x: Array, loss_at: LossAt, gradient: Gradient) -> Measured:
    """What the slopes φ'(z) and the gradient Xᵀ(sφ') say under this penalty."""
    distances, largest, r, finite = problem.penalty.check(x, gradient.g)
    if not finite:
        problem.design.refuse()
        raise FloatingPointError("the gradient overflowed: X or y hold numbers that are too large")
    slope = float(loss_at.slopes.sum()) if problem.fit_intercept else 0.0
    distance, objective = max(largest, abs(slope)), loss_at.value + r
    return Measured(problem, loss_at, gradient, slope, distances, distance, objective)


def dual_value(problem: Problem, loss_at: LossAt, g: Array, slope: float) -> float:
    """D(θ) = Σ s_i (θ_i offset_i − φ*(y_i, θ_i)) − r*(−Xᵀ(sθ)) at a θ made feasible from u = φ'(z).

    With an intercept, Σ s_i θ_i = 0 is required: u is centred first. Then it is shrunk until
    Xᵀ(sθ) lies in the domain of r*.
    """
    size = float(problem.s @ np.abs(loss_at.u)) if problem.fit_intercept else 0.0
    moved = problem.fit_intercept and abs(slope) > 1e-15 * size
    u = centred(loss_at.u, slope, problem.s) if moved else loss_at.u
    if moved and abs(slope) > 1e-13 * size:
        g = problem.pulls(problem.s * u)
    over = problem.excess(g)
    shrink = 1.0 if over <= 1.0 else (1.0 - 1e-15) / over
    if moved:
        conjugates = np.asarray(problem.loss.conjugate(problem.y, shrink * u), np.float64)  # type: ignore[attr-defined]
        value = -float(problem.s @ conjugates)
    else:
        value = loss_at.dual(shrink)
    if problem.has_offset:
        value += shrink * float(problem.s @ (u * problem.offset))
    value -= problem.conjugate(g, shrink)
    return value if np.isfinite(value) else -np.inf


def centred(u: Array, slope: float, s: Array) -> Array:
    """The u with Σ s_i u_i = slope brought to zero by shrinking its entries of slope's sign.

    Entries only move towards zero and zeros stay, so u stays in the domain of every φ*: taking
    `slope` off all of them would leave that of a hinge, which ends at zero.
    """
    side = np.maximum(u, 0.0) if slope > 0 else np.minimum(u, 0.0)
    return np.asarray(u - (slope / float(s @ side)) * side)
