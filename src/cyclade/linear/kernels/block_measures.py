"""Sums and distances of λ_k‖·‖_2 + ν_k‖·‖_1, compiled; block k is x[starts[k]:starts[k + 1]]."""

from __future__ import annotations

import math
from typing import Any

from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.shipped import distance, value


@compiled
def total(x: Any, starts: Any, table: Any, blocks: Any) -> float:
    """Σ r_k(x_k) over the blocks."""
    out = 0.0
    for k in blocks:
        square, size = 0.0, 0.0
        for e in range(starts[k], starts[k + 1]):
            square += x[e] * x[e]
            size += abs(x[e])
        out += table[k, 0] * math.sqrt(square) + table[k, 1] * size
    return out


@compiled
def distances(x: Any, g: Any, starts: Any, table: Any, blocks: Any, out: Any) -> None:
    """out_i = dist(−g_k, ∂r_k(x_k)) for the i-th of the blocks, k = blocks[i]."""
    for i in range(blocks.shape[0]):
        k = blocks[i]
        lam, nu = table[k, 0], table[k, 1]
        square = 0.0
        for e in range(starts[k], starts[k + 1]):
            square += x[e] * x[e]
        size, far = math.sqrt(square), 0.0
        for e in range(starts[k], starts[k + 1]):
            ge = g[e]
            if size > 0.0:
                ge += lam * x[e] / size
            if x[e] == 0.0:
                ge = max(abs(ge) - nu, 0.0)
            else:
                ge += math.copysign(nu, x[e])
            far += ge * ge
        far = math.sqrt(far)
        out[i] = far if size > 0.0 else max(far - lam, 0.0)


@compiled
def largest_norm(g: Any, starts: Any, table: Any) -> float:
    """max_k ‖g_k‖ / λ_k over the blocks with λ_k > 0: the dual norm where ν = 0."""
    out = 0.0
    for k in range(starts.shape[0] - 1):
        square = 0.0
        for e in range(starts[k], starts[k + 1]):
            square += g[e] * g[e]
        if table[k, 0] > 0.0:
            out = max(out, math.sqrt(square) / table[k, 0])
    return out


@compiled
def occupied(x: Any, starts: Any, out: Any) -> None:
    """out_k = whether block k is not zero."""
    for k in range(out.shape[0]):
        out[k] = False
        for e in range(starts[k], starts[k + 1]):
            if x[e] != 0.0:
                out[k] = True
                break


@compiled
def entry_total(parameters: Any, x: Any, blocks: Any) -> float:
    """Σ_jt r_j(x_jt) of a scalar penalty over the rows j."""
    out = 0.0
    for j in blocks:
        for t in range(x.shape[1]):
            out += value(parameters, x[j, t], j)
    return out


@compiled
def entry_distances(parameters: Any, x: Any, g: Any, blocks: Any, out: Any) -> None:
    """out_i = max_t dist(−g_jt, ∂r_j(x_jt)) for the i-th of the rows, j = blocks[i]."""
    for i in range(blocks.shape[0]):
        j, worst = blocks[i], 0.0
        for t in range(x.shape[1]):
            worst = max(worst, distance(parameters, x[j, t], g[j, t], j))
        out[i] = worst
