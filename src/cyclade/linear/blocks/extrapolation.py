"""Anderson's extrapolation over the blocks that were cycled over, compiled.

With steps d_i = x_i − x_{i−1} the weights c minimise ‖Σ_i c_i d_i‖ subject to Σ c = 1, so they are
proportional to the solution of (DDᵀ) c = 1. Depths are small and most blocks stand still, so this
takes microseconds where array operations would take their overheads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled

RIDGE = 1e-12  # of the trace, for steps that are dependent


@compiled
def weights(past: Any, starts: Any, blocks: Any, c: Any) -> bool:
    """c of the points after the first, from the entries of the blocks; whether there is any."""
    depth = past.shape[0] - 1
    gram, step = np.zeros((depth, depth)), np.empty(depth)
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            for i in range(depth):
                step[i] = past[i + 1, e] - past[i, e]
            for i in range(depth):
                for j in range(i + 1):
                    gram[i, j] += step[i] * step[j]
    size = 0.0
    for i in range(depth):
        size += gram[i, i]
    if not size > 0.0:
        return False
    for i in range(depth):
        gram[i, i] += RIDGE * size
        c[i] = 1.0
    # Cholesky in place, then two triangular solves.
    for i in range(depth):
        for j in range(i + 1):
            s = gram[i, j]
            for h in range(j):
                s -= gram[i, h] * gram[j, h]
            if i > j:
                gram[i, j] = s / gram[j, j]
            elif s > 0.0:
                gram[i, i] = np.sqrt(s)
            else:
                return False
    for i in range(depth):
        for h in range(i):
            c[i] -= gram[i, h] * c[h]
        c[i] /= gram[i, i]
    total = 0.0
    for i in range(depth - 1, -1, -1):
        for h in range(i + 1, depth):
            c[i] -= gram[h, i] * c[h]
        c[i] /= gram[i, i]
        total += c[i]
    if total == 0.0 or not np.isfinite(total):
        return False
    for i in range(depth):
        c[i] /= total
    return True


@compiled
def combine(past_x: Any, past_R: Any, starts: Any, blocks: Any, c: Any, x: Any, R: Any) -> None:
    """x ← Σ_i c_i x_i on the blocks, R ← Σ_i c_i R_i."""
    depth = c.shape[0]
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            s = 0.0
            for i in range(depth):
                s += c[i] * past_x[i + 1, e]
            x[e] = s
    for e in range(R.shape[0]):
        s = 0.0
        for i in range(depth):
            s += c[i] * past_R[i + 1, e]
        R[e] = s
