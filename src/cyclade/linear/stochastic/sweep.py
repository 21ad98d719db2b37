"""A point moving along a cycle of a linear model: z = X_S x + c is held, blocks cost their columns.

The rows in hand are `Rows`: a sample S of the data with its labels, weights and offsets. Their
columns are cut into blocks; a block is `Dense` or `Sparse` columns, perhaps with a column of `Ones`
for the intercept. Only these small classes know how X is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Point

EVERY_ROW = slice(None)


class Columns(Protocol):
    """The columns A_j of one block, on the rows in hand."""

    def back(self, r: Array) -> Array:
        """A_jᵀ r."""

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + A_j du, in place; returns (an index of) the rows that may have changed."""

    def gram(self, weight: Array) -> Array:
        """A_jᵀ diag(weight) A_j, as an array."""

    def moments(self, weight: Array, power: int) -> Array:
        """Σ_i weight_i a_ik^power of every column k; the power is even."""

    def row_squares(self, scale: Array) -> Array:
        """Σ_k scale_k a_ik² of every row i."""


class Dense:
    """Columns stored as an array."""

    def __init__(self, A: Array) -> None:
        self.A = A

    def back(self, r: Array) -> Array:
        """A_jᵀ r."""
        return self.A.T @ r

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + A_j du."""
        z += self.A @ du
        return EVERY_ROW

    def moments(self, weight: Array, power: int) -> Array:
        """Σ_i weight_i a_ik^power of every column k."""
        half = self.A if power == 2 else self.A ** (power // 2)
        return np.einsum("i,ik,ik->k", weight, half, half)

    def gram(self, weight: Array) -> Array:
        """A_jᵀ diag(weight) A_j."""
        return (self.A * weight[:, None]).T @ self.A

    def row_squares(self, scale: Array) -> Array:
        """Σ_k scale_k a_ik² of every row i."""
        return self.A**2 @ scale


class Sparse:
    """Columns stored by their entries: values, rows, and how many each column has."""

    def __init__(self, values: Array, rows: Array, counts: Array, n: int) -> None:
        self.values, self.rows, self.counts, self.n = values, rows, counts, n
        self._column = np.repeat(np.arange(len(counts)), counts)

    def back(self, r: Array) -> Array:
        """A_jᵀ r, from the rows that the columns touch."""
        size = len(self.counts)
        if r.ndim == 1:
            found = np.bincount(self._column, self.values * r[self.rows], size)
        else:
            touched = self.values[:, None] * r[self.rows]
            found = np.stack([np.bincount(self._column, t, size) for t in touched.T], axis=1)
        return found.astype(r.dtype, copy=False)

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + A_j du, on the rows that the columns touch."""
        steps = du[self._column]
        np.add.at(z, self.rows, (self.values * steps.T).T)
        return self.rows if len(self.rows) < len(z) else EVERY_ROW

    def moments(self, weight: Array, power: int) -> Array:
        """Σ_i weight_i a_ik^power of every column k."""
        entries = self.values**power * weight[self.rows]
        return np.bincount(self._column, entries, len(self.counts))

    def gram(self, weight: Array) -> Array:
        """A_jᵀ diag(weight) A_j."""
        from scipy.sparse import csc_matrix

        shape = (self.n, len(self.counts))
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        A = csc_matrix((self.values, self.rows, ends), shape=shape)
        weighted = csc_matrix((self.values * weight[self.rows], self.rows, ends), shape=shape)
        return (A.T @ weighted).toarray()

    def row_squares(self, scale: Array) -> Array:
        """Σ_k scale_k a_ik² of every row i."""
        return np.bincount(self.rows, self.values**2 * scale[self._column], self.n)


class Ones:
    """The column of the intercept."""

    def back(self, r: Array) -> Array:
        """Σ_i r_i."""
        return r.sum(axis=0, keepdims=True)

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + du."""
        z += du
        return EVERY_ROW

    def moments(self, weight: Array, power: int) -> Array:
        """Σ_i weight_i."""
        return weight.sum(keepdims=True)

    def gram(self, weight: Array) -> Array:
        """Σ_i weight_i."""
        return weight.sum(keepdims=True)[None, :]

    def row_squares(self, scale: Array) -> Array:
        """The scale itself, for every row."""
        return scale


class WithOnes:
    """Columns of X followed by the column of the intercept: a block that holds both."""

    def __init__(self, columns: Columns) -> None:
        self.columns, self.ones = columns, Ones()

    def back(self, r: Array) -> Array:
        """A_jᵀ r and Σ_i r_i."""
        return np.concatenate([self.columns.back(r), self.ones.back(r)])

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + A_j du + dc."""
        self.columns.move(z, du[:-1])
        return self.ones.move(z, du[-1:])

    def moments(self, weight: Array, power: int) -> Array:
        """Σ_i weight_i a_ik^power of every column k, the intercept's last."""
        parts = self.columns.moments(weight, power), self.ones.moments(weight, power)
        return np.concatenate(parts)

    def gram(self, weight: Array) -> Array:
        """The Gram matrix of both."""
        inner, border = self.columns.gram(weight), self.columns.back(weight)
        corner = self.ones.gram(weight)
        return np.block([[inner, border[:, None]], [border[None, :], corner]])

    def row_squares(self, scale: Array) -> Array:
        """Σ_k scale_k a_ik² of every row i, the intercept's 1 among them."""
        return self.columns.row_squares(scale[:-1]) + self.ones.row_squares(scale[-1:])


class Rows:
    """Some rows of the data: X_S, y_S, offsets, and the weight of each row in f_S.

    `members[j]` picks the features of block j out of 0, …, p (p itself is the intercept). The
    columns of a block are cut when first asked for, and kept.
    """

    def __init__(
        self, X: Array, y: Array, weight: Array, offset: Array | None, members: Sequence[Any]
    ) -> None:
        self.X, self.y, self.weight, self.offset = X, y, weight, offset
        self.n, self.p = X.shape
        self._members = members
        self._cut: list[Columns | None] = [None] * len(members)
        self._cutter: Callable[[Any], Columns] | None = None

    def columns(self, j: int) -> Columns:
        """The columns of block j."""
        found = self._cut[j]
        if found is None:
            found = self._cut[j] = self._cut_out(self._members[j])
        return found

    def predict(self, coef: Array, intercept: Array | None) -> Array:
        """z = X_S x + c + offset, freshly computed."""
        z = np.asarray(self.X @ coef)
        if intercept is not None:
            z = z + intercept
        return z if self.offset is None else z + self.offset

    def _cut_out(self, members: Any) -> Columns:
        if self._cutter is None:
            self._cutter = cutter(self.X)
        if not isinstance(members, slice) or members.stop <= self.p:
            return self._cutter(members)
        if members.start == self.p:
            return Ones()
        return WithOnes(self._cutter(slice(members.start, self.p)))


def cutter(X: Array) -> Callable[[Any], Columns]:
    """The function that cuts columns out of X, an array or a SciPy sparse matrix."""
    if isinstance(X, np.ndarray):
        return lambda features: Dense(X[:, features])
    by_columns = X.tocsc()
    ends = by_columns.indptr

    def cut(features: Any) -> Columns:
        if isinstance(features, slice):
            part = slice(ends[features.start], ends[features.stop])
            counts = np.diff(ends[features.start : features.stop + 1])
            return Sparse(by_columns.data[part], by_columns.indices[part], counts, X.shape[0])
        chosen = by_columns[:, features]
        return Sparse(chosen.data, chosen.indices, np.diff(chosen.indptr), X.shape[0])

    return cut


class LinearSweep:
    """f_S(x) = Σ_{i∈S} w_i φ(y_i, z_i), z = X_S x + c + offset, at a point that moves by blocks.

    Built by `LinearOracle`. `grad(j)` and `set(j, u)` cost the columns of block j on the rows in S,
    no more: z and r_i = w_i φ'(y_i, z_i) are kept up to date on the rows that a move touches,
    and a block that stays where it is costs nothing.
    """

    def __init__(self, x: Point, rows: Rows, loss: Any, shapes: list[tuple[int, ...]], z: Array):
        self.rows = rows
        self._x, self._loss, self._shapes = x, loss, shapes
        self._z = z
        self._weight = rows.weight if z.ndim == 1 else rows.weight[:, None]
        self._r = self._weight * loss.gradient(rows.y, z)
        self.get = x.get

    def grad(self, j: int) -> Array:
        """∇^j f_S = A_jᵀ r, r_i = w_i φ'(y_i, z_i)."""
        return self.rows.columns(j).back(self._r).reshape(-1)

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`, and z with it."""
        du = u - self._x.get(j)
        self._x.set(j, u)
        if du.any():
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

    def most_curved(self) -> float:
        """The largest φ'' of a row here."""
        return float(np.max(self._loss.curvature(self.rows.y, self._z)))

    def hvp(self, j: int, v: Array) -> Array:
        """A_jᵀ diag(w φ'') A_j v; for nonconvex losses with the weights of their majoriser."""
        columns, along = self.rows.columns(j), np.zeros_like(self._z)
        columns.move(along, v.reshape(self._shapes[j]))
        bend = self._weight * self._loss.curvature(self.rows.y, self._z)
        return columns.back(bend * along).reshape(-1)

    def _value_at(self, z: Array) -> float:
        return float(self.rows.weight @ self._loss.value(self.rows.y, z))

    def _moved(self, j: int, u: Array) -> Array:
        """z with block j at `u`."""
        z = self._z.copy()
        self.rows.columns(j).move(z, (u - self._x.get(j)).reshape(self._shapes[j]))
        return z
