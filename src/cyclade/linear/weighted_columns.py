"""Few columns of many rows: their products under any weights, so that cycles never see a row.

A quadratic model of the loss over k columns needs G = Aᵀ diag(w) A and the slopes Aᵀu alone. Where
forming G costs about as much as a few cycles over the columns, all cycles are made on it.
"""

from __future__ import annotations

import abc
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import rows

if TYPE_CHECKING:
    from cyclade.linear.designs import SparseDesign

Array = NDArray[Any]
MOST_DENSE = 96  # columns: their products cost this many sixteenths of a cycle
MOST_KEPT = 1_000  # columns of a tall X whose products serve several models
MOST_SPARSE = 1_000  # columns
OFTEN = 4  # times that products are formed before all are
FEW = 2.0  # so many times fewer entries are worth being put by rows on their own
MOST_PER_ROW = 40  # entries of a row, on average: half of it is the price in passes
PER_ENTRY = 16.0  # products within a matrix product, in the time of an entry read in passing
BY_ROWS = 10.0  # the price of an entry that is put by rows and multiplied, in entries read


class Columns(abc.ABC):
    """A without weights."""

    cols: Array
    centres: Array  # what was taken off each column, so that no products cancel
    members: Array = np.empty(0, np.int64)
    G: Array = np.empty((0, 0))
    formed: int = 0  # how often
    sizes: Array  # how many entries each has

    @abc.abstractmethod
    def slopes(self, v: Array) -> Array:
        """Aᵀv."""

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
        """Σ_k x_k a_k over the chosen columns."""

    def same_products(self, chosen: Array, w: Array) -> Array:
        """As `products`, for weights that are the same in every call: what was formed is kept."""
        if not np.isin(chosen, self.members, assume_unique=True).all():
            self.members, self.formed = np.union1d(self.members, chosen), self.formed + 1
            most = FEW * self.sizes[self.members].sum() > self.sizes.sum()
            if most or self.formed > OFTEN:  # the rest costs little, or is wanted in the end
                self.members = np.arange(self.cols.size)
            self.G = self.products(self.members, w)
        at = np.searchsorted(self.members, chosen)
        return self.G[np.ix_(at, at)]


class DenseColumns(Columns):
    """The columns one after another, less their means if an intercept makes up for it."""

    def __init__(self, X: Array, cols: Array, centred: bool, precise: bool = False) -> None:
        """`precise` columns are in float64 whatever X is in."""
        self.cols = cols
        dtype = np.float64 if precise else X.dtype
        if cols.size == X.shape[1] and X.flags.f_contiguous and dtype == X.dtype:
            self.A = X.T
        else:
            A = X.T[cols] if X.flags.f_contiguous else X[:, cols].T
            self.A = np.ascontiguousarray(A, dtype)
        self.centres, self.sizes = np.zeros(cols.size), np.full(cols.size, X.shape[0])
        if centred:
            self.A = self.A - self.A.mean(axis=1, keepdims=True)  # X stays as it is
            self.centres = X[0, cols].astype(np.float64) - self.A[:, 0]

    def slopes(self, v: Array) -> Array:
        """Aᵀv."""
        return np.asarray(self.A @ v.astype(self.A.dtype, copy=False), np.float64)

    def _rows(self, chosen: Array) -> Array:
        """These columns; all of them, in the order they have, without a copy."""
        same = chosen.size == self.cols.size and (chosen == np.arange(chosen.size)).all()
        return self.A if same else self.A[chosen]

    def products(self, chosen: Array, w: Array) -> Array:
        """A matrix times itself, which is half a product; two where weights have both signs."""
        A = self._rows(chosen)
        if w.min() > 0:
            B = A * np.sqrt(w).astype(A.dtype, copy=False)
            return np.asarray(B @ B.T, np.float64)
        up, down = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
        B = A[:, up] * np.sqrt(w[up]).astype(A.dtype, copy=False)
        C = A[:, down] * np.sqrt(-w[down]).astype(A.dtype, copy=False)
        return np.asarray(B @ B.T - C @ C.T, np.float64)

    def products_of(self, some: Array, chosen: Array, w: Array) -> Array:
        """One matrix product."""
        A = self._rows(chosen)
        return np.asarray((self.A[some] * w.astype(A.dtype, copy=False)) @ A.T, np.float64)

    def price(self, chosen: Array) -> float:
        """Of half a matrix product, which multiplies while a pass waits for memory."""
        return 0.5 * float(self.A.shape[1]) * chosen.size**2 / PER_ENTRY

    def combine(self, chosen: Array, x: Array) -> Array:
        """From those that moved."""
        moved = np.flatnonzero(x)
        return np.asarray(x[moved].astype(self.A.dtype) @ self.A[chosen[moved]], np.float64)


class SparseColumns(Columns):
    """The columns by rows."""

    def __init__(self, X: SparseDesign, cols: Array) -> None:
        self.cols, self.n, self.centres = cols, X.n, np.zeros(cols.size)
        self.X, self.sizes = X, (X.starts[cols + 1] - X.starts[cols]).astype(np.int64)

    def parts_of(self, cols: Array) -> tuple[Array, Array, Array]:
        """Those columns by rows."""
        X = self.X
        return rows.by_rows(X.data, X.rows, X.starts, cols, X.n)

    @cached_property
    def parts(self) -> tuple[Array, Array, Array]:
        """All the columns by rows."""
        return self.parts_of(self.cols)

    def slopes(self, v: Array) -> Array:
        """Aᵀv."""
        out = np.empty(self.cols.size)
        rows.slopes(*self.parts, v, out)
        return out

    def price(self, chosen: Array) -> float:
        """Of the cheaper way."""
        return min(self.reads(chosen), BY_ROWS * float(self.sizes[chosen].sum()))

    def reads(self, chosen: Array) -> float:
        """How many entries are read if the shorter of every two columns is."""
        return float(np.sort(self.sizes[chosen]) @ np.arange(chosen.size, 0, -1))

    def products(self, chosen: Array, w: Array) -> Array:
        """Column against column if they are few, else by rows: Σ_i w_i b_i b_iᵀ."""
        G = np.empty((chosen.size, chosen.size))
        if self.reads(chosen) < BY_ROWS * self.sizes[chosen].sum():
            X, longest = self.X, np.argsort(-self.sizes[chosen], kind="stable")
            cols = self.cols[chosen]
            rows.paired_products(X.data, X.rows, X.starts, cols, longest, w, G)
            return G
        if FEW * self.sizes[chosen].sum() < self.sizes.sum():  # sooner put by rows than looked for
            every = np.arange(chosen.size, dtype=np.int32)
            rows.weighted_products(*self.parts_of(self.cols[chosen]), every, w, G)
            return G
        place = np.full(self.cols.size, -1, np.int32)
        place[chosen] = np.arange(chosen.size)
        rows.weighted_products(*self.parts, place, w, G)
        return G

    def combine(self, chosen: Array, x: Array) -> Array:
        """By rows."""
        every, out = np.zeros(self.cols.size), np.empty(self.n)
        every[chosen] = x
        rows.combine(*self.parts, every, out)
        return out
