"""Sparse columns: products with X, and products Aᵀ diag(w) A of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.ahead import ask_for, places_of
from cyclade.linear.kernels.jit import compiled, inner, reductions


@reductions
def correlate(data: Any, rows: Any, starts: Any, columns: Any, v: Any, out: Any) -> None:
    """out_k = a_{columns[k]} · v."""
    for k in range(columns.shape[0]):
        s = v[0] * 0
        for e in range(starts[columns[k]], starts[columns[k] + 1]):
            s += data[e] * v[rows[e]]
        out[k] = s


@compiled
def add_columns(data: Any, rows: Any, starts: Any, columns: Any, x: Any, z: Any) -> None:
    """z ← z + Σ_k x_k a_{columns[k]}."""
    places = places_of(data, rows)
    for k in range(columns.shape[0]):
        ask_for(places, starts, columns, k)
        j = columns[k]
        for e in range(starts[j], starts[j + 1]):
            z[rows[e]] += data[e] * x[k]


@compiled
def gather(X: Any, columns: Any, root: Any, out: Any, sums: Any, L: Any, at: int) -> None:
    """The chosen columns times √w, one after another from `at`; √w-sums and squared norms.

    X and `out` are (data, rows, starts).
    """
    data, rows, starts = X
    for k in range(columns.shape[0]):
        j = columns[k]
        out[2][k] = at
        s, q = 0.0, 0.0
        for e in range(starts[j], starts[j + 1]):
            i = rows[e]
            scaled = data[e] * root[i]
            out[0][at], out[1][at] = scaled, i
            at += 1
            s += scaled * root[i]
            q += scaled * scaled
        sums[k], L[k] = s, q
    out[2][columns.shape[0]] = at


@reductions
def moments(data: Any, starts: Any, columns: Any, sums: Any, L: Any) -> None:
    """The sum and the squared norm of each chosen column."""
    for k in range(columns.shape[0]):
        s, q = 0.0, 0.0
        for e in range(starts[columns[k]], starts[columns[k] + 1]):
            s += data[e]
            q += float(data[e]) * float(data[e])
        sums[k], L[k] = s, q


@reductions
def dot(data: Any, rows: Any, first: int, last: int, R: Any) -> float:
    """a_j · R."""
    s = R[0] * 0
    for e in range(first, last):
        s += data[e] * R[rows[e]]
    return s  # type: ignore[no-any-return]


@compiled
def some_by_rows(
    data: Any, rows: Any, starts: Any, columns: Any, begins: Any, top: int, end: int
) -> tuple[Any, Any, Any]:
    """(first, entry, column): row i holds entry[e] in chosen column column[e], e from first[i].

    Of the rows from `top` to `end`, where column k has its first entry at begins[k]; that moves on
    to the first entry after them.
    """
    n = end - top
    first = np.zeros(n + 1, np.int64)
    for k in range(columns.shape[0]):
        for e in range(begins[k], starts[columns[k] + 1]):
            if rows[e] >= end:
                break
            first[rows[e] - top + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    at = first[:n].copy()
    entry, column = np.empty(first[n], data.dtype), np.empty(first[n], np.uint32)
    for k in range(columns.shape[0]):
        after = starts[columns[k] + 1]
        for e in range(begins[k], after):
            if rows[e] >= end:
                after = e
                break
            i = rows[e] - top
            entry[at[i]], column[at[i]] = data[e], k
            at[i] += 1
        begins[k] = after
    return first, entry, column


@compiled
def column_products(
    data: Any, rows: Any, starts: Any, columns: Any, w: Any, G: Any, most: int
) -> None:
    """G = Σ_i w_i b_i b_iᵀ over the chosen columns, put by rows about so many entries at a time."""
    G[:] = 0.0
    begins, entries, n = starts[columns], 0, w.shape[0]
    for k in range(columns.shape[0]):
        entries += starts[columns[k] + 1] - starts[columns[k]]
    step = n // (1 + entries // most) + 1
    for top in range(0, n, step):
        end = min(top + step, n)
        first, entry, column = some_by_rows(data, rows, starts, columns, begins, top, end)
        add_lower(first, entry, column, w[top:end], G)
    mirror(G)


@inner
def add_lower(first: Any, entry: Any, column: Any, w: Any, G: Any) -> None:
    """G ← G + Σ_i w_i b_i b_iᵀ on the diagonal and below: columns of a row come in order."""
    for i in range(w.shape[0]):
        for a in range(first[i], first[i + 1]):
            row, scaled = G[column[a]], w[i] * entry[a]
            for b in range(first[i], a + 1):
                row[column[b]] += scaled * entry[b]


@inner
def mirror(G: Any) -> None:
    """The half above the diagonal from the one below."""
    for a in range(G.shape[0]):
        for b in range(a):
            G[b, a] = G[a, b]


@compiled
def paired_products(
    data: Any, rows: Any, starts: Any, columns: Any, order: Any, known: int, w: Any, G: Any
) -> None:
    """G as `column_products`, from X by columns: each times w is filled in, others are read.

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
