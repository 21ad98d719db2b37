"""min over (x, c) of Σ_i s_i φ(y_i, z_i) + Σ_k λ_k |x|_(k), and how far a point is from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import dual_value
from cyclade.linear.loss_at import LossAt
from cyclade.linear.losses import Loss
from cyclade.linear.panels.protocols import Design
from cyclade.linear.penalties import Slope
from cyclade.linear.problem import Problem
from cyclade.linear.sorted_l1.sorting import dual_norm, sorted_residuals

Array = NDArray[Any]


@dataclass(frozen=True)
class Sorted:
    """λ_1 ≥ λ_2 ≥ … ≥ λ_p, with `total` as line searches ask for it."""

    lam: Array

    def total(self, cols: Array, x: Array) -> float:
        """Σ_k λ_k |x|_(k); coordinates other than `cols` are zero and come last."""
        return float(self.lam[: x.size] @ np.sort(np.abs(x))[::-1])


def sequence(penalty: Slope, p: int) -> Any:
    """The penalty on p coordinates; ValueError if its weights are not as many."""
    return Sorted(penalty.sequence(p))


class SlopeProblem(Problem):
    """The problem of `solve` with a sorted l1 penalty."""

    penalty: Any

    @cached_property
    def has_dual(self) -> bool:
        """Whether a duality gap can be had: a conjugate, and room around zero."""
        return self.loss.convex and hasattr(self.loss, "conjugate") and self.lam[0] > 0

    @property
    def lam(self) -> Array:
        """λ_1 ≥ … ≥ λ_p."""
        return np.asarray(self.penalty.lam)

    def pulls(self, v: Array) -> Array:
        """Xᵀv."""
        return self.design.correlate(v)

    def excess(self, g: Array) -> float:
        """The dual norm."""
        return float(dual_norm(g, self.lam))

    def conjugate(self, g: Array, factor: float) -> float:
        """Zero in its unit ball."""
        return 0.0

    def panel(self, W: Array, w: Array) -> Any:
        """The columns W under weights w, in float64 whatever X is: it is a copy in any case."""
        design: Any = self.design
        if design.dtype == np.float64:
            return design.panel(W, w, self.fit_intercept)
        if hasattr(design, "X"):
            few: Any = type(design)(np.asfortranarray(design.X[:, W], np.float64))
        else:
            from scipy.sparse import csc_array

            sizes = (design.starts[W + 1] - design.starts[W]).astype(np.int64)
            ends = np.cumsum(sizes)
            first = design.starts[W].astype(np.int64) + sizes - ends
            at = np.arange(ends[-1]) + np.repeat(first, sizes)
            rows = design.rows[at].astype(np.int64)
            data = design.data[at].astype(np.float64)
            few = type(design)(csc_array((data, rows, np.append(0, ends)), (design.n, W.size)))
        return few.panel(np.arange(W.size), w, self.fit_intercept)

    def at(self, penalty: Slope) -> SlopeProblem:
        """The same problem with another penalty."""
        other = SlopeProblem(
            self.design, self.y, self.s, self.offset, self.loss,
            sequence(penalty, self.design.p), self.fit_intercept, self.null,
        )  # fmt: skip
        other.has_offset = self.has_offset
        return other


def as_problem(
    design: Design, y: Array, s: Array, b: Array, loss: Loss, penalty: Slope, fit_intercept: bool
) -> SlopeProblem:
    """The problem; ValueError if the weights do not fit X."""
    return SlopeProblem(design, y, s, b, loss, sequence(penalty, design.p), fit_intercept)


@dataclass
class Measured:
    """A full check at (x, z)."""

    problem: SlopeProblem
    loss_at: LossAt
    g: Array  # ∇_x of the smooth part, all columns
    slope: float  # in the intercept, if there is one
    distance: float  # the largest entry of dist(∂F, 0), or the intercept's slope
    objective: float

    @cached_property
    def dual(self) -> float:
        """D at a feasible point, −inf if there is none."""
        if not self.problem.has_dual:
            return -np.inf
        return dual_value(self.problem, self.loss_at, self.g, self.slope)


def measure(problem: SlopeProblem, x: Array, loss_at: LossAt) -> Measured:
    """One pass over all columns at x, where z = Xx + c + offset was computed afresh."""
    g = problem.design.correlate(loss_at.slopes)
    if not np.isfinite(g).all():
        problem.design.refuse()
        raise FloatingPointError("the gradient overflowed: X or y hold numbers that are too large")
    return judge(problem, x, loss_at, g)


def judge(problem: SlopeProblem, x: Array, loss_at: LossAt, g: Array) -> Measured:
    """What the slopes φ'(z) and the gradient g = Xᵀ(sφ') say under this penalty."""
    _, residuals = sorted_residuals(x, g, problem.lam)
    slope = float(loss_at.slopes.sum()) if problem.fit_intercept else 0.0
    distance = max(float(np.abs(residuals).max()), abs(slope))
    support = np.flatnonzero(x)
    r = problem.penalty.total(support, x[support])
    return Measured(problem, loss_at, g, slope, distance, loss_at.value + r)
