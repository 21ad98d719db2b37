"""Blocks of rows of a chunk, in float64, and the products of their columns under weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.chunked.chunks import Chunk
from cyclade.linear.kernels.block_gram import ONES, row_products

Array = NDArray[Any]


def blocks(chunk: Chunk, entries: int) -> Iterator[tuple[slice, Any]]:
    """Rows of a chunk with about so many entries, dense in float64; a sparse one as a whole.

    A block that lies in a cache is read from memory once, whatever is done with it.
    """
    X = chunk.X
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        yield slice(0, X.shape[0]), X if X.dtype == np.float64 else X.astype(np.float64)
        return
    if hasattr(X, "to_numpy"):  # a part of a dataframe
        X = X.to_numpy()
    X = np.asarray(X)
    rows = max(entries // X.shape[1], 64)
    for first in range(0, X.shape[0], rows):
        part = slice(first, min(first + rows, X.shape[0]))
        yield part, np.ascontiguousarray(X[part], np.float64)


class Room:
    """Arrays of the size of a block that are used again and again.

    Workers of Dask give freed memory back to the system at once, and taking it again takes longer
    than the arithmetic on it.
    """

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


def combine(A: Any, cols: Array, x: Array, room: Room) -> Array:
    """A[:, cols] @ x, for x of shape (k,) or (k, T)."""
    if not cols.size:
        return np.zeros((A.shape[0], *x.shape[1:]))
    if isinstance(A, np.ndarray) and 2 * cols.size < A.shape[1]:
        return np.asarray(room.taken(A, cols) @ x)
    every = np.zeros((A.shape[1], *x.shape[1:]))
    every[cols] = x
    return np.asarray(A @ every)


def correlate(A: Any, v: Array, cols: Array | None) -> Array:
    """Aᵀv on these columns (None: all), for v of shape (n,) or (n, T)."""
    if cols is not None and isinstance(A, np.ndarray) and 4 * cols.size < A.shape[1]:
        return np.asarray(A[:, cols].T @ v)
    g = np.asarray(A.T @ v)
    return g if cols is None else g[cols]


def products(A: Any, w: Array, old: Array, new: Array, room: Room) -> Array:
    """Σ_i w_i a_i a_iᵀ, the rows of the columns `new` against those of `old` and `new`."""
    if not isinstance(A, np.ndarray):
        return _sparse_products(A, w, old, new)
    every = room.taken(A, np.concatenate([old, new]))
    if not old.size and w.min(initial=0.0) >= 0:  # a matrix times itself is half a product
        every *= np.sqrt(w)[:, None]
        return np.asarray(every.T @ every)
    own = every[:, old.size :]
    weighted = np.multiply(own, w[:, None], out=room.of("weighted", *own.shape))
    return np.asarray(weighted.T @ every)


def _sparse_products(A: Any, w: Array, old: Array, new: Array) -> Array:
    every = np.concatenate([old, new])
    place = np.full(A.shape[1], -1, np.int64)
    real = every != ONES
    place[every[real]] = np.flatnonzero(real)
    one = np.flatnonzero(~real)
    G = np.zeros((new.size, every.size))
    row_products(
        A.data, A.indices, A.indptr, place, int(one[0]) if one.size else -1, w, old.size, G
    )
    own = G[:, old.size :]
    own += np.tril(own, -1).T
    return G
