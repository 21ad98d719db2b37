"""Working sets of sparse columns: weighted copies, or the columns of X as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import sparse
from cyclade.linear.kernels.gram import more_sparse_products, sparse_products
from cyclade.linear.panels.dense import LEAST_CURVATURE, MOST_PRODUCTS
from cyclade.linear.penalty_bound import BoundPenalty

Array = NDArray[Any]


class SparsePanel:
    """The columns times √w, one after another; centred implicitly."""

    choice_is_free = True
    w = 1.0  # what is left to multiply products of columns by

    def __init__(
        self, data: Array, rows: Array, starts: Array, columns: Array, w: Array, centred: bool
    ) -> None:
        self.X, self.centred = (data, rows, starts), centred
        self.root, self.mass = np.sqrt(w), float(w.sum())
        self._scale = self.root.astype(data.dtype)
        self.cols = columns[:0]
        self.data, self.rows = np.empty(0, data.dtype), np.empty(0, np.uint32)
        self.starts = np.zeros(1, np.uint64)
        self.sums, self.L = np.empty(0), np.empty(0)  # a_j · w if centred, Σ w a_j²
        self.extend(columns)

    def extend(self, columns: Array) -> Array:
        """Take more columns in, after those there are; `start` must follow."""
        starts = self.X[2]
        first, used = self.cols.size, int(self.starts[-1])
        size = used + int((starts[columns + 1] - starts[columns]).sum())
        if size > self.data.size:  # memory that is never written costs nothing
            room = min(3 * size, self.X[0].size) if first else size
            data, rows = np.empty(room, self.data.dtype), np.empty(room, np.uint32)
            data[:used], rows[:used] = self.data[:used], self.rows[:used]
            self.data, self.rows = data, rows
        begins = np.empty(columns.size + 1, np.uint64)
        sums, L = np.empty(columns.size), np.empty(columns.size)
        sparse.gather(
            *self.X, columns, self._scale, self.data, self.rows, begins, sums, L, used
        )  # fmt: skip
        if not self.centred:
            sums[:] = 0
        least = np.maximum(LEAST_CURVATURE * L, np.finfo(self.data.dtype).tiny)
        self.starts = np.concatenate([self.starts[:-1], begins])
        self.sums = np.concatenate([self.sums, sums])
        self.L = np.concatenate([self.L, np.maximum(L - sums**2 / self.mass, least)])
        self.means = self.sums / self.mass
        self.cols = np.concatenate([self.cols, columns])
        return np.arange(first, self.cols.size)

    def start(self, R: Array, x: Array) -> None:
        """Begin at x with residual R."""
        self.R, self.x, self.shift = R.astype(self.data.dtype), x.astype(self.data.dtype), 0.0

    def correlations(self, at: Array | None = None) -> Array:
        """a_j · R for every column of the panel, or those `at`."""
        if at is None or at.size == self.cols.size:
            out = np.empty(self.cols.size)
            sparse.products(self.data, self.rows, self.starts, self.R, out)
            out += self.shift * self.sums
            return out if at is None else out[at]
        out = np.empty(at.size)
        sparse.chosen(self.data, self.rows, self.starts, at, self.R, out)
        return out + self.shift * self.sums[at]

    def choose(self, order: Array) -> None:
        """The columns to cycle over."""
        self.order = np.asarray(order, np.int64)

    def cycles(self, penalty: BoundPenalty, most: int, enough: float) -> tuple[int, float]:
        """Cycle over the chosen columns."""
        done, largest, self.shift = penalty.functions["sparse_cycles"](
            self.data, self.rows, self.starts, self.sums, self.mass, self.R, self.x, self.L,
            self.cols, self.order, penalty.parameters, self.shift, self.w, most, enough,
        )  # fmt: skip
        return int(done), float(largest)

    def gram_breakeven_cycles(self, order: Array, new: Array) -> float:
        """The products against twice all entries per cycle, and about as much for k² numbers."""
        if order.size > MOST_PRODUCTS:
            return np.inf
        entries = self.entries(order)
        made = min(8.0 + 0.5 * entries / self.root.size, 0.5 * new.size)
        return made + order.size * new.size / max(entries, 1.0)

    def entries(self, order: Array) -> float:
        """How many entries these columns have."""
        return float((self.starts[order + 1] - self.starts[order]).sum())

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """Few new columns one by one; else all again by rows, Σ m_i²/2 for m_i entries in row i."""
        k, n, order = old.size, self.root.size, np.concatenate([old, new])
        out, A = np.empty((order.size, order.size)), (self.data, self.rows, self.starts, order)
        if new.size < 16.0 + self.entries(order) / n:
            out[:k, :k] = G
            more_sparse_products(*A, k, self.w, n, out)
            if self.centred:
                cross = np.outer(self.sums[new], self.means[order])
                out[k:] -= cross
                out[:k, k:] -= cross[:, :k].T
        else:
            sparse_products(*A, np.full(n, self.w), out)
            if self.centred:
                out -= np.outer(self.sums[order], self.means[order])
        return out

    def curved_products(self, d: Array) -> tuple[Array, Array]:
        """By rows, as `products`; centring is put in afterwards, as it is linear."""
        k, m = self.L.size, self.means
        out, order = np.empty((k, k)), np.arange(k)
        sparse_products(self.data, self.rows, self.starts, order, d, out)
        sums = np.empty(k)
        sparse.products(
            self.data, self.rows, self.starts, (d * self.root).astype(self.R.dtype), sums
        )
        mass = float(d @ self.root**2)
        out += mass * np.outer(m, m) - np.outer(m, sums) - np.outer(sums, m)
        return out, sums - mass * m

    def product(self, dx: Array) -> Array:
        """Aᵀ dx."""
        out, every = np.zeros(self.R.size), np.arange(dx.size)
        sparse.add_columns(self.data, self.rows, self.starts, every, dx, out)
        return out - float(self.means @ dx) * self.root

    def advance(self, columns: Array, dx: Array) -> None:
        """x, R and the shift follow."""
        moved = np.flatnonzero(dx)
        self.x[columns] += dx.astype(self.x.dtype)
        d = -self.w * dx[moved]
        sparse.add_columns(self.data, self.rows, self.starts, columns[moved], d, self.R)
        self.shift += float(self.means[columns] @ dx)

    def residual(self) -> Array:
        """R + shift √w in float64."""
        return self.R + self.shift * self.root


class SharedPanel(SparsePanel):
    """All columns of X where they lie, for rows of equal weight w: only norms are computed.

    R holds the root of w once more, so that a_j · R is what it is for a weighted copy.
    """

    def __init__(
        self, data: Array, rows: Array, starts: Array, columns: Array, w: Array, centred: bool
    ) -> None:
        p = starts.size - 1
        self.data, self.rows, self.starts, self.centred = data, rows, starts, centred
        self.root, self.mass, self.w = np.sqrt(w), float(w.sum()), float(w[0])
        self.cols = np.arange(p)
        self.sums, self.means, self.L = np.zeros(p), np.zeros(p), np.zeros(p)
        self.extend(columns)

    def extend(self, columns: Array) -> Array:
        """Sums and norms of these columns."""
        sparse.squares(self.data, self.starts, columns, self.sums, self.L)
        sums, L = self.w * self.sums[columns], self.w * self.L[columns]
        if not self.centred:
            sums[:] = 0
        least = np.maximum(LEAST_CURVATURE * L, np.finfo(self.data.dtype).tiny)
        self.sums[columns], self.means[columns] = sums, sums / self.mass
        self.L[columns] = np.maximum(L - sums**2 / self.mass, least)
        return columns

    def start(self, R: Array, x: Array) -> None:
        """Begin at x with residual R."""
        super().start(R * self.root, x)

    def residual(self) -> Array:
        """R without the second root."""
        return self.R / self.root + self.shift * self.root
