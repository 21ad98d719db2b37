"""The columns A_j of one block on some rows: dense, sparse, and with the intercept's ones."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array

EVERY_ROW = slice(None)


class Columns(Protocol):
    """The columns A_j of one block."""

    size: int
    """How many columns."""

    def back(self, r: Array) -> Array:
        """A_jᵀ r."""

    def move(self, z: Array, du: Array) -> Any:
        """z ← z + A_j du, in place; returns (an index of) the rows that may have changed."""

    def gram(self, weight: Array) -> Array:
        """A_jᵀ diag(weight) A_j, as an array."""

    def squared(self) -> Columns:
        """The columns with every entry squared."""


def columns_of(X: Any, features: Any) -> Columns:
    """Columns of X, an array or a CSC matrix, by a slice or indices; p itself is the intercept.

    Example
    -------
    >>> columns_of(np.array([[1.0, 2.0], [3.0, 4.0]]), slice(1, 3)).back(np.ones(2))
    array([6., 2.])
    """
    (n, p), run = X.shape, isinstance(features, slice)
    if run and features.stop > p:
        return _WithOnes(columns_of(X, slice(features.start, p)))
    if isinstance(X, np.ndarray):
        return _Dense(X[:, features])
    A = X if run else X[:, features]
    ends = A.indptr[features.start : features.stop + 1] if run else A.indptr
    entries = slice(ends[0], ends[-1])
    return _Sparse(A.data[entries], A.indices[entries], np.diff(ends), n)


class _Dense:
    """Columns stored as an array."""

    def __init__(self, A: Array) -> None:
        self.A, self.size = A, A.shape[1]

    def back(self, r: Array) -> Array:
        return self.A.T @ r

    def move(self, z: Array, du: Array) -> Any:
        z += self.A @ du
        return EVERY_ROW

    def gram(self, weight: Array) -> Array:
        return (self.A * weight[:, None]).T @ self.A

    def squared(self) -> Columns:
        return _Dense(self.A**2)


class _Sparse:
    """Columns stored by their entries: values, rows, and how many each column has.

    `bincount` and `add.at` on these cost less than SciPy's matrices, which check and copy: a cycle
    on a small batch cuts every block anew.
    """

    def __init__(self, values: Array, rows: Array, counts: Array, n: int) -> None:
        self.values, self.rows, self.counts, self.n = values, rows, counts, n
        self.size = len(counts)
        self._column = np.repeat(np.arange(len(counts)), counts)

    def back(self, r: Array) -> Array:
        if r.ndim == 1:
            found = np.bincount(self._column, self.values * r[self.rows], self.size)
        else:
            touched = (self.values[:, None] * r[self.rows]).T
            sums = [np.bincount(self._column, output, self.size) for output in touched]
            found = np.stack(sums, axis=1)
        return found.astype(r.dtype, copy=False)

    def move(self, z: Array, du: Array) -> Any:
        np.add.at(z, self.rows, (self.values * du[self._column].T).T)
        return self.rows if len(self.rows) < len(z) else EVERY_ROW

    def gram(self, weight: Array) -> Array:
        if self.size == 1:
            return self.squared().back(weight)[:, None]
        from scipy.sparse import csc_matrix

        ends = np.concatenate([[0], np.cumsum(self.counts)])
        A, weighted = (
            csc_matrix((values, self.rows, ends), shape=(self.n, self.size))
            for values in (self.values, self.values * weight[self.rows])
        )
        return (A.T @ weighted).toarray()

    def squared(self) -> Columns:
        return _Sparse(self.values**2, self.rows, self.counts, self.n)


class _WithOnes:
    """Columns of X (perhaps none) followed by the column of ones of the intercept."""

    def __init__(self, columns: Columns) -> None:
        self.columns, self.size = columns, columns.size + 1

    def back(self, r: Array) -> Array:
        ones = r.sum(axis=0, keepdims=True)
        return ones if self.size == 1 else np.concatenate([self.columns.back(r), ones])

    def move(self, z: Array, du: Array) -> Any:
        if self.size > 1:
            self.columns.move(z, du[:-1])
        z += du[-1:]
        return EVERY_ROW

    def gram(self, weight: Array) -> Array:
        border, corner = self.columns.back(weight)[:, None], weight.sum(keepdims=True)[:, None]
        return np.block([[self.columns.gram(weight), border], [border.T, corner]])

    def squared(self) -> Columns:
        return _WithOnes(self.columns.squared())
