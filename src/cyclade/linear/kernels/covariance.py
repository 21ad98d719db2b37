"""Cyclic descent for the graphical lasso: the Newton direction of −log det Θ + tr SΘ + Σ Λ|Θ|."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import dot
from cyclade.linear.kernels.shipped import soft_threshold


@compiled
def newton_direction(
    S: Any, W: Any, theta: Any, lam: Any, rows: Any, cols: Any, D: Any, cycles: int, tol: float
) -> int:
    """Minimise tr (S − W)D + ½ tr WDWD + Σ Λ|Θ + D| over D on the entries (rows, cols), i ≤ j.

    W is the inverse of Θ. An entry costs one product of rows of V = WD and W, and moves two columns
    of V. Ends once no entry moves the gradient by `tol` more; returns the cycles made.
    """
    p = S.shape[0]
    V = np.zeros((p, p))
    for done in range(cycles):
        largest = 0.0
        for k in range(rows.shape[0]):
            i, j = rows[k], cols[k]
            if i == j:
                a = W[i, i] * W[i, i]
            else:
                a = W[i, j] * W[i, j] + W[i, i] * W[j, j]
            b = S[i, j] - W[i, j] + dot(V[i], W[j], p)
            now = theta[i, j] + D[i, j]
            d = soft_threshold(now - b / a, lam[i, j] / a) - now
            if d != 0.0:
                D[i, j] += d
                if i != j:
                    D[j, i] += d
                for m in range(p):
                    V[m, j] += d * W[i, m]
                    if i != j:
                        V[m, i] += d * W[j, m]
                largest = max(largest, abs(d) * a)
        if largest <= tol:
            return done + 1
    return cycles
