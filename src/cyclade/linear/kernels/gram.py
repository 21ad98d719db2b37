"""Cyclic descent in the space of the coefficients, when products of all columns are at hand.

With G = A Aᵀ the correlations c = A R follow the coefficients without R: a column that moves
costs one row of G instead of two passes over its entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.kernels.sparse import dot


@reductions
def subtract(c: Any, row: Any, d: float) -> None:
    """c ← c − d · row."""
    for k in range(c.shape[0]):
        c[k] -= d * row[k]


@reductions
def subtract_four(c: Any, G: Any, at: Any, d: Any) -> None:
    """c ← c − Σ_a d_a G[at_a] over four rows: c is read and written once."""
    r, s, t, u = G[at[0]], G[at[1]], G[at[2]], G[at[3]]
    p, q, v, w = d[0], d[1], d[2], d[3]
    for k in range(c.shape[0]):
        c[k] -= p * r[k] + q * s[k] + v * t[k] + w * u[k]


@compiled
def cycles(
    G: Any, c: Any, x: Any, L: Any, cols: Any, parameters: Any, most: int, enough: float
) -> tuple[int, float]:
    """Cycle over all columns of G until no |δ_j| L_j exceeds `enough`."""
    done, largest = 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for j in range(x.shape[0]):
            new = prox(parameters, x[j] + c[j] / L[j], 1.0 / L[j], cols[j])
            d = new - x[j]
            if d != 0.0:
                x[j] = new
                largest = max(largest, abs(d) * L[j])
                subtract(c, G[j], d)
        done += 1
    return done, largest


@compiled
def submatrix(G: Any, chosen: Any, out: Any) -> None:
    """out = G on the chosen rows and columns."""
    for a in range(chosen.shape[0]):
        row, put = G[chosen[a]], out[a]
        for b in range(chosen.shape[0]):
            put[b] = row[chosen[b]]


@compiled
def sparse_products(data: Any, rows: Any, starts: Any, order: Any, d: Any, G: Any) -> None:
    """G = A diag(d) Aᵀ of sparse columns, by rows of X: Σ_i of outer products."""
    k, n = order.shape[0], d.shape[0]
    first = np.zeros(n + 1, np.int64)
    for a in range(k):
        for e in range(starts[order[a]], starts[order[a] + 1]):
            first[rows[e] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    at = first.copy()
    entry, column = np.empty(first[n], data.dtype), np.empty(first[n], np.int32)
    for a in range(k):
        for e in range(starts[order[a]], starts[order[a] + 1]):
            i = rows[e]
            entry[at[i]], column[at[i]] = data[e], a
            at[i] += 1
    for a in range(k):
        for b in range(k):
            G[a, b] = 0.0
    for i in range(n):
        for e in range(first[i], first[i + 1]):
            row, scaled = G[column[e]], d[i] * entry[e]
            for f in range(first[i], e + 1):
                row[column[f]] += scaled * entry[f]
    for a in range(k):
        for b in range(a):
            G[b, a] = G[a, b]


@compiled
def more_sparse_products(
    data: Any, rows: Any, starts: Any, order: Any, known: int, w: float, n: int, G: Any
) -> None:
    """The rows and columns of G = w A Aᵀ from `known` on, a new column against all at a time."""
    column = np.zeros(n)
    for a in range(known, order.shape[0]):
        first, last = starts[order[a]], starts[order[a] + 1]
        for e in range(first, last):
            column[rows[e]] = w * data[e]
        for b in range(a + 1):
            G[a, b] = dot(data, rows, starts[order[b]], starts[order[b] + 1], column)
            G[b, a] = G[a, b]
        for e in range(first, last):
            column[rows[e]] = 0.0
