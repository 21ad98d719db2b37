"""Sparse X, and panels of its columns: weighted copies, or as they are; centred implicitly.

The last entry of R is a shift: the residual is R[:n] + shift·√w.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics, threads
from cyclade.linear.checks import as_floats, check_finite, check_shape, precise
from cyclade.linear.kernels import linalg, sparse
from cyclade.linear.kernels.rows import weighted_dots
from cyclade.linear.kernels.storage import Stored, StoredX
from cyclade.linear.panels.protocols import Columns
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]
NONE = np.empty(0, np.int64)


class SparsePanel:
    """A `Panel`: the columns times √w, one after another, and room for more."""

    in_place = True
    w = 1.0  # what is left to multiply products of columns by

    def __init__(
        self, data: Array, rows: Array, starts: Array, columns: Array, w: Array, centred: bool,
        dtype: Any = None, tuning: Tuning = DEFAULT,
    ) -> None:  # fmt: skip
        self.X, self.centred, self.tuning = (data, rows, starts), centred, tuning
        self.dtype = np.dtype(data.dtype if dtype is None else dtype)
        self.root, self.mass = np.sqrt(w), float(w.sum())
        self._scale = self.root.astype(self.dtype)
        self.cols = NONE
        self.data, self.rows = np.empty(0, self.dtype), np.empty(0, np.uint32)
        self.starts = np.zeros(1, np.uint64)
        self.sums, self.L = np.empty(0), np.empty(0)  # a_j · w if centred, Σ w a_j²
        self.extend(columns)

    def extend(self, columns: Array) -> Array:
        starts = self.X[2]
        first, used = self.cols.size, int(self.starts[-1])
        size = used + int((starts[columns + 1] - starts[columns]).sum())
        if size > self.data.size:  # memory that is never written costs nothing
            room = min(3 * size, self.X[0].size) if first else size
            data, rows = np.empty(room, self.dtype), np.empty(room, np.uint32)
            data[:used], rows[:used] = self.data[:used], self.rows[:used]
            self.data, self.rows = data, rows
        begins = np.empty(columns.size + 1, np.uint64)
        sums, L = np.empty(columns.size), np.empty(columns.size)
        out = self.data, self.rows, begins
        sparse.gather(self.X, columns, self._scale, out, sums, L, used)
        self.starts = np.concatenate([self.starts[:-1], begins])
        sums, L = self._centre(sums, L)
        self.sums, self.L = np.concatenate([self.sums, sums]), np.concatenate([self.L, L])
        self.means = self.sums / self.mass
        self.cols = np.concatenate([self.cols, columns])
        return np.arange(first, self.cols.size)

    def _centre(self, sums: Array, L: Array) -> tuple[Array, Array]:
        """a_j · √w and ‖a_j‖² of the centred columns, from those of the columns."""
        if not self.centred:
            sums = np.zeros_like(sums)
        least = np.maximum(numerics.FLAT * L, np.finfo(self.dtype).tiny)
        return sums, np.maximum(L - sums**2 / self.mass, least)

    @property
    def storage(self) -> Stored:
        """The columns for kernels."""
        X = self.data, self.rows, self.starts
        return Stored(False, np.empty((0, 0), self.dtype), *X, self.sums, self.mass, self.L, self.w)

    def place(self, x: Array) -> None:
        self.x = x.astype(self.dtype)

    def start(self, R: Array, x: Array) -> None:
        self.R = np.append(R, 0.0).astype(self.dtype, copy=False)
        self.place(x)

    def begin(self, slopes: Array, slope: float, x: Array) -> None:
        self.R = np.empty(slopes.size + 1, self.dtype)
        self._divide(slopes, self.R[:-1])
        self.R[-1] = slope / self.mass if self.centred else 0.0
        self.place(x)

    def _divide(self, slopes: Array, out: Array) -> None:
        """out = −slopes/√w."""
        np.negative(slopes, out=out, casting="same_kind")
        out /= self._scale

    def correlations(self, at: Array | None = None) -> Array:
        at = np.arange(self.cols.size) if at is None else at
        return self.correlate(at, self.R) + float(self.R[-1]) * self.sums[at]

    def correlate(self, at: Array, v: Array) -> Array:
        """a_k · v for the columns `at`, as they are stored."""
        out = np.empty(at.size)
        v = v.astype(self.dtype, copy=False)
        sparse.correlate(self.data, self.rows, self.starts, at, v, out)
        return out

    def gram_breakeven_cycles(self, order: Array, new: Array) -> float:
        """The products against twice all entries per cycle, and about as much for k² numbers."""
        if not new.size:
            return 0.0
        if order.size > self.tuning.most_columns:
            return np.inf
        entries = max(self.entries(order), 1.0)
        made = 0.5 * min(16.0 + entries / self.root.size, float(new.size))
        return made + order.size * new.size / entries

    def entries(self, order: Array) -> float:
        return float((self.starts[order + 1] - self.starts[order]).sum())

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """A Aᵀ over `old`, whose products are G, and `new`.

        A few new columns meet all others one by one. Otherwise all products are formed again from
        the columns by rows, at Σ m_i²/2 for m_i entries in row i.
        """
        k, n, order = old.size, self.root.size, np.concatenate([old, new])
        out, w = np.empty((order.size, order.size)), np.full(n, self.w)
        out[:k, :k] = G
        if new.size < 16.0 + self.entries(order) / n:
            every = np.arange(order.size)
            sparse.paired_products(self.data, self.rows, self.starts, order, every, k, w, out)
        else:
            k, most = 0, self.tuning.cache
            sparse.column_products(self.data, self.rows, self.starts, order, w, out, most)
        if self.centred:
            linalg.subtract_outer(out, k, self.sums[order], self.means[order])
        return out

    def hessians(self, at: Array) -> Array:
        """A Aᵀ over the columns of each row of `at`."""
        return np.stack([self.products(NONE, own, np.empty((0, 0))) for own in at])

    def product(self, dx: Array, at: Array | None = None) -> Array:
        out, at = np.zeros(self.root.size), np.arange(dx.size) if at is None else at
        sparse.add_columns(self.data, self.rows, self.starts, at, dx, out)
        return out - float(self.means[at] @ dx) * self.root

    def advance(self, columns: Array, dx: Array) -> None:
        moved = np.flatnonzero(dx)
        self.x[columns] += dx.astype(self.dtype)
        d = -self.w * dx[moved]
        sparse.add_columns(self.data, self.rows, self.starts, columns[moved], d, self.R)
        self.R[-1] += float(self.means[columns] @ dx)

    def residual(self) -> Array:
        return np.asarray(self.R[:-1] + float(self.R[-1]) * self.root)


class SharedPanel(SparsePanel):
    """All columns of X where they lie, for rows of equal weight w: only norms are computed.

    R is multiplied by √w once more, so that a_j · R is what it is for a weighted copy.
    """

    def __init__(
        self, data: Array, rows: Array, starts: Array, columns: Array, w: Array, centred: bool,
        tuning: Tuning = DEFAULT,
    ) -> None:  # fmt: skip
        p = starts.size - 1
        self.X = data, rows, starts
        self.data, self.rows, self.starts, self.centred = data, rows, starts, centred
        self.dtype, self.tuning = data.dtype, tuning
        self.mass, self.w = float(w.sum()), float(w[0])
        self.root = np.broadcast_to(np.sqrt(self.w), w.shape)
        self.cols = np.arange(p)
        self.sums, self.means, self.L = np.zeros(p), np.zeros(p), np.zeros(p)
        self.extend(columns)

    def extend(self, columns: Array) -> Array:
        sums, L, ranks = np.empty(columns.size), np.empty(columns.size), 1
        if self.data.size >= self.tuning.large:
            ranks = threads.number(self.entries(columns), self.tuning)
        threads.split(
            lambda some: sparse.moments(self.data, self.starts, columns[some], sums[some], L[some]),
            columns.size, ranks,
        )  # fmt: skip
        sums, L = self._centre(self.w * sums, self.w * L)
        self.sums[columns], self.means[columns], self.L[columns] = sums, sums / self.mass, L
        return columns

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """As for any panel; columns that nothing has asked for yet may be among the new ones."""
        self.extend(new[self.L[new] == 0.0])
        return super().products(old, new, G)

    def start(self, R: Array, x: Array) -> None:
        super().start(R * self.root, x)

    def _divide(self, slopes: Array, out: Array) -> None:
        np.negative(slopes, out=out, casting="same_kind")

    def residual(self) -> Array:
        return np.asarray(self.R[:-1] / self.root + float(self.R[-1]) * self.root)


class SparseColumns(Columns):
    """The columns where they lie."""

    def __init__(self, design: SparseDesign, cols: Array) -> None:
        self.cols, self.design, self.centres = cols, design, np.zeros(cols.size)
        self.X = design.data, design.rows, design.starts
        self.sizes = (design.starts[cols + 1] - design.starts[cols]).astype(np.int64)

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
        read = float(np.sort(sizes) @ np.arange(chosen.size, 0, -1))  # the shorter of every two
        if read < 2.0 * tuning.cost.gathered * entries:
            shortest = np.argsort(sizes, kind="stable")
            sparse.paired_products(*self.X, cols, shortest, 0, w, G)
        else:
            sparse.column_products(*self.X, cols, w, G, tuning.cache)
        return G

    def combine(self, chosen: Array, x: Array) -> Array:
        if x.ndim == 2:
            return np.stack([self.combine(chosen, t) for t in x.T], axis=1)
        out, moved = np.zeros(self.design.n), np.flatnonzero(x)
        sparse.add_columns(*self.X, self.cols[chosen[moved]], x[moved], out)
        return out


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
        support = np.flatnonzero(x != 0) if support is None else support
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
        if long and w.min() == w.max():
            X = self.data, self.rows, self.starts
            return SharedPanel(*X, NONE, w, centred, self.tuning)
        return self.panel(NONE, w, centred)

    def unweighted(self, cols: Array, centred: bool) -> SparseColumns:
        """The columns without weights; all of them if products of all pay."""
        return SparseColumns(self, self.cols if self.products_pay(self.cols) else cols)

    def products_pay(self, cols: Array) -> bool:
        few, tuning = cols.size <= self.tuning.few_columns, self.tuning
        made = 0.5 * self.reading(cols) / self.n
        return bool(few and made <= tuning.burst * tuning.cost.gathered)
