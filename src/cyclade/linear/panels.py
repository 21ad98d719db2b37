"""Dense and sparse designs, and their panels: the two places where the storage of X matters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.compiled import Compiled
from cyclade.linear.kernels import dense, sparse

Array = NDArray[Any]
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
        self.X, (self.n, self.p), self.dtype = X, X.shape, X.dtype

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity."""
        check_finite(self.X)

    def correlate(self, v: Array) -> Array:
        """Xᵀv."""
        return (self.X.T @ v.astype(self.dtype, copy=False)).astype(np.float64, copy=False)

    def predict(self, x: Array) -> Array:
        """Xx: from the support alone while that is small."""
        support = np.flatnonzero(x)
        if 4 * support.size > self.p or not self.X.flags.f_contiguous:
            return (self.X @ x.astype(self.dtype, copy=False)).astype(np.float64, copy=False)
        z = np.zeros(self.n)
        dense.add_rows(self.X.T, support, x[support], z)
        return z

    def panel(self, columns: Array, w: Array, centred: bool, penalty: Compiled) -> DensePanel:
        """The columns as rows of a contiguous array."""
        if self.X.flags.f_contiguous:
            XT, rows = self.X.T, columns
        else:
            XT, rows = np.ascontiguousarray(self.X[:, columns].T), np.arange(columns.size)
        return DensePanel(XT, rows, columns, w, centred, penalty)


class DensePanel:
    """A working set's columns, one after another, and a last one of zeros for padding."""

    def __init__(
        self, XT: Array, rows: Array, columns: Array, w: Array, centred: bool, penalty: Compiled
    ) -> None:
        k, n, dtype = columns.size, XT.shape[1], XT.dtype
        self.A = np.empty((k + 1, n), dtype)
        self.A[k] = 0
        self.names = columns
        self.means = np.empty(k)
        root = np.sqrt(w)
        dense.gather(XT, rows, w.astype(dtype), root.astype(dtype), centred, self.A, self.means)
        self.L = np.zeros(k + 1)
        dense.squares(self.A[:k], self.L)
        least = LEAST_CURVATURE * (self.L[:k] + self.means**2 * w.sum())
        self.L[:k] = np.maximum(self.L[:k], np.maximum(least, np.finfo(dtype).tiny))
        self.run, self.parameters = penalty.functions["dense_cycles"], penalty.parameters
        self.order = np.empty(0, np.int64)
        self.G = np.empty((0, 8, 8), dtype)

    def start(self, R: Array, x: Array) -> None:
        """Begin at x with residual R."""
        self.R = R.astype(self.A.dtype)
        self.x = np.append(x, 0).astype(self.A.dtype)

    def correlations(self) -> Array:
        """A R."""
        return (self.A[:-1] @ self.R).astype(np.float64, copy=False)

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

    def cycles(self, most: int, enough: float) -> tuple[int, float]:
        """Cycle over the chosen columns."""
        done, largest = self.run(
            self.A, self.R, self.x, self.L, self.names, self.order, self.G, self.parameters,
            most, enough,
        )  # fmt: skip
        return int(done), float(largest)

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
        check_shape(X.shape)
        self.rows = X.indices.view(f"u{X.indices.dtype.itemsize}")
        self.starts = X.indptr.view(f"u{X.indptr.dtype.itemsize}")
        (self.n, self.p), self.dtype = X.shape, self.data.dtype

    def refuse(self) -> None:
        """Raise ValueError if X has NaN or infinity."""
        check_finite(self.data)

    def correlate(self, v: Array) -> Array:
        """Xᵀv."""
        out = np.empty(self.p)
        sparse.products(self.data, self.rows, self.starts, v.astype(self.dtype, copy=False), out)
        return out

    def predict(self, x: Array) -> Array:
        """Xx from the support."""
        z = np.zeros(self.n)
        support = np.flatnonzero(x)
        sparse.add_columns(
            self.data, self.rows, self.starts, support, x[support].astype(np.float64), z
        )
        return z

    def panel(self, columns: Array, w: Array, centred: bool, penalty: Compiled) -> SparsePanel:
        """The columns, weighted, as a smaller matrix by columns."""
        return SparsePanel(self, columns, w, centred, penalty)


class SparsePanel:
    """A working set's columns times √w, one after another; centred implicitly."""

    def __init__(
        self, X: SparseDesign, columns: Array, w: Array, centred: bool, penalty: Compiled
    ) -> None:
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
        self.run, self.parameters = penalty.functions["sparse_cycles"], penalty.parameters

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

    def cycles(self, most: int, enough: float) -> tuple[int, float]:
        """Cycle over the chosen columns."""
        done, largest, self.shift = self.run(
            self.data, self.rows, self.starts, self.sums, self.mass, self.R, self.x, self.L,
            self.names, self.order, self.parameters, self.shift, most, enough,
        )  # fmt: skip
        return int(done), float(largest)

    def residual(self) -> Array:
        """R + shift √w in float64."""
        return self.R + self.shift * self.root
