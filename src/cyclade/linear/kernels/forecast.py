"""How many columns a fit will need, from a rough fit of a few rows: a fraction of a pass over X."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.gram_path import scale_table
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import dot, subtract
from cyclade.linear.kernels.shipped import prox, threshold
from cyclade.linear.limits import IDLE
from cyclade.linear.numerics import TINY


@compiled
def forecast(
    A: Any, u: Any, w: Any, kind: int, unit: Any, lam: float
) -> tuple[float, float, float]:
    """How many coefficients a few cycles leave, λ_max/λ, and how alike the columns are.

    A holds columns by rows, w weights that sum to one, and u targets; A and u are overwritten. How
    alike columns are is the largest eigenvalue of their correlations, or less: uᵀ A Aᵀ u says.
    """
    p, m = A.shape
    L, g, zero, table, x = np.empty(p), np.empty(p), np.empty(p), np.empty_like(unit), np.zeros(p)
    scale_table(unit, lam, table)
    mean, ratio, size = dot(w, u, m), 1.0, TINY
    along = np.zeros(m)
    for i in range(m):
        u[i] = math.sqrt(w[i]) * (u[i] - mean)
    for j in range(p):
        a = A[j]
        mean = dot(w, a, m)
        for i in range(m):
            a[i] = math.sqrt(w[i]) * (a[i] - mean)
        L[j], g[j], zero[j] = max(dot(a, a, m), TINY), dot(a, u, m), threshold((kind, table), j)
        if zero[j] > 0.0:
            ratio = max(ratio, abs(g[j]) / zero[j])
        subtract(along, a, -g[j] / L[j], m)
        size += g[j] * g[j] / L[j]
    for k in range(2 * IDLE):  # the first ones at larger λ, the last ones at λ itself
        at = ratio ** max(1.0 - (k + 1) / IDLE, 0.0)
        scale_table(unit, at * lam, table)
        for j in range(p):
            new = prox((kind, table), x[j] + dot(A[j], u, m) / L[j], 1.0 / L[j], j)
            if new != x[j]:
                subtract(u, A[j], new - x[j], m)
                x[j] = new
    return float(np.count_nonzero(x)), ratio, max(dot(along, along, m) / size, 1.0)
