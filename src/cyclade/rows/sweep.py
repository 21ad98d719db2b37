"""A point that moves by blocks on some rows of a linear model; z = X_S x + c is kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Point


class Columns:
    """Columns A of X, an array or a CSC matrix, and after them the ones of an intercept, or not.

    Example
    -------
    >>> Columns(np.array([[2.0], [4.0]]), ones=True).back(np.ones(2))
    array([6., 2.])
    """

    def __init__(self, A: Any, ones: bool = False) -> None:
        self.A, self.ones = A, ones
        self.size: int = A.shape[1] + ones

    def back(self, r: Array) -> Array:
        """A_jᵀ r."""
        found = (self.A.T @ r).astype(r.dtype, copy=False)
        return np.concatenate([found, r.sum(axis=0, keepdims=True)]) if self.ones else found

    def along(self, du: Array) -> Array:
        """A_j du."""
        if not self.ones:
            return np.asarray(self.A @ du)
        return np.asarray(self.A @ du[:-1]) + du[-1:]

    def squared(self) -> Columns:
        """The columns with every entry squared."""
        dense = isinstance(self.A, np.ndarray)
        return Columns(self.A**2 if dense else self.A.multiply(self.A), self.ones)


class Rows:
    """Some rows of the data: X_S, y_S, offsets, and the weight of each row in f_S.

    `members[j]` are the features of block j out of 0, …, p (p itself is the intercept). The
    columns of a block are cut when first asked for, and kept.
    """

    def __init__(
        self, X: Any, y: Array, weight: Array, offset: Array | None, members: Sequence[Any],
        whole: bool = False,
    ) -> None:  # fmt: skip
        self.X, self.y, self.weight, self.offset = X, y, weight, offset
        self.n, self.p = X.shape
        self.whole = whole  # whether these are all rows
        self._members = members
        self._columns: list[Columns | None] = [None] * len(members)

    def columns(self, j: int) -> Columns:
        """The columns of block j."""
        found = self._columns[j]
        if found is None:
            member, X = self._members[j], self._by_columns
            ones = isinstance(member, slice) and member.stop > self.p  # p itself is the intercept
            found = Columns(X[:, slice(member.start, self.p) if ones else member], ones)
            self._columns[j] = found
        return found

    def back(self, r: Array) -> list[Array]:
        """A_jᵀ r of every block."""
        found = np.concatenate([self.X.T @ r, r.sum(axis=0, keepdims=True)])
        return [found[member] for member in self._members]

    def moments(self) -> Array:
        """Σ_i w_i a_ik^q of every column for q = 0 (where a_ik ≠ 0), 1, 2 and 4."""
        from cyclade.rows.kernels import moments  # compiled; the rest of this module is NumPy

        found, sparse = np.zeros((4, self.p)), not isinstance(self.X, np.ndarray)
        nothing = np.empty(0, np.int32)
        entries = self.X.data if sparse else self.X
        idx, ends = (self.X.indices, self.X.indptr) if sparse else (nothing, nothing)
        moments(entries, idx, ends, self.weight, found)
        return found

    @cached_property
    def _by_columns(self) -> Any:
        return self.X if isinstance(self.X, np.ndarray) else self.X.tocsc()

    def predict(self, coef: Array, intercept: Array | None) -> Array:
        """z = X_S x + c + offset, freshly computed."""
        z = np.zeros((self.n, *coef.shape[1:]), np.result_type(self.X.dtype, coef.dtype))
        if coef.any():
            z = np.asarray(self.X @ coef)
        if intercept is not None:
            z = z + intercept
        return z if self.offset is None else z + self.offset


class LinearSweep:
    """f_S(x) = Σ_{i∈S} w_i φ(y_i, z_i), z = X_S x + c + offset, at a point that moves by blocks.

    Built by `LinearOracle`. `grad(j)` and `set(j, u)` cost the columns of block j on the rows in S:
    z and r_i = w_i φ'(y_i, z_i) are kept up to date. A block that stays where it is costs nothing.
    """

    def __init__(self, x: Point, rows: Rows, loss: Any, shapes: list[tuple[int, ...]], z: Array):
        self.rows, self.terms, self.get = rows, rows.n, x.get
        self._x, self._loss, self._shapes, self._z = x, loss, shapes, z
        self._weight = rows.weight if z.ndim == 1 else rows.weight[:, None]
        self._r = self._slopes(z)
        self._gradient: list[Array] | None = None
        self._stayed = True

    def grad(self, j: int) -> Array:
        """∇^j f_S = A_jᵀ r, r_i = w_i φ'(y_i, z_i)."""
        if self.rows.whole and self._stayed:  # all blocks at once, without a copy by columns
            if self._gradient is None:
                self._gradient = self.rows.back(self._r)
            return self._gradient[j].reshape(-1)
        return self.rows.columns(j).back(self._r).reshape(-1)

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`, and z with it."""
        if (u != self.get(j)).any():
            self._stayed = False
            self._z = self._z + self._along(j, u - self.get(j))
            self._r = self._slopes(self._z)
        self._x.set(j, u)

    def value(self) -> float:
        """f_S here."""
        return float(self.rows.weight @ self._loss.value(self.rows.y, self._z))

    def bend(self, j: int, u: Array) -> tuple[float, float]:
        """⟨∇^j f_S with block j at `u` less that here, the move⟩, from z alone; and Σ|r · move|."""
        along = self._along(j, u - self.get(j))
        turned = self._slopes(self._z + along) - self._r
        return float((turned * along).sum()), float(abs(self._r * along).sum())

    def largest_curvature(self) -> float:
        """The largest φ'' of a row here."""
        return float(np.max(self._curvature()))

    def mean_curvature(self) -> float:
        """The mean of φ'' over the rows, or of what stands for it."""
        return float(self.rows.weight @ self._curvature().reshape(self.rows.n, -1).mean(axis=1))

    def _slopes(self, z: Array) -> Array:
        return np.asarray(self._weight * self._loss.gradient(self.rows.y, z))

    def _curvature(self) -> Array:
        return np.asarray(self._loss.curvature(self.rows.y, self._z))

    def _along(self, j: int, du: Array) -> Array:
        """A_j du."""
        return self.rows.columns(j).along(du.reshape(self._shapes[j]))
