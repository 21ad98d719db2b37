"""Λ_j that is a symmetric positive definite matrix, or known only through its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cyclade._arrays import Array, array_namespace, kind, rounding_unit


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

    def __rtruediv__(self, scale: float) -> Inverse:
        return Inverse(self, float(scale))

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


class Inverse:
    """c Λ_j^{−1}: the step η Λ_j^{−1}, or the weight of ‖·‖ in the norm of Λ_j^{−1}."""

    __array_ufunc__ = None

    def __init__(self, of: Matrix, scale: float) -> None:
        self.of, self.scale = of, scale

    def __mul__(self, v: Array) -> Array:
        """c Λ_j^{−1} v."""
        return self.scale * self.of.solved(v)

    def __rtruediv__(self, one: float) -> _Scaled:
        return _Scaled(self.of, one / self.scale)


class _Scaled:
    """c Λ_j."""

    __array_ufunc__ = None

    def __init__(self, of: Matrix, scale: float) -> None:
        self.of, self.scale = of, scale

    def __mul__(self, v: Array) -> Array:
        return self.scale * (self.of * v)


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
