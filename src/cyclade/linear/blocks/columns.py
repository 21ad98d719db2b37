"""Dense columns for the compiled loops: rows of X.T as they are, or copies made on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CHUNK = 64
"""Columns copied at a time, so that what lies between X and the copy stays in a cache."""


class Columns:
    """One row of `A` per column of X; column j is A[lines[j]] once it was asked for.

    X in column order serves itself. Otherwise, or where columns are to be weighted, copies are
    gathered in a buffer that grows: each is √w (a_j − its mean) if `centred`, √w a_j if not.
    """

    def __init__(
        self, X: Array, w: Array | None = None, centred: bool = False, dtype: Any = None
    ) -> None:
        self.X, self.w, self.centred = X, w, centred
        n, p = X.shape
        dtype = X.dtype if dtype is None else dtype
        self.direct = w is None and X.flags.f_contiguous and dtype == X.dtype
        if self.direct:
            self.A, self.lines = X.T, np.arange(p)
            return
        self.A, self.lines, self.used = np.empty((0, n), dtype), np.full(p, -1), 0

    def include(self, columns: Array) -> None:
        """Have these columns of X in A."""
        if self.direct:
            return
        new = columns[self.lines[columns] < 0]
        if not new.size:
            return
        needed = self.used + new.size
        if needed > len(self.A):
            room = max(needed, min(2 * len(self.A), len(self.lines)))
            larger = np.empty((room, len(self.X)), self.A.dtype)
            larger[: self.used] = self.A[: self.used]
            self.A = larger
        for first in range(0, new.size, CHUNK):
            own = new[first : first + CHUNK]
            copy = np.ascontiguousarray(self.X[:, own].T)
            if self.w is not None:
                if self.centred:
                    copy -= (copy @ (self.w / self.w.sum()).astype(copy.dtype))[:, None]
                copy *= np.sqrt(self.w).astype(copy.dtype)
            self.A[self.used : self.used + own.size] = copy
            self.lines[own] = np.arange(self.used, self.used + own.size)
            self.used += own.size
