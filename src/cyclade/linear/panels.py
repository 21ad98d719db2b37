"""Dense and sparse designs, and their panels: the two places where the storage of X matters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.compiled import Compiled
from cyclade.linear.kernels import dense, sparse
from cyclade.linear.kernels.gram import sparse_products
from cyclade.linear.weighted import (
    MOST_DENSE,
    MOST_PER_ROW,
    MOST_SPARSE,
    Columns,
    DenseColumns,
    SparseColumns,
)

Array = NDArray[Any]
MOST_PRODUCTS = 4000  # columns whose products are ever formed if these are many
SMALL = 2**18  # entries of a float32 X that is worked on in float64
LEAST_CURVATURE = 1e-12  # of a column against its uncentred norm: constant columns keep a step


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


def precise(X: Any, entries: int) -> Any:
    """X itself, or a small float32 X in float64: its rounding would show before a gap closes."""
    return X.astype(np.float64) if X.dtype == np.float32 and entries <= SMALL else X


def check_finite(entries: Array) -> None:
    """Raise ValueError unless all entries are finite."""
    if not np.isfinite(entries).all():
        raise ValueError("X: must hold finite numbers; it has NaN or infinity")


class DenseDesign:
    """X as one array, in the memory order it came in."""

    def __init__(self, X: Array) -> None:
        X = as_floats(X)
        check_shape(X.shape)
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            X = np.asfortranarray(X)
        self.given, X = X.dtype, precise(X, X.size)
        self.X, (self.n, self.p), self.dtype = X, X.shape, X.dtype
        self.entries = X.size

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity."""
        check_finite(self.X)

    def correlate(self, v: Array) -> Array:
        """Xᵀv."""
        with np.errstate(invalid="ignore", over="ignore"):  # the caller looks at what comes out
            return np.asarray(self.X.T @ v.astype(self.dtype, copy=False), np.float64)

    def correlate_some(self, names: Array, v: Array) -> Array:
        """Xᵀv on the chosen columns."""
        v = v.astype(self.dtype, copy=False)
        if not self.X.flags.f_contiguous:
            return np.asarray(v @ self.X[:, names], np.float64)
        out = np.empty(names.size)
        dense.chosen(self.X.T, names, v, out)
        return out

    def predict(self, x: Array) -> Array:
        """Xx: from the support alone while that is small."""
        support = np.flatnonzero(x)
        if support.size and (4 * support.size > self.p or not self.X.flags.f_contiguous):
            return np.asarray(self.X @ x.astype(self.dtype, copy=False), np.float64)
        z = np.zeros(self.n)
        if support.size:
            dense.add_rows(self.X.T, support, x[support], z)
        return z

    def panel(self, columns: Array, w: Array, centred: bool) -> DensePanel:
        """The columns as rows of a contiguous array."""
        if self.X.flags.f_contiguous:
            XT, rows = self.X.T, columns
        else:
            XT, rows = np.ascontiguousarray(self.X[:, columns].T), np.arange(columns.size)
        return DensePanel(XT, rows, columns, w, centred)

    def columns(self, names: Array, centred: bool) -> Columns | None:
        """The columns without weights, if few; in float32 their products would be too rough."""
        few = names.size <= MOST_DENSE and 4 * names.size < self.n and self.dtype == np.float64
        return DenseColumns(self.X, names, centred) if few else None


class DensePanel:
    """A working set's columns, one after another, and a last one of zeros for padding."""

    def __init__(self, XT: Array, rows: Array, columns: Array, w: Array, centred: bool) -> None:
        k, n, dtype = columns.size, XT.shape[1], XT.dtype
        self.A = np.empty((k + 1, n), dtype)
        self.A[k] = 0
        self.names = columns
        self.means = np.empty(k)
        self.root = np.sqrt(w).astype(dtype)
        dense.gather(XT, rows, w.astype(dtype), self.root, centred, self.A, self.means)
        self.L = np.zeros(k + 1)
        dense.squares(self.A[:k], self.L)
        least = LEAST_CURVATURE * (self.L[:k] + self.means**2 * w.sum())
        self.L[:k] = np.maximum(self.L[:k], np.maximum(least, np.finfo(dtype).tiny))
        self.order = np.empty(0, np.int64)
        self.G = np.empty((0, 8, 8), dtype)

    def start(self, R: Array, x: Array) -> None:
        """Begin at x with residual R."""
        self.R = R.astype(self.A.dtype)
        self.x = np.append(x, 0).astype(self.A.dtype)

    def correlations(self) -> Array:
        """A R."""
        return np.asarray(self.A[:-1] @ self.R, np.float64)

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

    def cycles(self, penalty: Compiled, most: int, enough: float) -> tuple[int, float]:
        """Cycle over the chosen columns."""
        done, largest = penalty.functions["dense_cycles"](
            self.A, self.R, self.x, self.L, self.names, self.order, self.G, penalty.parameters,
            most, enough,
        )  # fmt: skip
        return int(done), float(largest)

    def patience(self, order: Array) -> float:
        """k²n/2 for the products against 2kn per cycle; a matrix product runs twice as fast.

        From k = 2n on, cycles on products are the dearer ones, but a Newton step may still replace
        thousands of cycles (ridge with more columns than rows): it pays later, at k³/3.
        """
        k, n = order.size, self.A.shape[1]
        if k < 2 * n:
            return k / 8 + 4
        return k * k / (4 * n) if k <= MOST_PRODUCTS else np.inf

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """One matrix product for the new columns."""
        k = old.size
        out = np.empty((k + new.size, k + new.size))
        fresh = self.A[new]
        out[:k, :k] = G
        out[k:, :k] = fresh @ self.A[old].T
        out[:k, k:] = out[k:, :k].T
        out[k:, k:] = fresh @ fresh.T
        return out

    def curved_products(self, d: Array) -> tuple[Array, Array]:
        """Two products of a matrix with itself: of the rows bent upwards, and of the others."""
        d, below = d.astype(self.A.dtype), np.flatnonzero(d < 0)
        up = self.A[:-1] * np.sqrt(np.maximum(d, 0))
        down = self.A[:-1, below] * np.sqrt(-d[below])
        products = (up @ up.T - down @ down.T).astype(np.float64, copy=False)
        return products, (self.A[:-1] @ (d * self.root)).astype(np.float64, copy=False)

    def product(self, dx: Array) -> Array:
        """Aᵀ dx."""
        return (dx.astype(self.A.dtype) @ self.A[:-1]).astype(np.float64, copy=False)

    def advance(self, columns: Array, dx: Array) -> None:
        """x and R follow."""
        moved = np.flatnonzero(dx)
        self.x[columns] += dx.astype(self.x.dtype)
        self.R -= dx[moved].astype(self.R.dtype) @ self.A[columns[moved]]

    def residual(self) -> Array:
        """R in float64."""
        return self.R.astype(np.float64, copy=False)


class SparseDesign:
    """X by columns, with unsigned views of its indices (so no loop tests for negative ones)."""

    def __init__(self, X: Any) -> None:
        X = X.tocsc()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        self.data = as_floats(X.data)
        self.given, self.data = self.data.dtype, precise(self.data, self.data.size)
        check_shape(X.shape)
        self.rows = X.indices.view(f"u{X.indices.dtype.itemsize}")
        self.starts = X.indptr.view(f"u{X.indptr.dtype.itemsize}")
        (self.n, self.p), self.dtype = X.shape, self.data.dtype
        self.entries = self.data.size

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity."""
        check_finite(self.data)

    def correlate(self, v: Array) -> Array:
        """Xᵀv."""
        out = np.empty(self.p)
        sparse.products(self.data, self.rows, self.starts, v.astype(self.dtype, copy=False), out)
        return out

    def correlate_some(self, names: Array, v: Array) -> Array:
        """Xᵀv on the chosen columns."""
        out = np.empty(names.size)
        v = v.astype(self.dtype, copy=False)
        sparse.chosen(self.data, self.rows, self.starts, names, v, out)
        return out

    def predict(self, x: Array) -> Array:
        """Xx from the support."""
        z = np.zeros(self.n)
        support = np.flatnonzero(x)
        sparse.add_columns(
            self.data, self.rows, self.starts, support, x[support].astype(np.float64), z
        )
        return z

    def panel(self, columns: Array, w: Array, centred: bool) -> SparsePanel:
        """The columns, weighted, as a smaller matrix by columns."""
        return SparsePanel(self, columns, w, centred)

    def columns(self, names: Array, centred: bool) -> Columns | None:
        """The columns without weights, by rows, if rows have few entries in them."""
        if self.p <= MOST_SPARSE and self.entries < MOST_PER_ROW * self.n:
            names = np.arange(self.p)  # by rows once for all
        entries = int((self.starts[names + 1] - self.starts[names]).sum())
        few = names.size <= MOST_SPARSE and 4 * names.size < self.n
        return SparseColumns(self, names) if few and entries < MOST_PER_ROW * self.n else None


class SparsePanel:
    """A working set's columns times √w, one after another; centred implicitly."""

    def __init__(self, X: SparseDesign, columns: Array, w: Array, centred: bool) -> None:
        k = columns.size
        size = int((X.starts[columns + 1] - X.starts[columns]).sum())
        self.data, self.rows = np.empty(size, X.dtype), np.empty(size, np.uint32)
        self.starts = np.empty(k + 1, np.uint64)
        self.sums, self.L = np.empty(k), np.empty(k)  # a_j · w, Σ w a_j²
        self.root = np.sqrt(w)
        sparse.gather(
            X.data, X.rows, X.starts, columns, self.root.astype(X.dtype), self.data, self.rows,
            self.starts, self.sums, self.L,
        )  # fmt: skip
        self.mass = float(w.sum())
        if not centred:
            self.sums[:] = 0
        self.means = self.sums / self.mass
        least = np.maximum(LEAST_CURVATURE * self.L, np.finfo(X.dtype).tiny)
        self.L = np.maximum(self.L - self.sums**2 / self.mass, least)
        self.names = columns

    def start(self, R: Array, x: Array) -> None:
        """Begin at x with residual R."""
        self.R, self.x, self.shift = R.astype(self.data.dtype), x.astype(self.data.dtype), 0.0

    def correlations(self) -> Array:
        """a_j · R for every column of the panel."""
        out = np.empty(self.L.size)
        sparse.products(self.data, self.rows, self.starts, self.R, out)
        return out + self.shift * self.sums

    def choose(self, order: Array) -> None:
        """The columns to cycle over."""
        self.order = np.asarray(order, np.int64)

    def cycles(self, penalty: Compiled, most: int, enough: float) -> tuple[int, float]:
        """Cycle over the chosen columns."""
        done, largest, self.shift = penalty.functions["sparse_cycles"](
            self.data, self.rows, self.starts, self.sums, self.mass, self.R, self.x, self.L,
            self.names, self.order, penalty.parameters, self.shift, most, enough,
        )  # fmt: skip
        return int(done), float(largest)

    def patience(self, order: Array) -> float:
        """Σ_i m_i²/2 for m_i entries in row i, against twice all entries per cycle."""
        if order.size > MOST_PRODUCTS:
            return np.inf
        starts = self.starts.astype(np.int64)
        entries = float((starts[order + 1] - starts[order]).sum())
        return 8.0 + 0.5 * entries / self.root.size + order.size**2 / max(entries, 1.0)

    def products(self, old: Array, new: Array, G: Array) -> Array:
        """All products again: by rows, that is no dearer than finding out which are new."""
        order = np.concatenate([old, new])
        out = np.empty((order.size, order.size))
        sparse_products(self.data, self.rows, self.starts, order, np.ones(self.R.size), out)
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
        sparse.add_columns(self.data, self.rows, self.starts, columns[moved], -dx[moved], self.R)
        self.shift += float(self.means[columns] @ dx)

    def residual(self) -> Array:
        """R + shift √w in float64."""
        return self.R + self.shift * self.root
