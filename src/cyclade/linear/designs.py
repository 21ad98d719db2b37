"""Dense and sparse designs: with their panels, the places where the storage of X matters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import bounds, dense, sparse
from cyclade.linear.panels.dense import DensePanel
from cyclade.linear.panels.sparse import SharedPanel, SparsePanel
from cyclade.linear.weighted_columns import (
    MOST_DENSE,
    MOST_KEPT,
    MOST_PER_ROW,
    MOST_SPARSE,
    Columns,
    DenseColumns,
    SparseColumns,
)

Array = NDArray[Any]
LONG = 100  # entries of a column, on average, that is worked on where it lies
LOPSIDED = 100  # times the entries of an average column
SHORT = 12 * 1024  # bytes of columns that are read faster one by one than several at once
SMALL = 2**18  # entries of a float32 X that is worked on in float64
SMALL_IF_UNEVEN = 2**26  # the same for models that weigh rows very unevenly


def as_floats(X: Array) -> Array:
    """float32 and float64 as they are, other real numbers as float64."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X: its entries must be real numbers, got dtype {X.dtype}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise ValueError unless there are rows and columns."""
    if len(shape) != 2:
        raise ValueError(f"X: must have two dimensions, rows and columns, got {len(shape)}")
    if 0 in shape:
        raise ValueError(f"X: must have at least one row and one column, got shape {shape}")


def precise(X: Any, entries: int, uneven: bool) -> Any:
    """X itself, or a small float32 X in float64: its rounding would show before a gap closes."""
    small = entries <= (SMALL_IF_UNEVEN if uneven else SMALL)
    return X.astype(np.float64) if X.dtype == np.float32 and small else X


def check_finite(entries: Array) -> None:
    """Raise ValueError unless all entries are finite."""
    if not np.isfinite(entries).all():
        raise ValueError("X: must hold finite numbers; it has NaN or infinity")


class DenseDesign:
    """X as one array, in the memory order it came in."""

    def __init__(self, X: Array, uneven: bool = False) -> None:
        X = as_floats(X)
        check_shape(X.shape)
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            X = np.asfortranarray(X)
        self.given, X = X.dtype, precise(X, X.size, uneven)
        self.X, (self.n, self.p), self.dtype = X, X.shape, X.dtype
        self.entries = X.size

    @cached_property
    def cols(self) -> Array:
        """All columns."""
        return np.arange(self.p)

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity."""
        check_finite(self.X)

    def correlate(self, v: Array) -> Array:
        """Xᵀv, of one v or of several as columns."""
        if v.ndim == 2:  # one product reads X once
            return np.asarray((v.T.astype(self.dtype) @ self.X).T, np.float64)
        if self.X.flags.f_contiguous and self.n * self.dtype.itemsize <= SHORT:
            return self.correlate_some(self.cols, v)
        with np.errstate(invalid="ignore", over="ignore"):  # the caller looks at what comes out
            return np.asarray(self.X.T @ v.astype(self.dtype, copy=False), np.float64)

    def correlate_some(self, cols: Array, v: Array) -> Array:
        """Xᵀv on the chosen columns."""
        v = v.astype(self.dtype, copy=False)
        if not self.X.flags.f_contiguous:
            return np.asarray(v @ self.X[:, cols], np.float64)
        out = np.empty(cols.size)
        dense.chosen(self.X.T, cols, v, out)
        return out

    def reading(self, cols: Array) -> int:
        """As many as these columns have."""
        return int(self.n * cols.size)

    @property
    def by_columns(self) -> bool:
        """Not if they would have to be picked from rows."""
        return bool(self.X.flags.f_contiguous)

    lopsided = False

    def norms(self) -> Array:
        """In one pass."""
        out = np.empty(self.p)
        bounds.dense_norms(self.X.T, out)
        return out

    def predict(self, x: Array, support: Array | None = None) -> Array:
        """Xx, of one x or of several as columns: from the support alone while that is small."""
        if x.ndim == 2:
            support = np.flatnonzero(x.any(axis=1))
            few = 4 * support.size < self.p
            X, x = (self.X[:, support], x[support]) if few else (self.X, x)
            return np.asarray(X @ x.astype(self.dtype), np.float64)
        support = np.flatnonzero(x) if support is None else support
        if support.size and (4 * support.size > self.p or not self.X.flags.f_contiguous):
            return np.asarray(self.X @ x.astype(self.dtype, copy=False), np.float64)
        z = np.zeros(self.n)
        if support.size:
            dense.add_rows(self.X.T, support, x[support], z)
        return z

    def panel(self, columns: Array, w: Array, centred: bool) -> DensePanel:
        """The columns as rows of a contiguous array."""
        return DensePanel(self.X, columns, w, centred)

    def growing_panel(self, w: Array, centred: bool) -> DensePanel:
        """Copies, for they are centred and weighted."""
        return self.panel(np.empty(0, np.int64), w, centred)

    def columns(
        self, cols: Array, centred: bool, more: bool = False, wide: bool = False,
        kept: bool = False,
    ) -> Columns | None:  # fmt: skip
        """The columns without weights, if few; in float32 their products would be too rough."""
        if wide:
            return DenseColumns(self.X, cols, centred, precise=True)
        few = cols.size <= MOST_DENSE and (more or 4 * cols.size < self.n)
        if kept and not few and self.p <= min(MOST_KEPT, self.n):  # no others could come in
            few, cols = True, np.arange(self.p)
        return DenseColumns(self.X, cols, centred) if few and self.dtype == np.float64 else None


class SparseDesign:
    """X by columns, with unsigned views of its indices (so no loop tests for negative ones)."""

    def __init__(self, X: Any, uneven: bool = False) -> None:
        X = X.tocsc()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        self.data = as_floats(X.data)
        self.given, self.data = self.data.dtype, precise(self.data, self.data.size, uneven)
        check_shape(X.shape)
        self.rows = X.indices.view(f"u{X.indices.dtype.itemsize}")
        self.starts = X.indptr.astype(np.uint64)  # one kind of kernel for all
        (self.n, self.p), self.dtype = X.shape, self.data.dtype
        self.entries = self.data.size

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity."""
        check_finite(self.data)

    def correlate(self, v: Array) -> Array:
        """Xᵀv, of one v or of several as columns."""
        if v.ndim == 2:
            return np.stack([self.correlate(np.ascontiguousarray(t)) for t in v.T], axis=1)
        out = np.empty(self.p)
        sparse.products(self.data, self.rows, self.starts, v.astype(self.dtype, copy=False), out)
        return out

    def correlate_some(self, cols: Array, v: Array) -> Array:
        """Xᵀv on the chosen columns."""
        out = np.empty(cols.size)
        v = v.astype(self.dtype, copy=False)
        sparse.chosen(self.data, self.rows, self.starts, cols, v, out)
        return out

    by_columns = True

    @property
    def lopsided(self) -> bool:
        """By the longest column."""
        longest = int(np.diff(self.starts).max())
        return bool(longest * self.p > LOPSIDED * self.entries)

    def reading(self, cols: Array) -> int:
        """As many as these columns have."""
        return int((self.starts[cols + 1] - self.starts[cols]).sum())

    def norms(self) -> Array:
        """In one pass."""
        out = np.empty(self.p)
        bounds.sparse_norms(self.data, self.starts, out)
        return out

    def predict(self, x: Array, support: Array | None = None) -> Array:
        """Xx, of one x or of several as columns: from the support."""
        if x.ndim == 2:
            return np.stack([self.predict(np.ascontiguousarray(t)) for t in x.T], axis=1)
        z = np.zeros(self.n)
        support = np.flatnonzero(x) if support is None else support
        sparse.add_columns(
            self.data, self.rows, self.starts, support, x[support].astype(np.float64), z
        )
        return z

    def panel(self, columns: Array, w: Array, centred: bool) -> SparsePanel:
        """The columns, weighted, as a smaller matrix by columns."""
        return SparsePanel(self.data, self.rows, self.starts, columns, w, centred)

    def growing_panel(self, w: Array, centred: bool) -> SparsePanel:
        """The columns of X itself if all rows weigh the same and columns are long.

        Short ones are sooner read one after another: each place in memory must be waited for.
        """
        long = self.entries >= LONG * self.p
        kind = SharedPanel if long and w.min() == w.max() else SparsePanel
        return kind(self.data, self.rows, self.starts, np.empty(0, np.int64), w, centred)

    def columns(
        self, cols: Array, centred: bool, more: bool = False, wide: bool = False,
        kept: bool = False,
    ) -> Columns | None:  # fmt: skip
        """The columns without weights, by rows, if rows have few entries in them."""
        if self.p <= MOST_SPARSE and self.entries < MOST_PER_ROW * self.n:
            cols = np.arange(self.p)  # by rows once for all
        entries = int((self.starts[cols + 1] - self.starts[cols]).sum())
        few = cols.size <= MOST_SPARSE and (more or 4 * cols.size < self.n)
        few &= entries < MOST_PER_ROW * self.n
        return SparseColumns(self, cols) if few or wide else None
