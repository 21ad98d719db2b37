"""Newton's equations on supports that differ by few columns: one factor serves several of them.

Along a path the support of one step is mostly that of the last. With G₀ = F Fᵀ known on the old
support, columns A that came in and D that left border the old equations,

    G₀ d₀ + G₀A d_A + E_D μ = b₀,   G_A0 d₀ + G_AA d_A = b_A,   E_Dᵀ d₀ = 0,

so that |A| + |D| + 1 triangular solves, and one small system for (d_A, μ), replace a k³/3 factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import linalg
from cyclade.linear.kernels.gram import submatrix
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class Factor:
    """The last factor, and the coordinates it is of."""

    def __init__(self, tuning: Tuning = DEFAULT) -> None:
        self.tuning, self.made = tuning, 0  # factorisations so far
        self._factor = np.empty((0, 0))
        self._cols, self._order = np.empty(0, np.int64), np.empty(0, np.int64)  # sorted; places

    def solve(self, G: Array, S: Array, cols: Array, ridge: Array, b: Array) -> Array | None:
        """(G_SS + diag(ridge))⁻¹ b, where the coordinates `cols` lie at S in G; None if singular.

        G and the ridge of a coordinate must be the same at every call.
        """
        found = self._bordered(G, S, cols, ridge, b)
        if found is not None:
            return found
        H = np.empty((S.size, S.size))
        submatrix(G, S, H)
        H.flat[:: S.size + 1] += ridge
        factor = linalg.cholesky(H)
        if factor is None:
            return None
        self._factor, self._order, self.made = factor, np.argsort(cols), self.made + 1
        self._cols = cols[self._order]
        return linalg.solve(factor, b)

    def _bordered(self, G: Array, S: Array, cols: Array, ridge: Array, b: Array) -> Array | None:
        """The same from the last factor; None if too much has changed."""
        from scipy.linalg.lapack import dgesv

        k = self._cols.size
        if k < self.tuning.min_bordered:
            return None
        at = np.minimum(np.searchsorted(self._cols, cols), k - 1)
        old = self._cols[at] == cols
        place, new, gone = self._order[at[old]], np.flatnonzero(~old), np.ones(k, bool)
        gone[place] = False
        left = np.flatnonzero(gone)
        a, m = new.size, new.size + left.size
        if m > self.tuning.max_bordered * k:
            return None
        rows = G[S[new]]
        B = np.zeros((k, m + 1), order="F")
        B[place, :a] = rows[:, S[old]].T  # rows that left may hold anything: μ makes up for it
        B[left, np.arange(a, m)] = 1.0
        B[place, m] = b[old]
        Z = linalg.solve(self._factor, B)
        K = -(B[:, :m].T @ Z)
        K[:a, :a] += rows[:, S[new]] + np.diag(ridge[new])
        K[:a, m] += b[new]
        t, failed = dgesv(K[:, :m], K[:, m])[2:] if m else (np.empty(0), 0)
        if failed:
            return None
        d, among = np.empty(S.size), Z[:, m] - Z[:, :m] @ t
        d[old], d[new] = among[place], t[:a]
        return d
