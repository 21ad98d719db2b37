"""Columns of X as they are, for models with weights: `DenseColumns` and `SparseColumns`.

A quadratic model of the loss over k columns needs G = Aᵀ diag(w) A and the slopes Aᵀu alone. Where
forming G costs about as much as a few cycles over the columns, all cycles are made on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import sparse
from cyclade.linear.panels.dense import gather

if TYPE_CHECKING:
    from cyclade.linear.designs import DenseDesign, SparseDesign

Array = NDArray[Any]


class Columns(Protocol):
    """Some columns A of X, less their centres."""

    cols: Array
    centres: Array  # what was taken off each column, so that no products cancel

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        """Aᵀv, for v (n,) or (n, m); of the chosen columns, if any are named."""

    def products(self, chosen: Array, w: Array) -> Array:
        """Aᵀ diag(w) A over the chosen columns, given in order; w may be negative."""

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        """The rows of that for some of the chosen columns; both are given in order."""

    def combine(self, chosen: Array, x: Array) -> Array:
        """Σ_k x_k a_k over the chosen columns, for x (k,) or (k, m)."""


class DenseColumns(Columns):
    """The columns one after another, less their means if an intercept makes up for it.

    Columns that would take much room are not copied: they are read where they lie, and products
    take copies of blocks of rows in turn.
    """

    def __init__(self, design: DenseDesign, cols: Array, centred: bool) -> None:
        self.cols, self.design, X, n = cols, design, design.X, design.n
        self.centres, self.A = np.zeros(cols.size), np.empty((0, n))
        self.copied = design.may_copy(cols.size)
        if not self.copied:
            self.centres = self.slopes(np.full(n, 1.0 / n)) if centred else self.centres
        elif not centred and cols.size == design.p and X.flags.f_contiguous:
            self.A = X.T.astype(np.float64, copy=False)
        else:
            self.A, ones = np.empty((cols.size, n)), np.ones(n)
            gather(X, cols, ones, ones, centred, self.A, self.centres, np.empty(cols.size))

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        if self.copied:
            out = np.asarray(self.A @ v, np.float64)  # to pick columns would cost more
            return out if chosen is None else out[chosen]
        if v.ndim == 2:
            return np.stack([self.slopes(np.ascontiguousarray(t), chosen) for t in v.T], axis=1)
        chosen = np.arange(self.cols.size) if chosen is None else chosen
        out = self.design.correlate_some(self.cols[chosen], v)
        return np.asarray(out - self.centres[chosen] * float(v.sum()))

    def products(self, chosen: Array, w: Array) -> Array:
        """A matrix times itself, which is half a product; two where weights have both signs."""
        G, root = np.zeros((chosen.size, chosen.size)), np.sqrt(np.abs(w))
        positive = w.min() > 0
        for some in self._spans(chosen.size):
            B = self._block(chosen, some)
            B *= root[some]
            if positive:
                G += B @ B.T
                continue
            up, down = B[:, w[some] > 0], B[:, w[some] < 0]
            G += up @ up.T
            G -= down @ down.T
        return G

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        both, out = np.concatenate([some, chosen]), np.zeros((some.size, chosen.size))
        for rows in self._spans(both.size):
            A = self._block(both, rows)
            out += (A[: some.size] * w[rows]) @ A[some.size :].T
        return out

    def _spans(self, columns: int) -> Iterator[slice]:
        """All rows, so many at a time that copies of so many columns are small."""
        rows = max(self.design.tuning.cache // max(columns, 1), 256)
        return (slice(first, first + rows) for first in range(0, self.design.n, rows))

    def _block(self, chosen: Array, some: slice) -> Array:
        """A copy of some rows of the chosen columns."""
        if self.copied:
            return np.take(self.A[:, some], chosen, axis=0)
        cols, X = self.cols[chosen], self.design.X
        A = X.T[cols, some] if self.design.by_columns else np.take(X[some], cols, axis=1).T
        return np.asarray(A.astype(np.float64, copy=False) - self.centres[chosen][:, None])

    def combine(self, chosen: Array, x: Array) -> Array:
        if self.copied:
            moved = np.flatnonzero(x if x.ndim == 1 else x.any(axis=1))
            return np.asarray(x[moved].T @ self.A[chosen[moved]], np.float64).T
        if x.ndim == 2:
            return np.stack([self.combine(chosen, t) for t in x.T], axis=1)
        whole = np.zeros(self.design.p)
        whole[self.cols[chosen]] = x
        return np.asarray(self.design.predict(whole) - float(self.centres[chosen] @ x))


class SparseColumns(Columns):
    """The columns where they lie, and by rows where products are formed so."""

    def __init__(self, design: SparseDesign, cols: Array) -> None:
        self.cols, self.design, self.centres = cols, design, np.zeros(cols.size)
        self.X = design.data, design.rows, design.starts
        self.sizes = (design.starts[cols + 1] - design.starts[cols]).astype(np.int64)

    @cached_property
    def by_rows(self) -> tuple[Array, Array, Array]:
        """All the columns by rows."""
        return sparse.by_rows(*self.X, self.cols, self.design.n)

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        if v.ndim == 2:
            return np.stack([self.slopes(np.ascontiguousarray(t), chosen) for t in v.T], axis=1)
        cols = self.cols if chosen is None else self.cols[chosen]
        out = np.empty(cols.size)
        sparse.correlate(*self.X, cols, v, out)
        return out

    def products(self, chosen: Array, w: Array) -> Array:
        """Column against column if they are few, else by rows: Σ_i w_i b_i b_iᵀ."""
        G, sizes, cols = np.empty((chosen.size, chosen.size)), self.sizes[chosen], self.cols[chosen]
        entries, tuning = float(sizes.sum()), self.design.tuning
        # The shorter of every two columns is read.
        if float(np.sort(sizes) @ np.arange(chosen.size, 0, -1)) < tuning.cost.by_rows * entries:
            shortest = np.argsort(sizes, kind="stable")
            sparse.paired_products(*self.X, cols, shortest, 0, w, G)
        elif 2.0 * entries < self.sizes.sum():  # sooner put by rows than searched
            sparse.column_products(*self.X, cols, w, G, tuning.cache)
        else:
            place = np.full(self.cols.size, -1, np.int32)
            place[chosen] = np.arange(chosen.size)
            sparse.weighted_products(*self.by_rows, place, w, G)
        return G

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        return self.products(chosen, w)[np.searchsorted(chosen, some)]

    def combine(self, chosen: Array, x: Array) -> Array:
        if x.ndim == 2:
            return np.stack([self.combine(chosen, t) for t in x.T], axis=1)
        out, moved = np.zeros(self.design.n), np.flatnonzero(x)
        sparse.add_columns(*self.X, self.cols[chosen[moved]], x[moved], out)
        return out
