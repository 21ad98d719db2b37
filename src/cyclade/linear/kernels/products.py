"""Products Aᵀ diag(w) A of sparse columns: by rows in one pass, or column against column."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.sparse import dot


@compiled
def by_rows(data: Any, rows: Any, starts: Any, columns: Any, n: int) -> tuple[Any, Any, Any]:
    """(first, entry, column): row i holds entry[e] in chosen column column[e], e from first[i]."""
    first = np.zeros(n + 1, np.int64)
    for k in range(columns.shape[0]):
        for e in range(starts[columns[k]], starts[columns[k] + 1]):
            first[rows[e] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    at = first[:n].copy()
    entry, column = np.empty(first[n], data.dtype), np.empty(first[n], np.uint32)
    for k in range(columns.shape[0]):
        for e in range(starts[columns[k]], starts[columns[k] + 1]):
            i = rows[e]
            entry[at[i]], column[at[i]] = data[e], k
            at[i] += 1
    return first, entry, column


@compiled
def weighted_products(first: Any, entry: Any, column: Any, place: Any, w: Any, G: Any) -> None:
    """G = Σ_i w_i b_i b_iᵀ, b_i the entries of row i in columns with place ≥ 0, put there."""
    G[:] = 0.0
    longest = 0
    for i in range(w.shape[0]):
        longest = max(longest, first[i + 1] - first[i])
    value, spot = np.empty(longest), np.empty(longest, np.uint32)
    for i in range(w.shape[0]):
        m = 0
        for e in range(first[i], first[i + 1]):
            at = place[column[e]]
            value[m], spot[m] = entry[e], at
            m += at >= 0  # without a branch, which could not be predicted
        for a in range(m):
            row, scaled = G[spot[a]], w[i] * value[a]
            for b in range(a + 1):
                row[spot[b]] += scaled * value[b]
    for a in range(G.shape[0]):  # columns come in increasing order within a row: the lower half
        for b in range(a):
            G[b, a] = G[a, b]


@compiled
def slopes(first: Any, entry: Any, column: Any, v: Any, out: Any) -> None:
    """out = Σ_i v_i b_i."""
    out[:] = 0.0
    for i in range(v.shape[0]):
        for e in range(first[i], first[i + 1]):
            out[column[e]] += v[i] * entry[e]


@compiled
def combine(first: Any, entry: Any, column: Any, x: Any, out: Any) -> None:
    """out_i = b_i · x."""
    for i in range(out.shape[0]):
        s = 0.0
        for e in range(first[i], first[i + 1]):
            s += entry[e] * x[column[e]]
        out[i] = s


@compiled
def paired_products(
    data: Any, rows: Any, starts: Any, columns: Any, order: Any, known: int, w: Any, G: Any
) -> None:
    """G as `weighted_products`, from X by columns: each times w is filled in, others are read.

    Pairs of the first `known` columns of `order` are left as they are. If `order` puts short
    columns first, the shorter of every two is read.
    """
    full = np.zeros(w.shape[0], data.dtype)
    for k in range(known, order.shape[0]):
        a = order[k]
        j = columns[a]
        for e in range(starts[j], starts[j + 1]):
            full[rows[e]] = w[rows[e]] * data[e]
        for h in range(k + 1):
            b = order[h]
            i = columns[b]
            G[a, b] = dot(data, rows, starts[i], starts[i + 1], full)
            G[b, a] = G[a, b]
        for e in range(starts[j], starts[j + 1]):
            full[rows[e]] = 0
