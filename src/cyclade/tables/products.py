"""Blocks of rows of a chunk, in float64, and the products of their columns under weights.

Workers of Dask give freed memory back to the system at once (MALLOC_TRIM_THRESHOLD_), and taking it
again takes longer than the arithmetic on it. So blocks are small, and large arrays are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.block_gram import ONES, add_rows, row_dots, row_products
from cyclade.tables.chunks import Chunk, Sums

Array = NDArray[Any]


class SparseRows(NamedTuple):
    """Some rows of a CSR matrix, where they lie."""

    data: Array
    indices: Array
    indptr: Array
    p: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.indptr.size - 1, self.p


def spans(n: int, rows: int) -> Iterator[slice]:
    """n rows, so many at a time."""
    return (slice(first, min(first + rows, n)) for first in range(0, n, rows))


def blocks(chunk: Chunk, entries: int, rows: int) -> Iterator[tuple[slice, Any]]:
    """Rows of a chunk in float64, at most so many; of a dense one with about so many entries.

    A block that lies in a cache is read from memory once, whatever is done with it.
    """
    X = chunk.X
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        data = np.asarray(X.data, np.float64)
        for part in spans(X.shape[0], rows):
            yield (
                part,
                SparseRows(data, X.indices, X.indptr[part.start : part.stop + 1], X.shape[1]),
            )
        return
    X = as_array(X)
    for part in spans(X.shape[0], min(max(entries // X.shape[1], 64), rows)):
        yield part, np.ascontiguousarray(X[part], np.float64)


def as_array(X: Any) -> Array:
    """A dense chunk, or a part of a dataframe, whose missing numbers are NaN."""
    if hasattr(X, "to_numpy"):
        found = X.to_numpy()
        X = X.to_numpy(np.float64, na_value=np.nan) if found.dtype == object else found
    return np.asarray(X)


class Buffers:
    """Arrays of the size of a block that are used again and again."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def of(self, name: str, n: int, k: int) -> Array:
        """An (n, k) array with anything in it."""
        if name not in self._held or self._held[name].size < n * k:
            self._held[name] = np.empty(n * k)
        return self._held[name][: n * k].reshape(n, k)

    def taken(self, A: Array, cols: Array) -> Array:
        """A copy of some columns, or of ones."""
        out = self.of("columns", A.shape[0], cols.size)
        np.take(A, cols, axis=1, out=out, mode="clip")
        out[:, cols == ONES] = 1.0
        return out

    def spread(self, name: str, p: int, cols: Array, values: Array, fill: Any) -> Array:
        """Values at some of p columns, and `fill` at the others; the same in every block."""
        if name not in self._held:
            real = cols != ONES
            self._held[name] = np.full((p, *values.shape[1:]), fill)
            self._held[name][cols[real]] = values[real]
        return self._held[name]


def combine(A: Any, cols: Array, x: Array, buffers: Buffers) -> Array:
    """A[:, cols] @ x, for x of shape (k,) or (k, T); of sparse rows (k, T), the same in buffers."""
    if not cols.size:
        return np.zeros((A.shape[0], *x.shape[1:]))
    if isinstance(A, np.ndarray) and 2 * cols.size < A.shape[1]:
        return np.asarray(buffers.taken(A, cols) @ x)
    if not isinstance(A, SparseRows):
        every = np.zeros((A.shape[1], *x.shape[1:]))
        every[cols] = x
        return np.asarray(A @ every)
    every, z = buffers.spread("x", A.p, cols, x, 0.0), np.empty((A.shape[0], x.shape[1]))
    row_dots(A.data, A.indices, A.indptr, every, z)
    return z


def correlate(A: Any, v: Array, sums: Sums, name: str, squared: Buffers | None = None) -> None:
    """Add Aᵀv to one of the sums, for v of shape (n,) or (n, T); of sparse rows where it lies.

    Entries of A are squared first, if there are buffers for that.
    """
    if isinstance(A, SparseRows):
        if name not in sums:
            sums[name] = np.zeros((A.p, *v.shape[1:]))
        g = sums[name].reshape(A.p, -1)
        add_rows(A.data, A.indices, A.indptr, v.reshape(len(v), -1), squared is not None, g)
        return
    if squared is not None:
        A = np.multiply(A, A, out=squared.of("squares", *A.shape))  # "columns" may be in use
    g = np.asarray(A.T @ v)
    sums[name] = sums[name] + g if name in sums else g


def products(A: Any, w: Array, old: int, cols: Array, buffers: Buffers) -> Array:
    """Σ_i w_i a_i a_iᵀ over the columns `cols`: the rows of all but the first `old` of them."""
    if not isinstance(A, np.ndarray):
        return _sparse_products(A, w, old, cols, buffers)
    every = buffers.taken(A, cols)
    if not old and w.min(initial=0.0) >= 0:  # a matrix times itself is half a product
        every *= np.sqrt(w)[:, None]
        return np.asarray(every.T @ every)
    own = every[:, old:]
    weighted = np.multiply(own, w[:, None], out=buffers.of("weighted", *own.shape))
    return np.asarray(weighted.T @ every)


def _sparse_products(A: SparseRows, w: Array, old: int, cols: Array, buffers: Buffers) -> Array:
    one = np.flatnonzero(cols == ONES)
    G = np.zeros((cols.size - old, cols.size))
    place = buffers.spread("places", A.p, cols, np.arange(cols.size), -1)
    row_products(A.data, A.indices, A.indptr, place, int(one[0]) if one.size else -1, w, old, G)
    own = G[:, old:]
    own += np.tril(own, -1).T
    return G
