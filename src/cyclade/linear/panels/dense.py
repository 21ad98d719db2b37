"""Dense X, and panels of its columns: weighted and centred copies, or the columns as they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics, threads
from cyclade.linear.checks import as_floats, check_finite, check_shape, precise
from cyclade.linear.kernels import dense
from cyclade.linear.kernels.storage import Stored, StoredX
from cyclade.linear.panels.protocols import Columns
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]
NONE = np.empty(0, np.int64)


def nothing(dtype: Any) -> tuple[Array, Array, Array]:
    """What kernels get in the place of sparse columns: entries, their rows, where columns start."""
    return np.empty(0, dtype), np.empty(0, np.uint32), np.zeros(1, np.uint64)


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
    """A `Panel`: the columns, and room for more."""

    in_place = False
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
        self.extend(columns)

    def _make_room(self, size: int) -> None:
        """Arrays for so many columns; memory that is never written costs nothing."""
        k, n = self.cols.size, self.X.shape[0]
        A, means, L = np.empty((size, n), self.dtype), np.empty(size), np.empty(size)
        if k:
            A[:k], means[:k], L[:k] = self.A[:k], self._means[:k], self.L[:k]
        self.A, self._means, self.L = A, means, L
        self.x = np.zeros(size, self.dtype)

    def extend(self, columns: Array) -> Array:
        first, last = self.cols.size, self.cols.size + columns.size
        if last > self.A.shape[0]:  # never for the first columns of a panel that has some
            self._make_room(max(last, min(4 * last + 256, self.X.shape[1])))
        means, L = self._means[first:last], self.L[first:last]
        gather(self.X, columns, self.w, self.root, self.centred, self.A[first:last], means, L)
        least = numerics.FLAT * (L + means**2 * self.mass)
        np.maximum(L, np.maximum(least, np.finfo(self.dtype).tiny), out=L)
        self.cols, self.means = np.concatenate([self.cols, columns]), self._means[:last]
        return np.arange(first, last)

    @property
    def storage(self) -> Stored:
        return Stored(
            True, self.A, *nothing(self.dtype), np.zeros(self.L.size, self.dtype), 1.0, self.L, 1.0
        )

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
        return k * k / (4 * n) if k <= self.tuning.most_columns else np.inf

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

    in_place = True

    def __init__(self, X: Array, w: Array, centred: bool, tuning: Tuning = DEFAULT) -> None:
        p = X.shape[1]
        self.X, self.centred, self.tuning, self.dtype = X, centred, tuning, X.dtype
        self.mass, self.weight = float(w.sum()), float(w[0])
        self.root = np.broadcast_to(np.sqrt(self.weight), w.shape)
        self.cols = np.arange(p)
        self.means, self.L, self.x = np.zeros((3, p))

    @property
    def storage(self) -> Stored:
        X = nothing(self.dtype)
        return Stored(True, self.X.T, *X, self.means, self.mass, self.L, self.weight)

    def extend(self, columns: Array) -> Array:
        """Means and norms of these columns."""
        (means, squares), n, tuning = np.empty((2, columns.size)), self.root.size, self.tuning
        threads.split(
            lambda some: dense.moments(
                self.X.T, columns[some], self.centred, means[some], squares[some]
            ),
            columns.size, threads.number(columns.size * n, tuning),
        )  # fmt: skip
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

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """A Aᵀ as for any panel, from copies of a few rows at a time."""
        self.extend(new[self.L[new] == 0.0])
        k, order = old.size, np.concatenate([old, new])
        means, n = self.means[order][:, None], self.root.size
        rows = max(self.tuning.cache // order.size, self.tuning.sample)
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

    def _spans(self, columns: int) -> Iterator[slice]:
        """All rows, so many at a time that copies of so many columns are small."""
        rows = self.design.tuning.cache // max(columns, 1) + 1
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
        return StoredX(True, self.turn().T, *nothing(self.dtype))

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

    def correlate(self, v: Array) -> Array:
        """By loops that sum in float64: with a float32 product a gap would not close."""
        if v.ndim == 2:  # one product reads X once
            return np.asarray((v.T.astype(self.dtype) @ self.X).T, np.float64)
        ranks = threads.number(self.entries, self.tuning)
        if self.by_columns:
            out = np.empty(self.p)
            threads.split(
                lambda some: dense.correlate(self.X.T, self.cols[some], v, out[some]), self.p, ranks
            )
            return out
        parts = [slice(self.n * k // ranks, self.n * (k + 1) // ranks) for k in range(ranks)]
        sums = threads.together(lambda k: self._sum_rows(parts[k], v), ranks)
        return np.asarray(sum(sums[1:], sums[0]))

    def _sum_rows(self, some: slice, v: Array) -> Array:
        """Σ_i v_i a_i over some rows."""
        out = np.zeros(self.p)
        dense.add_rows(self.X, self.rows[some], v[some], out, 0)
        return out

    def correlate_some(self, cols: Array, v: Array) -> Array:
        if not self.by_columns:
            out = np.zeros(cols.size)
            rows = max(self.tuning.cache // max(cols.size, 1), self.tuning.sample)
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
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64)))

    def predict(self, x: Array, support: Array | None = None) -> Array:
        if x.ndim == 2:
            support = np.flatnonzero(x.any(axis=1))
            few = 4 * support.size < self.p
            X, x = (self.X[:, support], x[support]) if few else (self.X, x)
            return np.asarray(X @ x.astype(self.dtype), np.float64)
        support = np.flatnonzero(x != 0) if support is None else support
        ranks, z = threads.number(self.n * support.size, self.tuning), np.zeros(self.n)

        def part(some: slice) -> None:
            if self.by_columns:
                dense.add_rows(self.X.T, support, x[support], z[some], some.start)
            else:
                dense.correlate(self.X, self.rows[some], x, z[some])

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
        by_columns = self.by_columns or self.entries <= self.tuning.huge
        long = self.n * self.dtype.itemsize >= self.tuning.long_run and self.n >= self.p
        if long and by_columns and w.min() == w.max():
            return SharedDensePanel(self.turn(), w, centred, self.tuning)
        return self.panel(NONE, w, centred)

    def unweighted(self, cols: Array, centred: bool) -> DenseColumns:
        return DenseColumns(self, cols, centred)

    def may_copy(self, columns: int) -> bool:
        """Whether a copy in float64 of so many columns is small, or small beside X."""
        size = self.n * columns
        return bool(size <= self.tuning.large or 4 * size <= self.entries)

    def products_pay(self, cols: Array) -> bool:
        """In float32 they would be too rough for a gap; a model copies its columns without them."""
        k, cost = cols.size, self.tuning.cost
        made = 0.5 * cost.product * k <= self.tuning.burst or not self.may_copy(k)
        return bool(made and k <= self.tuning.few_columns and self.dtype == np.float64)
