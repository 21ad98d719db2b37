"""Dense and sparse designs: with their panels, the places where the storage of X matters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import threads
from cyclade.linear.checks import in_chunks
from cyclade.linear.columns import DenseColumns, SparseColumns
from cyclade.linear.kernels import dense, sparse
from cyclade.linear.kernels.columns import nonzeros
from cyclade.linear.kernels.rows import weighted_dots
from cyclade.linear.kernels.storage import StoredX
from cyclade.linear.panels.dense import DensePanel, SharedDensePanel, turned
from cyclade.linear.panels.protocols import Design
from cyclade.linear.panels.sparse import SharedPanel, SparsePanel
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]
NONE = np.empty(0, np.int64)


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


def precise(X: Any, entries: int, uneven: bool, tuning: Tuning) -> Any:
    """X itself, or a small float32 X in float64: its rounding would show before a gap closes."""
    small = entries <= tuning.huge if uneven else 2 * entries <= tuning.cache
    return X.astype(np.float64) if X.dtype == np.float32 and small else X


def check_finite(entries: Array) -> None:
    """Raise ValueError unless all entries are finite."""
    if not np.isfinite(entries).all():
        raise ValueError("X: must hold finite numbers; it has NaN or infinity")


class DenseDesign:
    """X as one array, in the memory order it came in."""

    is_dense = True
    precompute: Any = "auto"

    def __init__(self, X: Array, uneven: bool = False, tuning: Tuning = DEFAULT) -> None:
        X, self.tuning = as_floats(X), tuning
        check_shape(X.shape)
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            X = np.asfortranarray(X)
        uneven = uneven and len(X) < tuning.sample * X.shape[1]  # means over many rows are fine
        self.given, X = X.dtype, precise(X, X.size, uneven, tuning)
        self.X, (self.n, self.p), self.dtype = X, X.shape, X.dtype
        self.entries = X.size
        self.by_columns = bool(X.flags.f_contiguous)  # else columns are picked from rows

    @cached_property
    def storage(self) -> StoredX:
        """The columns for kernels; an X by rows is turned."""
        nothing = np.empty(0, self.dtype), np.empty(0, np.uint32), np.zeros(1, np.uint64)
        return StoredX(True, self.turn().T, *nothing)

    def turn(self) -> Array:
        """X by columns: a copy if X is by rows, which is worked on from now on."""
        if not self.by_columns:
            ranks = threads.number(self.entries, self.tuning)
            self.X, self.by_columns = turned(self.X, self.cols, ranks).T, True
        return self.X

    @cached_property
    def cols(self) -> Array:
        """All columns."""
        return np.arange(self.p)

    @cached_property
    def rows(self) -> Array:
        """All rows."""
        return np.arange(self.n)

    def refuse(self) -> None:
        check_finite(self.X)

    @property
    def in_runs(self) -> bool:
        """Whether entries lie in runs so long that compiled loops are faster than gemv.

        Of a float32 X they sum in float64, so they are always used: a gap would not close.
        """
        run = (self.n if self.by_columns else self.p) * self.dtype.itemsize
        return bool(run >= self.tuning.long_run or self.dtype == np.float32)

    def correlate(self, v: Array) -> Array:
        if v.ndim == 2:  # one product reads X once
            return np.asarray((v.T.astype(self.dtype) @ self.X).T, np.float64)
        v, ranks = self._as_read(v), threads.number(self.entries, self.tuning)
        if not self.by_columns:
            parts = [slice(self.n * k // ranks, self.n * (k + 1) // ranks) for k in range(ranks)]
            sums = threads.together(lambda k: self._sum_rows(parts[k], v), ranks)
            with np.errstate(invalid="ignore", over="ignore"):
                return np.asarray(sum(sums[1:], sums[0]))
        out = np.empty(self.p)
        threads.split(lambda some: self._products(some, v, out[some]), self.p, ranks)
        return out

    def _products(self, some: slice, v: Array, out: Array) -> None:
        """a_j · v for some columns."""
        if self.in_runs:
            dense.correlate(self.X.T, self.cols[some], v, out)
        else:
            with np.errstate(invalid="ignore", over="ignore"):  # who asks checks the result
                out[:] = v @ self.X[:, some]

    def _as_read(self, v: Array) -> Array:
        """A vector in the precision that X is multiplied with it in."""
        return v if self.in_runs else v.astype(self.dtype, copy=False)

    def _sum_rows(self, some: slice, v: Array) -> Array:
        """Σ_i v_i a_i over some rows."""
        if not self.in_runs:
            with np.errstate(invalid="ignore", over="ignore"):
                return np.asarray(v[some] @ self.X[some], np.float64)
        out = np.zeros(self.p)
        dense.add_rows(self.X, self.rows[some], v[some], out, 0)
        return out

    def correlate_some(self, cols: Array, v: Array) -> Array:
        if not self.by_columns:
            out, v = np.zeros(cols.size), self._as_read(v)
            rows = max(self.tuning.cache // max(cols.size, 1), 256)
            for first in range(0, self.n, rows):  # copies of few rows
                some = slice(first, first + rows)
                out += v[some] @ self.X[some, cols]
            return out
        out = np.empty(cols.size)
        dense.correlate(self.X.T, cols, v, out)
        return out

    def reading(self, cols: Array) -> int:
        return int(self.n * cols.size)

    def norms(self) -> Array:
        out = np.empty(self.p)
        dense.norms(self.X.T, out)
        return out

    def predict(self, x: Array, support: Array | None = None) -> Array:
        if x.ndim == 2:
            support = np.flatnonzero(x.any(axis=1))
            few = 4 * support.size < self.p
            X, x = (self.X[:, support], x[support]) if few else (self.X, x)
            return np.asarray(X @ x.astype(self.dtype), np.float64)
        support = nonzeros(x) if support is None else support
        ranks, z = threads.number(self.n * support.size, self.tuning), np.zeros(self.n)
        some_columns = self.by_columns and (self.in_runs or 4 * support.size <= self.p)
        moves = x[support] if some_columns else self._as_read(x)

        def part(some: slice) -> None:
            if some_columns:
                dense.add_rows(self.X.T, support, moves, z[some], some.start)
            elif self.in_runs:
                dense.correlate(self.X, self.rows[some], moves, z[some])
            else:
                z[some] = self.X[some] @ moves

        if support.size:
            threads.split(part, self.n, ranks)
        return z

    def panel(self, columns: Array, w: Array, centred: bool, dtype: Any = None) -> DensePanel:
        return DensePanel(self.X, columns, w, centred, dtype, self.tuning)

    def growing_panel(self, w: Array, centred: bool) -> DensePanel:
        """The columns of X itself if all rows weigh the same and columns are long.

        A tall X by rows is turned for that: its columns lie scattered, and most of them would be
        picked.
        """
        return self.shared_panel(w, centred) if self.shares(w) else self.panel(NONE, w, centred)

    def shares(self, w: Array) -> bool:
        by_columns = self.by_columns or self.entries <= self.tuning.huge
        long = self.n * self.dtype.itemsize >= self.tuning.long_run and self.n >= self.p
        return bool(long and by_columns and w.min() == w.max())

    def shared_panel(self, w: Array, centred: bool) -> SharedDensePanel:
        return SharedDensePanel(self.turn(), w, centred, self.tuning)

    def unweighted(self, cols: Array, centred: bool) -> DenseColumns:
        return DenseColumns(self, cols, centred)

    def may_copy(self, columns: int) -> bool:
        """Whether a copy in float64 of so many columns is small, or small beside X."""
        size = self.n * columns
        return bool(size <= self.tuning.large or 4 * size <= self.entries)

    def products_pay(self, cols: Array) -> bool:
        """In float32 they would be too rough for a gap; a model copies its columns without them."""
        k, cost = cols.size, self.tuning.cost
        made = 0.5 * cost.product * k <= 2.0 * cost.model_cycles or not self.may_copy(k)
        return bool(made and k <= self.tuning.max_columns_kept and self.dtype == np.float64)


class SparseDesign:
    """X by columns, with unsigned views of its indices (so no loop tests for negative ones)."""

    is_dense = False
    precompute: Any = "auto"
    by_columns = True

    def __init__(self, X: Any, uneven: bool = False, tuning: Tuning = DEFAULT) -> None:
        X, self.tuning = X.tocsc(), tuning
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        self.data = as_floats(X.data)
        self.given, self.data = self.data.dtype, precise(self.data, self.data.size, uneven, tuning)
        check_shape(X.shape)
        self.rows = X.indices.view(f"u{X.indices.dtype.itemsize}")
        self.starts = X.indptr.astype(np.uint64)  # one kind of kernel for all
        (self.n, self.p), self.dtype = X.shape, self.data.dtype
        self.entries = self.data.size

    @cached_property
    def cols(self) -> Array:
        """All columns."""
        return np.arange(self.p)

    @cached_property
    def storage(self) -> StoredX:
        """The columns for kernels."""
        return StoredX(False, np.empty((0, 0), self.dtype), self.data, self.rows, self.starts)

    def refuse(self) -> None:
        check_finite(self.data)

    def correlate(self, v: Array) -> Array:
        if v.ndim == 2:  # one pass reads X once
            out, sums = np.empty((self.p, v.shape[1])), np.zeros((self.p, v.shape[1]))
            weighted_dots(self.storage, self.cols, np.vstack([v, sums[:1]]), sums, out)
            return out
        return self.correlate_some(self.cols, v)

    def correlate_some(self, cols: Array, v: Array) -> Array:
        out, v = np.empty(cols.size), v.astype(self.dtype, copy=False)
        X, ranks = (self.data, self.rows, self.starts), 1
        if self.entries >= self.tuning.large:
            ranks = threads.number(self.reading(cols), self.tuning)
        threads.split(lambda some: sparse.correlate(*X, cols[some], v, out[some]), cols.size, ranks)
        return out

    def reading(self, cols: Array) -> int:
        return int((self.starts[cols + 1] - self.starts[cols]).sum())

    def norms(self) -> Array:
        sums, squares = np.empty(self.p), np.empty(self.p)
        sparse.moments(self.data, self.starts, self.cols, sums, squares)
        return np.sqrt(squares)

    def predict(self, x: Array, support: Array | None = None) -> Array:
        if x.ndim == 2:
            support = np.flatnonzero(x.any(axis=1))
            return np.stack([self.predict(t, support) for t in x.T], axis=1)
        z = np.zeros(self.n)
        support = nonzeros(x) if support is None else support
        sparse.add_columns(
            self.data, self.rows, self.starts, support, x[support].astype(np.float64), z
        )
        return z

    def panel(self, columns: Array, w: Array, centred: bool, dtype: Any = None) -> SparsePanel:
        X = self.data, self.rows, self.starts
        return SparsePanel(*X, columns, w, centred, dtype, self.tuning)

    def growing_panel(self, w: Array, centred: bool) -> SparsePanel:
        """The columns of X itself if all rows weigh the same and columns are long.

        Short ones are faster in a copy, one after another: a column that is not expected costs a
        memory access.
        """
        long = self.data.nbytes >= self.tuning.long_run * self.p
        if not (long and self.shares(w)):
            return self.panel(NONE, w, centred)
        return self.shared_panel(w, centred)

    def shares(self, w: Array) -> bool:
        return bool(w.min() == w.max())

    def shared_panel(self, w: Array, centred: bool) -> SharedPanel:
        X = self.data, self.rows, self.starts
        return SharedPanel(*X, NONE, w, centred, self.tuning)

    def unweighted(self, cols: Array, centred: bool) -> SparseColumns:
        """The columns without weights; all of them if products pay, put by rows once for all."""
        return SparseColumns(self, self.cols if self.products_pay(self.cols) else cols)

    def products_pay(self, cols: Array) -> bool:
        few, cost = cols.size <= self.tuning.max_columns_kept, self.tuning.cost
        made = 0.5 * self.reading(cols) / self.n
        return bool(few and made <= 2.0 * cost.model_cycles * cost.gathered)


def as_design(X: Any, uneven: bool = False, tuning: Tuning = DEFAULT) -> Design:
    """Wrap X after checking it; `uneven` says that rows will get very different weights.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.eye(3)).correlate(np.arange(3.0))
    array([0., 1., 2.])
    """
    if in_chunks(X):
        raise TypeError(
            f"X: a table in chunks ({type(X).__name__}) is not to be had here; use X in memory, "
            "or solve, path, their estimators or partial_fit"
        )
    if hasattr(X, "tocsc"):
        return SparseDesign(X, uneven, tuning)
    return DenseDesign(np.asarray(X), uneven, tuning)
