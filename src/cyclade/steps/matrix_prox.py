"""The prox of a regulariser in the norm of a matrix Λ_j, which has no closed form."""

from __future__ import annotations

import math
from typing import Any

from cyclade._arrays import Array, norm2, rounding_unit
from cyclade.regularisers import PerBlock, Regulariser, Zero
from cyclade.steps.matrix import Inverse, Matrix

MOST_STEPS = 20_000


class InMatrixNorm(Regulariser):
    """r beside a matrix Λ_j: argmin_z r(z) + (1/2η) ‖z − u‖²_Λ by accelerated proximal gradient.

    The inner problem is strongly convex, and is solved to rounding. Without a regulariser the prox
    is u itself, and the distance is ‖v‖ in the norm of Λ_j^{−1}; with one, distances are bounded
    from above by the Euclidean one over the root of the smallest eigenvalue.
    """

    def __init__(self, reg: Regulariser, Lambda: Matrix) -> None:
        self.reg, self.Lambda = reg, Lambda
        self.plain = isinstance(reg, Zero)
        self.bounded_distance = not self.plain  # from above
        self.exact_distance = reg.exact_distance  # type: ignore[misc]  # as the one it wraps

    def value(self, u: Array) -> float:
        """r(u)."""
        return self.reg.value(u)

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """As the regulariser that is wrapped."""
        self.reg.check(shape, where)

    def prox(self, u: Array, t: Any) -> Array:
        """The prox with the step t = η Λ_j^{−1}."""
        assert isinstance(t, Inverse)
        assert self.Lambda.eigenvalues is not None or self.plain
        if self.plain:
            return u
        least, most = self.Lambda.eigenvalues  # type: ignore[misc]  # known: checked at the door
        step = t.scale / most  # of the inner problem, whose curvature is at most λ_max / η
        ratio = math.sqrt(least / most)
        momentum = (1 - ratio) / (1 + ratio)
        z, y = u, u
        for _ in range(MOST_STEPS):
            new = self.reg.prox(y - (self.Lambda * (y - u)) / most, step)
            moved = norm2(new - z)
            z, y = new, new + momentum * (new - z)
            if moved <= (0.5 * rounding_unit(u)) ** 2 * norm2(z):
                break
        return z

    def distance(self, u: Array, v: Array, w: Any = 1.0) -> float:
        """The distance from v to −∂r(u) in the norm of Λ_j^{−1}, or a bound on it."""
        if not isinstance(w, Inverse):
            return self.reg.distance(u, v, w)
        if self.plain:
            return math.sqrt(max(float((w * v * v).sum()), 0.0))
        assert self.Lambda.eigenvalues is not None
        return self.reg.distance(u, v, w.scale / self.Lambda.eigenvalues[0])

    def _prox(self, u: Array, t: Any) -> Array:
        return self.prox(u, t)

    def _distance(self, u: Array, v: Array, w: Any) -> float:
        return self.distance(u, v, w)

    def __repr__(self) -> str:
        return f"{self.reg!r} in the norm of {self.Lambda!r}"


def in_matrix_norms(regs: PerBlock, Lambda: list[Any]) -> PerBlock:
    """`regs` with those beside a `Matrix` Λ_j taken in its norm."""
    wrapped: list[Regulariser] = []
    for j, (reg, entry) in enumerate(zip(regs.regs, Lambda, strict=True)):
        if not isinstance(entry, Matrix):
            wrapped.append(reg)
            continue
        if entry.matrix is None and not isinstance(reg, Zero):
            raise ValueError(
                f"L[{j}] is given by solve, which is enough only for a block without a "
                f"regulariser; this one has {reg!r}: give the matrix"
            )
        if not reg.convex:
            raise ValueError(f"L[{j}] is a Matrix, which needs a convex regulariser, got {reg!r}")
        wrapped.append(InMatrixNorm(reg, entry))
    return PerBlock(wrapped)
