"""Cyclic descent over blocks in the space of the coefficients, with all products of columns.

The problem is  min over x of ½ xᵀGx − bᵀx + Σ_k λ_k‖x_k‖,  block k being x[m k : m (k + 1)].  The
correlations c = b − Gx follow the coefficients, as in `cyclade.linear.kernels.gram`; the step on a
block is that of `cyclade.linear.kernels.group`, in the eigenbasis of its part of G.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.group import rotated_step
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import subtract


@compiled
def cycles(
    G: Any, c: Any, x: Any, m: int, Q: Any, D: Any, lam: Any, max_cycles: int, tolerance: float
) -> tuple[int, float]:
    """Cycle over the blocks until no ‖δ_k‖ L_k exceeds the tolerance; cycles, last move.

    Q and D hold the eigenvectors and eigenvalues of block after block.
    """
    g, scratch, now, d = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    done, largest, size = 0, np.inf, x.shape[0]
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in range(lam.shape[0]):
            first, top, length = m * k, 0.0, 0.0
            for i in range(m):
                g[i] = c[first + i]
                top = max(top, D[first + i])
            if top <= 0.0:  # columns of zeros: only the penalty depends on them
                for i in range(m):
                    x[first + i] = 0.0 if lam[k] > 0.0 else x[first + i]
                continue
            rotated_step(g, x, first, Q, m * first, D, first, m, lam[k], scratch, now, d)
            for i in range(m):
                length += d[i] * d[i]
            if length > 0.0:
                for i in range(m):
                    x[first + i] += d[i]
                    subtract(c, G[first + i], d[i], size)
                largest = max(largest, top * math.sqrt(length))
        done += 1
    return done, largest


@compiled
def curved(H: Any, x: Any, m: int, lam: Any, slope: Any) -> None:
    """Add the Hessian of Σ_k λ_k‖x_k‖ to H, and put its gradient into `slope`; no x_k is zero."""
    for k in range(lam.shape[0]):
        first, square = m * k, 0.0
        for i in range(m):
            square += x[first + i] * x[first + i]
        size = math.sqrt(square)
        for i in range(m):
            slope[first + i] = lam[k] * x[first + i] / size
            H[first + i, first + i] += lam[k] / size
            for j in range(m):
                H[first + i, first + j] -= lam[k] / size * x[first + i] * x[first + j] / square


@compiled
def norms(x: Any, m: int, lam: Any) -> float:
    """Σ_k λ_k‖x_k‖."""
    out = 0.0
    for k in range(lam.shape[0]):
        square = 0.0
        for i in range(m):
            square += x[m * k + i] * x[m * k + i]
        out += lam[k] * math.sqrt(square)
    return out
