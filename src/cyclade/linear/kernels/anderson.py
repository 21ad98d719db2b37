"""Anderson extrapolation over the blocks that were cycled over.

With steps d_i = x_i − x_{i−1} the weights c minimise ‖Σ_i c_i d_i‖ subject to Σ c = 1, so they are
proportional to the solution of (DDᵀ) c = 1. The depth is small and most blocks do not move, so
compiled loops take microseconds where array operations would take their overheads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import factor, substitute

RIDGE = 1e-12  # of the trace of DDᵀ: steps may be dependent


@compiled
def weights(past: Any, starts: Any, blocks: Any, c: Any) -> bool:
    """c of the points after the first, from the entries of the blocks; False if there is none."""
    depth = past.shape[0] - 1
    gram, step = np.zeros((depth, depth)), np.empty(depth)
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            for i in range(depth):
                step[i] = past[i + 1, e] - past[i, e]
            for i in range(depth):
                for j in range(i + 1):
                    gram[i, j] += step[i] * step[j]
    size, total = 0.0, 0.0
    for i in range(depth):
        size += gram[i, i]
    if not size > 0.0:
        return False
    for i in range(depth):
        gram[i, i] += RIDGE * size
        c[i] = 1.0
    if not factor(gram):
        return False
    substitute(gram, c, depth)
    for i in range(depth):
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
