"""Λ_j that is a symmetric positive definite matrix, or known only through its inverse.

The prox of a regulariser in the norm of a matrix has no closed form: `InMatrixNorm` iterates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cyclade._arrays import Array, array_namespace, kind, norm2, rounding_unit
from cyclade.regularisers import PerBlock, Regulariser, Zero

MOST_STEPS = 20_000  # of the prox in the norm of a matrix


class Matrix:
    """A symmetric positive definite Λ_j, as a matrix or as a function that solves with it.

    It behaves like a number where the algorithm needs one: ``M * v`` is Mv for a block v (of any
    shape, taken as a vector), ``c / M`` is c M^{−1}. Give `matrix`, or `solve` (v ↦ Λ_j^{−1} v,
    which must be linear, symmetric and positive definite).

    Example
    -------
    >>> import numpy as np
    >>> M = Matrix(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> (1.0 / M) * np.array([3.0, 3.0])
    array([1., 1.])
    """

    __array_ufunc__ = None  # so that NumPy leaves arithmetic with arrays to this class

    def __init__(
        self, matrix: Array | None = None, *, solve: Callable[[Array], Array] | None = None
    ) -> None:
        if (matrix is None) == (solve is None):
            raise ValueError("give matrix or solve, exactly one of them")
        if solve is not None and not callable(solve):
            raise TypeError(f"solve must be callable, got {type(solve).__name__}")
        self.matrix = None if matrix is None else _symmetric(matrix)
        self.eigenvalues: tuple[float, float] | None = None  # the smallest and the largest
        self._factor: Array = None
        if self.matrix is not None:
            values, vectors = array_namespace(self.matrix).linalg.eigh(self.matrix)
            least, most = float(values[0]), float(values[-1])
            least_allowed = len(self.matrix) * rounding_unit(self.matrix) * most
            if not (math.isfinite(most) and least > least_allowed):
                raise ValueError(
                    f"matrix must be positive definite, its eigenvalues go from {least} to {most}"
                )
            self.eigenvalues, self._factor = (least, most), vectors / values**0.5
        self._solve = solve

    @property
    def size(self) -> int | None:
        """How many rows the matrix has; None if only `solve` is known."""
        return None if self.matrix is None else len(self.matrix)

    def max(self) -> float:
        """The largest eigenvalue; NaN if only `solve` is known."""
        return math.nan if self.eigenvalues is None else self.eigenvalues[1]

    def __mul__(self, v: Array) -> Array:
        """Λ_j v; NaN where Λ_j is known through `solve` only."""
        if self.matrix is None:
            return v * math.nan
        return (self.matrix @ v.reshape(-1)).reshape(v.shape)

    def __rtruediv__(self, scale: float) -> Scaled:
        return Scaled(self, float(scale), inverse=True)

    def solved(self, v: Array) -> Array:
        """Λ_j^{−1} v."""
        if self._solve is not None:
            solved = self._solve(v)
            if kind(solved) != kind(v) or tuple(solved.shape) != tuple(v.shape):
                raise ValueError(
                    f"solve must return an array like its argument, of shape {tuple(v.shape)}, "
                    f"got {getattr(solved, 'shape', type(solved).__name__)}"
                )
            return solved
        return (self._factor @ (self._factor.T @ v.reshape(-1))).reshape(v.shape)

    def __repr__(self) -> str:
        return f"Matrix({'solve' if self.matrix is None else tuple(self.matrix.shape)})"


class Scaled:
    """c Λ_j or, `inverse`, c Λ_j^{−1}: the step η Λ_j^{−1}, and the weights of norms."""

    __array_ufunc__ = None

    def __init__(self, of: Matrix, scale: float, inverse: bool) -> None:
        self.of, self.scale, self.inverse = of, scale, inverse

    def __mul__(self, v: Array) -> Array:
        return self.scale * (self.of.solved(v) if self.inverse else self.of * v)

    def __rtruediv__(self, one: float) -> Scaled:
        return Scaled(self.of, one / self.scale, not self.inverse)


def _symmetric(matrix: Any) -> Array:
    a: Any = matrix if kind(matrix) == "torch" else np.asarray(matrix)
    if kind(a) == "numpy" and a.dtype.kind in "iub":
        a = a.astype(float)
    real = a.is_floating_point() if kind(a) == "torch" else a.dtype.kind == "f"
    if not real or a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"matrix must be a square matrix of real numbers, got {matrix!r}")
    largest = float(abs(a).max())
    if not math.isfinite(largest):
        raise ValueError("matrix contains NaN or infinity")
    apart = float(abs(a - a.T).max())
    if apart > 100 * rounding_unit(a) * largest:
        raise ValueError(
            f"matrix must be symmetric, but it differs from its transpose by up to {apart:.3g}: "
            "give (A + A.T) / 2 if that is meant"
        )
    return a


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
        if self.plain:
            return u
        assert self.Lambda.eigenvalues is not None
        least, most = self.Lambda.eigenvalues
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
        if not isinstance(w, Scaled):
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
