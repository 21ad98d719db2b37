"""Regression of every column on all others by the lasso, on their products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.gram import minimise
from cyclade.linear.kernels.jit import compiled

STEPS = 30  # along λ, each SHRINK times the last: down to 1/100 of the largest
SHRINK = 0.85
MORE_VARIANCE = 1.25**2  # what less bias may cost


@compiled
def nodewise(
    G: Any, g: Any, first: int, last: int, n: float, bias: float, shift: Any, variance: Any
) -> None:
    """For columns first ≤ j < last: (g_j − γ·g)/c and ‖z‖²/(nc²), with γ of column j.

    z = a_j − Aγ is the residual of the lasso of column j on the others, c = z·a_j/n, and G the
    products over n of all columns, of mean square 1. λ falls until √n max_k |a_k·z|/‖z‖ ≤ `bias`,
    and on as long as the variance is at most `MORE_VARIANCE` times that there.
    """
    p = G.shape[0]
    cols, L = np.arange(p), np.ones(p)
    for j in range(first, last):
        x, c, reference = np.zeros(p), G[j].copy(), 0.0
        lam = bias / math.sqrt(n)
        for _ in range(STEPS):
            table = np.full((p, 1), lam)
            table[j, 0] = math.inf  # the column itself stays out
            minimise(G, c, x, L, cols, (0, table), table[:, 0], 1e-3 * lam, 1_000, False)
            left, top, along = c[j], 0.0, 0.0
            q = left
            for k in range(p):
                if k != j:
                    q -= x[k] * c[k]
                    along += x[k] * g[k]
                    top = max(top, abs(c[k]))
            if left <= 1e-10 or q <= 0.0:  # the others explain it
                break
            spread = q / (left * left)
            if reference > 0.0 and spread > MORE_VARIANCE * reference:
                break
            shift[j], variance[j] = (g[j] - along) / left, spread
            if reference == 0.0 and math.sqrt(n / q) * top <= bias:
                reference = spread
            lam *= SHRINK
