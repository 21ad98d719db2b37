"""A working set of dense columns, contiguous in memory, that can grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import dense
from cyclade.linear.penalty_bound import BoundPenalty

Array = NDArray[Any]
MOST_PRODUCTS = 4000  # columns whose products are ever formed if these are many
LEAST_CURVATURE = 1e-12  # of a column against its uncentred norm: constant columns keep a step


class DensePanel:
    """The columns one after another, room for more, and at the end one of zeros for padding."""

    choice_is_free = False
    A: Array
    L: Array
    _means: Array

    def __init__(self, X: Array, columns: Array, w: Array, centred: bool) -> None:
        self.X, self.w, self.centred = X, w.astype(X.dtype), centred
        self.root = np.sqrt(w).astype(X.dtype)
        self.mass = float(w.sum())
        self.cols = columns[:0]
        self._make_room(columns.size)
        self.order = np.empty(0, np.int64)
        self.G = np.empty((0, 8, 8), X.dtype)
        self.extend(columns)

    def _make_room(self, size: int) -> None:
        """Arrays for so many columns; memory that is never written costs nothing."""
        k, n, dtype = self.cols.size, self.X.shape[0], self.X.dtype
        A, means, L = np.empty((size + 1, n), dtype), np.empty(size), np.zeros(size + 1)
        A[size] = 0
        if k:
            A[:k], means[:k], L[:k] = self.A[:k], self._means[:k], self.L[:k]
        self.A, self._means, self.L = A, means, L
        self.x = np.zeros(size + 1, dtype)

    def extend(self, columns: Array) -> Array:
        """Take more columns in, after those there are; `start` must follow."""
        first, last = self.cols.size, self.cols.size + columns.size
        if last >= self.A.shape[0]:  # never for the first columns of a panel that has some
            self._make_room(max(last, min(4 * last + 256, self.X.shape[1])))
        if self.X.flags.f_contiguous:
            XT, rows = self.X.T, columns
        else:
            XT, rows = np.ascontiguousarray(self.X[:, columns].T), np.arange(columns.size)
        means, L = self._means[first:last], self.L[first:last]
        dense.gather(XT, rows, self.w, self.root, self.centred, self.A[first:last], means, L)
        least = LEAST_CURVATURE * (L + means**2 * self.mass)
        np.maximum(L, np.maximum(least, np.finfo(self.A.dtype).tiny), out=L)
        self.cols = np.concatenate([self.cols, columns])
        return np.arange(first, last)

    @property
    def means(self) -> Array:
        """Of the columns under w where the panel is centred, else zeros."""
        return self._means[: self.cols.size]

    def start(self, R: Array, x: Array) -> None:
        """Begin at x with residual R."""
        self.R = R.astype(self.A.dtype)
        self.x[: x.size] = x

    def correlations(self, at: Array | None = None) -> Array:
        """A R, or the entries `at` of it."""
        if at is None or 2 * at.size > self.cols.size:
            every = np.asarray(self.A[: self.cols.size] @ self.R, np.float64)
            return every if at is None else every[at]
        out = np.empty(at.size)
        dense.chosen(self.A, at, self.R, out)
        return out

    def choose(self, order: Array) -> None:
        """Pad to eights; products of columns are made again from the first new block on."""
        padded = np.full(-(-order.size // 8) * 8, self.L.size - 1)
        padded[: order.size] = order
        same = min(padded.size, self.order.size)
        differ = np.flatnonzero(padded[:same] != self.order[:same])
        kept = (int(differ[0]) if differ.size else same) // 8
        G = np.empty((padded.size // 8, 8, 8), self.A.dtype)
        G[:kept] = self.G[:kept]
        dense.grams(self.A, padded, kept, G)
        self.order, self.G = padded, G

    def cycles(self, penalty: BoundPenalty, most: int, enough: float) -> tuple[int, float]:
        """Cycle over the chosen columns."""
        done, largest = penalty.functions["dense_cycles"](
            self.A, self.R, self.x, self.L, self.cols, self.order, self.G, penalty.parameters,
            most, enough,
        )  # fmt: skip
        return int(done), float(largest)

    def entries(self, order: Array) -> float:
        """How many entries these columns have."""
        return float(order.size * self.A.shape[1])

    def gram_breakeven_cycles(self, order: Array, new: Array) -> float:
        """k²n/2 for the products against 2kn per cycle; a matrix product runs twice as fast.

        Of that, the part for new columns is to be paid.

        From k = 2n on, cycles on products are the dearer ones, but a Newton step may still replace
        thousands of cycles (ridge with more columns than rows): it pays later, at k³/3.
        """
        k, n = order.size, self.A.shape[1]
        if k < 2 * n:
            return (k / 8 + 4) * new.size / max(k, 1)
        return k * k / (4 * n) if k <= MOST_PRODUCTS else np.inf

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """One matrix product for the new columns."""
        k = old.size
        out = np.empty((k + new.size, k + new.size))
        fresh = self._rows(new)
        out[:k, :k] = G
        if k:
            out[k:, :k] = fresh @ self._rows(old).T
            out[:k, k:] = out[k:, :k].T
        out[k:, k:] = fresh @ fresh.T
        return out

    def _rows(self, order: Array) -> Array:
        """These columns; where they lie one after another, without a copy."""
        first, last = int(order[0]), int(order[-1]) + 1
        if last - first == order.size and (np.diff(order) == 1).all():
            return self.A[first:last]
        return self.A[order]

    def curved_products(self, d: Array) -> tuple[Array, Array]:
        """Two products of a matrix with itself: of the rows bent upwards, and of the others."""
        A, d, below = self.A[: self.cols.size], d.astype(self.A.dtype), np.flatnonzero(d < 0)
        up = A * np.sqrt(np.maximum(d, 0))
        down = A[:, below] * np.sqrt(-d[below])
        products = (up @ up.T - down @ down.T).astype(np.float64, copy=False)
        return products, (A @ (d * self.root)).astype(np.float64, copy=False)

    def product(self, dx: Array) -> Array:
        """Aᵀ dx."""
        A = self.A[: self.cols.size]
        return (dx.astype(A.dtype) @ A).astype(np.float64, copy=False)

    def advance(self, columns: Array, dx: Array) -> None:
        """x and R follow."""
        moved = np.flatnonzero(dx)
        self.x[columns] += dx.astype(self.x.dtype)
        dense.add_rows(self.A, columns[moved], -dx[moved].astype(self.x.dtype), self.R)

    def residual(self) -> Array:
        """R in float64."""
        return self.R.astype(np.float64, copy=False)
