"""Dense columns: weighted and centred copies, or the columns of X as they are.

This is the one place where dense columns are copied.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics, threads
from cyclade.linear.kernels import dense
from cyclade.linear.kernels.storage import Stored
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]
NONE = np.empty(0, np.int64)


def turned(X: Array, columns: Array, ranks: int = 1) -> Array:
    """These columns of an X by rows, one after another."""
    out, n = np.empty((columns.size, len(X)), X.dtype), len(X)
    threads.split(lambda some: dense.turn(X, columns, some.start, some.stop, out), n, ranks)
    return out


def gather(
    X: Array, columns: Array, w: Array, root: Array, centred: bool, A: Array, means: Array, L: Array
) -> None:
    """A_k = (a_k − m_k) √w, m_k the w-mean of the column (zero unless `centred`), L_k = ‖A_k‖².

    From X by rows, a few columns at a time are put one after another first.
    """
    if X.flags.f_contiguous:
        dense.gather(X.T, columns, w, root, centred, A, means, L)
        return
    most = max(DEFAULT.cache // len(X), 8)
    for first in range(0, columns.size, most):
        some = slice(first, first + most)
        XT = turned(X, columns[some])
        every = np.arange(len(XT))
        dense.gather(XT, every, w, root, centred, A[some], means[some], L[some])


class DensePanel:
    """A `Panel`: the columns, room for more, and at the end one of zeros for padding."""

    choice_is_free = False
    A: Array
    L: Array
    means: Array
    _means: Array

    def __init__(
        self, X: Array, columns: Array, w: Array, centred: bool, dtype: Any = None,
        tuning: Tuning = DEFAULT,
    ) -> None:  # fmt: skip
        self.X, self.centred, self.tuning = X, centred, tuning
        self.dtype = np.dtype(X.dtype if dtype is None else dtype)
        self.w, self.root = w.astype(self.dtype), np.sqrt(w).astype(self.dtype)
        self.mass = float(w.sum())
        self.cols = NONE
        self._make_room(columns.size)
        self.order = NONE
        self.G = np.empty((0, dense.WIDTH, dense.WIDTH), self.dtype)
        self.extend(columns)

    def _make_room(self, size: int) -> None:
        """Arrays for so many columns; memory that is never written costs nothing."""
        k, n = self.cols.size, self.X.shape[0]
        A, means, L = np.empty((size + 1, n), self.dtype), np.empty(size), np.zeros(size + 1)
        A[size] = 0
        if k:
            A[:k], means[:k], L[:k] = self.A[:k], self._means[:k], self.L[:k]
        self.A, self._means, self.L = A, means, L
        self.x = np.zeros(size + 1, self.dtype)

    def extend(self, columns: Array) -> Array:
        first, last = self.cols.size, self.cols.size + columns.size
        if last >= self.A.shape[0]:  # never for the first columns of a panel that has some
            self._make_room(max(last, min(4 * last + 256, self.X.shape[1])))
        means, L = self._means[first:last], self.L[first:last]
        gather(self.X, columns, self.w, self.root, self.centred, self.A[first:last], means, L)
        least = numerics.FLAT * (L + means**2 * self.mass)
        np.maximum(L, np.maximum(least, np.finfo(self.dtype).tiny), out=L)
        self.cols, self.means = np.concatenate([self.cols, columns]), self._means[:last]
        return np.arange(first, last)

    @property
    def storage(self) -> Stored:
        """The columns for kernels."""
        X = np.empty(0, self.dtype), np.empty(0, np.uint32), np.zeros(1, np.uint64)
        return Stored(True, self.A, *X, np.empty(0), 1.0, self.L, 1.0)

    def place(self, x: Array) -> None:
        self.x[: x.size] = x

    def start(self, R: Array, x: Array) -> None:
        self.R = R.astype(self.dtype)
        self.place(x)

    def begin(self, slopes: Array, slope: float, x: Array) -> None:
        R = -slopes
        R /= self.root
        if self.centred:
            R += (slope / self.mass) * self.root
        self.start(R, x)

    def correlations(self, at: Array | None = None) -> Array:
        if at is None or 2 * at.size > self.cols.size:
            every = np.asarray(self.A[: self.cols.size] @ self.R, np.float64)
            return every if at is None else every[at]
        return self.correlate(at, self.R)

    def correlate(self, at: Array, v: Array) -> Array:
        """a_k · v for the columns `at`."""
        out = np.empty(at.size)
        dense.correlate(self.A, at, v.astype(np.float64, copy=False), out)
        return out

    def choose(self, order: Array) -> None:
        """Pad to eights; products of columns are made again from the first new block on."""
        width = dense.WIDTH
        padded = np.full(-(-order.size // width) * width, self.L.size - 1)
        padded[: order.size] = order
        same = min(padded.size, self.order.size)
        differ = np.flatnonzero(padded[:same] != self.order[:same])
        kept = (int(differ[0]) if differ.size else same) // width
        G = np.empty((padded.size // width, width, width), self.dtype)
        G[:kept] = self.G[:kept]
        dense.grams(self.A, padded, kept, G)
        self.order, self.G = padded, G

    def cycles(self, penalty: BoundPenalty, max_cycles: int, tolerance: float) -> tuple[int, float]:
        done, largest = penalty.functions["dense_cycles"](
            self.A, self.R, self.x, self.L, self.cols, self.order, self.G, penalty.parameters,
            max_cycles, tolerance,
        )  # fmt: skip
        return int(done), float(largest)

    def entries(self, order: Array) -> float:
        return float(order.size * self.root.size)

    def gram_breakeven_cycles(self, order: Array, new: Array) -> float:
        """The cycles over `order` that cost as much as the products of the `new` columns.

        From k = 2n columns on, cycles on products cost more than on columns, but a Newton step may
        still replace thousands of cycles (ridge with more columns than rows): it pays at k³/3.
        """
        k, n, cost = order.size, self.root.size, self.tuning.cost
        if k < 2 * n:
            return (cost.product_cached * k / 2 + 4) * new.size / max(k, 1)
        return k * k / (4 * n) if k <= self.tuning.max_gram_columns else np.inf

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """A Aᵀ over `old`, whose products are G, and `new`: one matrix product for the new ones."""
        k = old.size
        out = np.empty((k + new.size, k + new.size))
        fresh = self.rows(new)
        out[:k, :k] = G
        if k:
            out[k:, :k] = fresh @ self.rows(old).T
            out[:k, k:] = out[k:, :k].T
        out[k:, k:] = fresh @ fresh.T
        return out

    def hessians(self, at: Array) -> Array:
        """A Aᵀ over the columns of each row of `at`."""
        A = self.rows(at.ravel()).reshape(*at.shape, -1)
        return np.asarray(A @ A.transpose(0, 2, 1), np.float64)

    def rows(self, order: Array) -> Array:
        """These columns; where they lie one after another, without a copy."""
        first, last = int(order[0]), int(order[-1]) + 1
        if last - first == order.size and (np.diff(order) == 1).all():
            return self.A[first:last]
        return self.A[order]

    def product(self, dx: Array, at: Array | None = None) -> Array:
        A = self.A[: self.cols.size] if at is None else self.rows(at)
        return (dx.astype(A.dtype) @ A).astype(np.float64, copy=False)

    def advance(self, columns: Array, dx: Array) -> None:
        moved = np.flatnonzero(dx)
        self.x[columns] += dx.astype(self.dtype)
        dense.add_rows(self.A, columns[moved], -dx[moved].astype(self.dtype), self.R, 0)

    def residual(self) -> Array:
        return self.R.astype(np.float64, copy=False)


class SharedDensePanel(DensePanel):
    """All columns of X where they lie, for rows of equal weight w: only norms are computed.

    R is multiplied by √w once more, so that a_j · R is what it is for a weighted copy; if columns
    are centred its sum is zero, so a_j may be as it is. R is in float64, whatever X is.
    """

    choice_is_free = True

    def __init__(self, X: Array, w: Array, centred: bool, tuning: Tuning = DEFAULT) -> None:
        p = X.shape[1]
        self.X, self.centred, self.tuning, self.dtype = X, centred, tuning, X.dtype
        self.mass, self.weight = float(w.sum()), float(w[0])
        self.root = np.broadcast_to(np.sqrt(self.weight), w.shape)
        self.cols = np.arange(p)
        self.means, self.L, self.x = np.zeros((3, p))
        self.width = dense.AT_ONCE

    def extend(self, columns: Array) -> Array:
        """Means and norms of these columns.

        Products of columns with huge means would be rounding: then one is visited at a time.
        """
        (means, squares), n, tuning = np.empty((2, columns.size)), self.root.size, self.tuning
        threads.split(
            lambda some: dense.moments(
                self.X.T, columns[some], self.centred, means[some], squares[some]
            ),
            columns.size, threads.number(columns.size * n, tuning),
        )  # fmt: skip
        if (means**2 * n * math.sqrt(numerics.EPS) > squares).any():
            self.width = 1
        least = numerics.FLAT * (squares + n * means**2)
        np.maximum(squares, np.maximum(least, np.finfo(self.dtype).tiny / self.weight), out=squares)
        self.means[columns], self.L[columns] = means, self.weight * squares
        return columns

    def place(self, x: Array) -> None:
        self.x = x.astype(np.float64)

    def start(self, R: Array, x: Array) -> None:
        self.R = R * self.root
        self.place(x)

    def begin(self, slopes: Array, slope: float, x: Array) -> None:
        self.R = -slopes
        if self.centred:
            self.R += slope / self.mass * self.weight
        self.place(x)

    def correlations(self, at: Array | None = None) -> Array:
        at = self.cols if at is None else at
        return self.correlate(at, self.R) - self.means[at] * float(self.R.sum())

    def correlate(self, at: Array, v: Array) -> Array:
        out, ranks = np.empty(at.size), threads.number(at.size * v.size, self.tuning)
        threads.split(
            lambda some: dense.correlate(self.X.T, at[some], v, out[some]), at.size, ranks
        )
        return out

    def choose(self, order: Array) -> None:
        self.order = np.asarray(order, np.int64)

    def cycles(self, penalty: BoundPenalty, max_cycles: int, tolerance: float) -> tuple[int, float]:
        done, largest = penalty.functions["dense_cycles_in_place"](
            dense.InPlace(self.X.T, self.means, self.L, self.weight, self.width), self.R, self.x,
            self.order, penalty.parameters, max_cycles, tolerance,
        )  # fmt: skip
        return int(done), float(largest)

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """A Aᵀ as for any panel, from copies of a few rows at a time."""
        self.extend(new[self.L[new] == 0.0])
        k, order = old.size, np.concatenate([old, new])
        means, n = self.means[order][:, None], self.root.size
        rows = max(self.tuning.cache // order.size, 256)
        ranks = threads.number(order.size * n, self.tuning)

        def part(rank: int) -> Array:
            out = np.zeros((new.size, order.size))
            for first in range(rank * rows, n, ranks * rows):
                A = self.X.T[order, first : first + rows].astype(np.float64, copy=False)
                A -= means
                if k:
                    out[:, :k] += A[k:] @ A[:k].T
                out[:, k:] += A[k:] @ A[k:].T
            return out

        out = np.empty((order.size, order.size))
        out[k:], out[:k, :k] = self.weight * sum(threads.together(part, ranks)), G
        out[:k, k:] = out[k:, :k].T
        return out

    def advance(self, columns: Array, dx: Array) -> None:
        moved = np.flatnonzero(dx)
        self.x[columns] += dx
        dense.add_rows(self.X.T, columns[moved], -self.weight * dx[moved], self.R, 0)
        self.R += self.weight * float(self.means[columns] @ dx)

    def residual(self) -> Array:
        return np.asarray(self.R / self.root)
