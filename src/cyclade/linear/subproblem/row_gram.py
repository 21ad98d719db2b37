"""Rows of several entries in the space of the coefficients: cycles on products, and Newton steps.

As `Gram`, with λ_k‖x_k‖ on rows of m entries. Away from zero the norm of a row is smooth and
curved, so a Newton step takes its Hessian λ_k/‖x_k‖ (I − x_k x_kᵀ/‖x_k‖²) too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import group_gram, linalg
from cyclade.linear.kernels.gram import LENGTHS, ROUNDING

Array = NDArray[Any]


class RowGram:
    """½ xᵀGx − bᵀx + Σ_k λ_k‖x_k‖, by c = b − Gx and x; row k is x[m k : m (k + 1)].

    Examples
    --------
    >>> rows = RowGram(np.eye(2), np.array([6.0, 8.0]), np.zeros(2), 2, np.array([5.0]))
    >>> rows.minimise(1e-12, 100)
    2
    >>> rows.x
    array([3., 4.])
    """

    def __init__(self, G: Array, c: Array, x: Array, m: int, lam: Array) -> None:
        self.G, self.c, self.x, self.m, self.lam = G, c, x.copy(), m, lam
        every = np.arange(lam.size)
        D, Q = np.linalg.eigh(G.reshape(lam.size, m, lam.size, m)[every, :, every])
        self.Q, self.D = Q.reshape(-1), np.maximum(D.reshape(-1), 0.0)

    def minimise(self, tolerance: float, max_cycles: int) -> int:
        """Cycles and Newton steps until no ‖δ_k‖ L_k exceeds the tolerance; the cycles made."""
        size = np.abs(self.c) + self.D.max(initial=0.0) * np.abs(self.x)
        tolerance = max(tolerance, ROUNDING * float(size.max(initial=0.0)))
        done, wait = 0, 4
        while done < max_cycles:
            made, largest = group_gram.cycles(
                self.G, self.c, self.x, self.m, self.Q, self.D, self.lam,
                min(wait, max_cycles - done), tolerance,
            )  # fmt: skip
            done += int(made)
            if largest <= tolerance:
                break
            if not (self.newton_step() and self.newton_step()):
                wait *= 2
        return done

    def newton_step(self) -> bool:
        """Solve on the rows that are not zero, with the curvature of their norms there.

        Shorter steps are tried while the model does not fall; whether one was taken.
        """
        rows = np.flatnonzero(self.x.reshape(-1, self.m).any(axis=1))
        if not rows.size:
            return False
        S, lam = (self.m * rows[:, None] + np.arange(self.m)).reshape(-1), self.lam[rows]
        x, slope, H = self.x[S], np.empty(S.size), self.G[np.ix_(S, S)]
        group_gram.curved(H, x, self.m, lam, slope)
        H.flat[:: S.size + 1] += 1e-13 * float(H.diagonal().max())
        factor = linalg.cholesky(H)
        if factor is None:
            return False
        full, before = linalg.solve(factor, self.c[S] - slope), group_gram.norms(x, self.m, lam)
        Gd = full @ self.G[S]
        for t in LENGTHS:
            change = t * float(full @ (0.5 * t * Gd[S] - self.c[S]))
            change += group_gram.norms(x + t * full, self.m, lam) - before
            if change < 0:
                self.x[S] += t * full
                self.c -= t * Gd
                return True
        return False
