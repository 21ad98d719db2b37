"""Dense columns for the compiled loops: rows of X.T as they are, or copies made on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Columns:
    """One row of `A` per column of X; column j is A[lines[j]] once it was asked for.

    X in column order serves itself. Otherwise, or where columns are to be weighted, copies are
    gathered in a buffer that grows: each is √w (a_j − its mean) if `centred`, √w a_j if not.
    """

    def __init__(self, X: Array, w: Array | None = None, centred: bool = False) -> None:
        self.X, self.w, self.centred = X, w, centred
        n, p = X.shape
        self.direct = w is None and X.flags.f_contiguous
        if self.direct:
            self.A, self.lines = X.T, np.arange(p)
            return
        self.A, self.lines, self.used = np.empty((0, n), X.dtype), np.full(p, -1), 0

    def include(self, columns: Array) -> None:
        """Have these columns of X in A."""
        if self.direct:
            return
        new = columns[self.lines[columns] < 0]
        if not new.size:
            return
        copy = np.ascontiguousarray(self.X[:, new].T)
        if self.w is not None:
            if self.centred:
                copy -= (copy @ (self.w / self.w.sum()).astype(copy.dtype))[:, None]
            copy *= np.sqrt(self.w).astype(copy.dtype)
        needed = self.used + new.size
        if needed > len(self.A):
            larger = np.empty((max(needed, min(2 * len(self.A), len(self.lines))), len(self.X)))
            larger = larger.astype(self.X.dtype, copy=False)
            larger[: self.used] = self.A[: self.used]
            self.A = larger
        self.A[self.used : needed] = copy
        self.lines[new] = np.arange(self.used, needed)
        self.used = needed
