"""A point that moves by blocks on some rows of a linear model; z = X_S x + c is kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Point

EVERY_ROW = slice(None)


def columns_of(X: Any, features: Any) -> Columns:
    """Columns of X, an array or a CSC matrix, by a slice or indices; p itself is the intercept."""
    ones = isinstance(features, slice) and features.stop > X.shape[1]
    return Columns(X[:, slice(features.start, X.shape[1]) if ones else features], ones)


class Columns:
    """Columns A of X, an array or a CSC matrix, and after them the ones of an intercept, or not.

    Example
    -------
    >>> Columns(np.array([[2.0], [4.0]]), ones=True).back(np.ones(2))
    array([6., 2.])
    """

    def __init__(self, A: Any, ones: bool = False) -> None:
        self.A, self.ones = A, ones
        self.width: int = A.shape[1]
        self.size = self.width + ones
        self.sparse = not isinstance(A, np.ndarray)

    def back(self, r: Array) -> Array:
        """A_jᵀ r."""
        found = (self.A.T @ r).astype(r.dtype, copy=False)
        return np.concatenate([found, r.sum(axis=0, keepdims=True)]) if self.ones else found

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + A_j du, in place; returns (an index of) the rows that may have changed."""
        own, A = du[: self.width], self.A
        if self.ones:
            z += du[-1:]
        if not self.sparse:
            z += A @ own
        else:  # less than SciPy's product, which makes another z
            np.add.at(z, A.indices, (A.data * np.repeat(own, np.diff(A.indptr), axis=0).T).T)
            if not self.ones and A.nnz < len(z):
                return A.indices
        return EVERY_ROW

    def squared(self) -> Columns:
        """The columns with every entry squared."""
        return Columns(self.A.multiply(self.A) if self.sparse else self.A**2, self.ones)


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
            found = self._columns[j] = columns_of(self._by_columns, self._members[j])
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

    Built by `LinearOracle`. `grad(j)` and `set(j, u)` cost the columns of block j on the rows in S,
    no more: z and r_i = w_i φ'(y_i, z_i) are kept up to date on the rows that a move touches,
    and a block that stays where it is costs nothing.
    """

    def __init__(self, x: Point, rows: Rows, loss: Any, shapes: list[tuple[int, ...]], z: Array):
        self.rows = rows
        self._x, self._loss, self._shapes = x, loss, shapes
        self.terms, self._stayed = rows.n, True
        self._gradient: list[Array] | None = None
        self._z = z
        self._weight = rows.weight if z.ndim == 1 else rows.weight[:, None]
        self._r = self._weight * loss.gradient(rows.y, z)
        self.get = x.get

    def grad(self, j: int) -> Array:
        """∇^j f_S = A_jᵀ r, r_i = w_i φ'(y_i, z_i)."""
        if self.rows.whole and self._stayed:  # all blocks at once, without a copy by columns
            if self._gradient is None:
                self._gradient = self.rows.back(self._r)
            return self._gradient[j].reshape(-1)
        return self.rows.columns(j).back(self._r).reshape(-1)

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`, and z with it."""
        du = u - self._x.get(j)
        self._x.set(j, u)
        if du.any():
            self._stayed = False
            touched = self.rows.columns(j).move(self._z, du.reshape(self._shapes[j]))
            grad_z = self._loss.gradient(self.rows.y[touched], self._z[touched])
            self._r[touched] = self._weight[touched] * grad_z

    def value(self) -> float:
        """f_S here."""
        return self._value_at(self._z)

    def trial(self, j: int, u: Array) -> float:
        """f_S with block j at `u`; the point stays."""
        return self._value_at(self._moved(j, u))

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S with block j at `u`; the point stays."""
        there = self._weight * self._loss.gradient(self.rows.y, self._moved(j, u))
        return self.rows.columns(j).back(there).reshape(-1)

    def largest_curvature(self) -> float:
        """The largest φ'' of a row here."""
        return float(np.max(self._loss.curvature(self.rows.y, self._z)))

    def bend(self, j: int, u: Array) -> tuple[float, float]:
        """⟨∇^j f_S with block j at `u` less that here, the move⟩, from z alone; and Σ|r · move|."""
        along = self._along(j, u - self._x.get(j))
        turned = self._loss.gradient(self.rows.y, self._z + along) * self._weight - self._r
        return float((turned * along).sum()), float(abs(self._r * along).sum())

    def mean_curvature(self) -> float:
        """The mean of φ'' over the rows, or of what stands for it."""
        curvature = self._loss.curvature(self.rows.y, self._z)
        return float(self.rows.weight @ curvature.reshape(self.rows.n, -1).mean(axis=1))

    def hvp(self, j: int, v: Array) -> Array:
        """A_jᵀ diag(w φ'') A_j v; for nonconvex losses with the weights of their majoriser."""
        curvature = self._weight * self._loss.curvature(self.rows.y, self._z)
        return self.rows.columns(j).back(curvature * self._along(j, v)).reshape(-1)

    def _value_at(self, z: Array) -> float:
        return float(self.rows.weight @ self._loss.value(self.rows.y, z))

    def _moved(self, j: int, u: Array) -> Array:
        """z with block j at `u`."""
        return self._z + self._along(j, u - self._x.get(j))

    def _along(self, j: int, du: Array) -> Array:
        """A_j du."""
        along = np.zeros_like(self._z)
        self.rows.columns(j).move(along, du.reshape(self._shapes[j]))
        return along
