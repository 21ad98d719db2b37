"""Columns without weights: their products under any weights, so that cycles never read a row.

A quadratic model of the loss over k columns needs G = Aᵀ diag(w) A and the slopes Aᵀu alone. Where
forming G costs about as much as a few cycles over the columns, all cycles are made on it.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import dense, sparse
from cyclade.linear.panels.dense import gather
from cyclade.linear.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from cyclade.linear.designs import SparseDesign

Array = NDArray[Any]


class Columns(abc.ABC):
    """A without weights."""

    cols: Array
    tuning: Tuning
    centres: Array  # what was taken off each column, so that no products cancel
    sizes: Array  # how many entries each has

    @abc.abstractmethod
    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        """Aᵀv, for v (n,) or (n, m); of the chosen columns, if any are named."""

    @abc.abstractmethod
    def products(self, chosen: Array, w: Array) -> Array:
        """Aᵀ diag(w) A over the chosen columns, given in order; w may be negative."""

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        """The rows of that for some of the chosen columns; both are given in order."""
        return self.products(chosen, w)[np.searchsorted(chosen, some)]

    @abc.abstractmethod
    def price(self, chosen: Array) -> float:
        """What their products cost, in entries of X read in passing."""

    @abc.abstractmethod
    def combine(self, chosen: Array, x: Array) -> Array:
        """Σ_k x_k a_k over the chosen columns, for x (k,) or (k, m)."""


class DenseColumns(Columns):
    """The columns one after another, less their means if an intercept makes up for it."""

    def __init__(self, X: Array, cols: Array, centred: bool, tuning: Tuning = DEFAULT) -> None:
        self.cols, self.tuning, n = cols, tuning, X.shape[0]
        self.centres, self.sizes = np.zeros(cols.size), np.full(cols.size, n)
        if not centred and cols.size == X.shape[1] and X.flags.f_contiguous:
            self.A = X.T.astype(np.float64, copy=False)
            return
        self.A, ones = np.empty((cols.size, n)), np.ones(n)
        gather(X, cols, ones, ones, centred, self.A, self.centres, np.empty(cols.size))

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        out = np.asarray(self.A @ v, np.float64)  # to pick columns would cost more
        return out if chosen is None else out[chosen]

    def _rows(self, chosen: Array) -> Array:
        """These columns; all of them, in the order they have, without a copy."""
        same = chosen.size == self.cols.size and (chosen == np.arange(chosen.size)).all()
        return self.A if same else self.A[chosen]

    def products(self, chosen: Array, w: Array) -> Array:
        """A matrix times itself, which is half a product; two where weights have both signs.

        Weighted copies are of so many rows at a time.
        """
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

    def _spans(self, columns: int) -> Iterator[slice]:
        """All rows, so many at a time that copies of so many columns are small."""
        n = int(self.sizes[0]) if self.sizes.size else 0
        rows = max(self.tuning.block_entries // max(columns, 1), 256)
        return (slice(first, min(first + rows, n)) for first in range(0, n, rows))

    def _block(self, chosen: Array, some: slice) -> Array:
        """A copy of some rows of the chosen columns."""
        return np.take(self.A[:, some], chosen, axis=0)

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        A = self._rows(chosen)
        return np.asarray((self.A[some] * w) @ A.T, np.float64)

    def price(self, chosen: Array) -> float:
        return self.tuning.cost.product * 0.5 * float(self.A.shape[1]) * chosen.size**2

    def combine(self, chosen: Array, x: Array) -> Array:
        if x.ndim == 2:
            return np.asarray(self._rows(chosen).T @ x, np.float64)
        moved = np.flatnonzero(x)
        return np.asarray(x[moved] @ self.A[chosen[moved]], np.float64)


class LongColumns(DenseColumns):
    """The same of an X whose columns would take much room: they are read where they lie.

    Products, and what has several columns itself, take copies of blocks of rows in turn.
    """

    def __init__(self, X: Array, cols: Array, centred: bool, tuning: Tuning = DEFAULT) -> None:
        self.cols, self.tuning, self.X = cols, tuning, X
        self.by_columns = bool(X.flags.f_contiguous)
        self.centres, self.sizes = np.zeros(cols.size), np.full(cols.size, X.shape[0])
        if centred:
            self.centres = self.slopes(np.full(X.shape[0], 1.0 / X.shape[0]))

    def _block(self, chosen: Array, some: slice) -> Array:
        cols = self.cols[chosen]
        A = self.X.T[cols, some] if self.by_columns else np.take(self.X[some], cols, axis=1).T
        A = A.astype(np.float64, copy=False)
        A -= self.centres[chosen][:, None]
        return A

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        chosen = np.arange(self.cols.size) if chosen is None else chosen
        if v.ndim == 1:
            cols = self.cols[chosen]
            if self.by_columns:
                out = np.empty(chosen.size)
                dense.correlate(self.X.T, cols, v, out)
            else:  # all columns: rows are read as they lie
                every = np.zeros(self.X.shape[1])
                dense.add_rows(self.X, np.arange(v.size), v, every, 0)
                out = every[cols]
            return out - self.centres[chosen] * float(v.sum())
        out = np.zeros((chosen.size, *v.shape[1:]))
        for some in self._spans(chosen.size):
            out += self._block(chosen, some) @ v[some]
        return out

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        both, out = np.concatenate([some, chosen]), np.zeros((some.size, chosen.size))
        for rows in self._spans(both.size):
            A = self._block(both, rows)
            out += (A[: some.size] * w[rows]) @ A[some.size :].T
        return out

    def price(self, chosen: Array) -> float:
        return self.tuning.cost.product * 0.5 * float(self.X.shape[0]) * chosen.size**2

    def combine(self, chosen: Array, x: Array) -> Array:
        out = np.zeros((self.X.shape[0], *x.shape[1:]))
        if x.ndim == 1:
            moved = np.flatnonzero(x)
            cols = self.cols[chosen[moved]]
            if self.by_columns:
                dense.add_rows(self.X.T, cols, x[moved], out, 0)
            else:
                every = np.zeros(self.X.shape[1])
                every[cols] = x[moved]
                dense.correlate(self.X, np.arange(out.size), every, out)
            return out - float(self.centres[chosen] @ x)
        for some in self._spans(chosen.size):
            out[some] = self._block(chosen, some).T @ x
        return out


class SparseColumns(Columns):
    """The columns where they lie, and by rows where products are formed so."""

    def __init__(self, X: SparseDesign, cols: Array, tuning: Tuning = DEFAULT) -> None:
        self.cols, self.n, self.centres = cols, X.n, np.zeros(cols.size)
        self.tuning = tuning
        self.X, self.sizes = X, (X.starts[cols + 1] - X.starts[cols]).astype(np.int64)

    @cached_property
    def parts(self) -> tuple[Array, Array, Array]:
        """All the columns by rows."""
        X = self.X
        return sparse.by_rows(X.data, X.rows, X.starts, self.cols, X.n)

    def slopes(self, v: Array, chosen: Array | None = None) -> Array:
        if v.ndim == 2:
            return np.stack([self.slopes(np.ascontiguousarray(t), chosen) for t in v.T], axis=1)
        X, cols = self.X, self.cols if chosen is None else self.cols[chosen]
        out = np.empty(cols.size)
        sparse.correlate(X.data, X.rows, X.starts, cols, v, out)
        return out

    def price(self, chosen: Array) -> float:
        return min(self.reads(chosen), self.tuning.cost.by_rows * float(self.sizes[chosen].sum()))

    def reads(self, chosen: Array) -> float:
        """How many entries are read if the shorter of every two columns is."""
        return float(np.sort(self.sizes[chosen]) @ np.arange(chosen.size, 0, -1))

    def products(self, chosen: Array, w: Array) -> Array:
        """Column against column if they are few, else by rows: Σ_i w_i b_i b_iᵀ."""
        G, X, cols = np.empty((chosen.size, chosen.size)), self.X, self.cols[chosen]
        price, entries = self.price(chosen), float(self.sizes[chosen].sum())
        if price < self.tuning.cost.by_rows * entries:
            shortest = np.argsort(self.sizes[chosen], kind="stable")
            sparse.paired_products(X.data, X.rows, X.starts, cols, shortest, 0, w, G)
            return G
        if 2.0 * entries < self.sizes.sum():  # sooner put by rows than searched
            most = self.tuning.block_entries
            sparse.column_products(X.data, X.rows, X.starts, cols, w, G, most)
            return G
        place = np.full(self.cols.size, -1, np.int32)
        place[chosen] = np.arange(chosen.size)
        sparse.weighted_products(*self.parts, place, w, G)
        return G

    def combine(self, chosen: Array, x: Array) -> Array:
        if x.ndim == 2:
            return np.stack([self.combine(chosen, t) for t in x.T], axis=1)
        X, out = self.X, np.zeros(self.n)
        moved = np.flatnonzero(x)
        sparse.add_columns(X.data, X.rows, X.starts, self.cols[chosen[moved]], x[moved], out)
        return out
