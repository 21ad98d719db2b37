"""Cyclic descent over blocks on products of columns: cycles, Newton's matrix, sparse products.

The problem is  min over x of ½ xᵀGx − bᵀx + Σ_k λ_k‖x_k‖_2 + ν_k‖x_k‖_1  with c = b − Gx. Entry
e of x belongs to column e // T and output e % T. Where outputs do not meet in the Hessian, G holds
one matrix over the columns for each output; else it is one matrix over all entries, and T is 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.group import block_step
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import subtract

ONES = -1  # the number of the column of ones, which belongs to the intercept


@compiled
def cycles(
    G: Any, c: Any, x: Any, blocks: Any, max_cycles: int, tolerance: float
) -> tuple[int, float]:
    """Cycle over all blocks, as `group.Blocks`, until no ‖δ_k‖ L_k exceeds the tolerance.

    Returns the number of cycles, and the largest move of the last one.
    """
    T, K, widest, starts = G.shape[0], G.shape[1], 1, blocks.starts
    for k in range(starts.shape[0] - 1):
        widest = max(widest, starts[k + 1] - starts[k])
    g, scratch, now, d = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in range(starts.shape[0] - 1):
            first, m = starts[k], starts[k + 1] - starts[k]
            for i in range(m):
                g[i] = c[first + i]
            size = block_step(g, x, k, blocks, scratch, now, d)
            for i in range(m if size > 0.0 else 0):
                row, output = G[(first + i) % T, (first + i) // T], (first + i) % T
                if T == 1:
                    subtract(c, row, d[i], K)
                else:
                    for a in range(K):
                        c[a * T + output] -= d[i] * row[a]
            largest = max(largest, size)
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
def row_dots(data: Any, indices: Any, indptr: Any, x: Any, z: Any) -> None:
    """z = Ax from rows, for x of shape (p, T)."""
    for i in range(z.shape[0]):
        for t in range(z.shape[1]):
            total = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                total += data[e] * x[indices[e], t]
            z[i, t] = total


@compiled
def add_rows(data: Any, indices: Any, indptr: Any, v: Any, squared: bool, g: Any) -> None:
    """g += Aᵀv from rows, for v of shape (n, T); with the squares of A's entries if asked for."""
    for i in range(v.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            entry = data[e] * data[e] if squared else data[e]
            for t in range(v.shape[1]):
                g[indices[e], t] += entry * v[i, t]


@compiled
def row_products(
    data: Any, indices: Any, indptr: Any, place: Any, one: int, w: Any, old: int, G: Any
) -> None:
    """G += Σ_i w_i a_i a_iᵀ from rows: row a − old, column b, for places b ≤ a with a ≥ old.

    `place` is where each column of X stands, or −1, and `one` where the column of ones does.
    """
    at, value = np.empty(place.shape[0] + 1, np.int64), np.empty(place.shape[0] + 1)
    for i in range(w.shape[0]):
        many = 0
        if one >= 0:
            at[0], value[0], many = one, 1.0, 1
        for e in range(indptr[i], indptr[i + 1]):
            if place[indices[e]] >= 0:
                at[many], value[many] = place[indices[e]], data[e]
                many += 1
        for a in range(many):
            if at[a] >= old:
                row, scaled = G[at[a] - old], w[i] * value[a]
                for b in range(many):
                    if at[b] <= at[a]:
                        row[at[b]] += scaled * value[b]
