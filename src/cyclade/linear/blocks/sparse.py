"""Cycles over groups of sparse columns, with weights on the rows.

U = w (t − z) is the weighted residual; its last entry is a shift, and the true one is
U[:n] + U[n] w. That profiles an intercept out without filling any column in. Column e of the
groups is column columns[e] of X, which holds data[at[j]:at[j + 1]].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.blocks.steps import block_step, copy, copy_blocks
from cyclade.linear.kernels.jit import compiled


@compiled
def products(
    data: Any, rows: Any, at: Any, columns: Any, starts: Any, blocks: Any, U: Any, sums: Any,
    out: Any,
) -> None:  # fmt: skip
    """out_e = a_e · (U + shift w) for every column e of the blocks."""
    n = U.shape[0] - 1
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            s = U[n] * sums[e]
            for i in range(at[columns[e]], at[columns[e] + 1]):
                s += data[i] * U[rows[i]]
            out[e] = s


@compiled
def column_sums(
    data: Any, rows: Any, at: Any, columns: Any, starts: Any, blocks: Any, w: Any, out: Any
) -> None:
    """out_e = Σ_i w_i a_ie for every column e of the blocks."""
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            s = 0.0
            for i in range(at[columns[e]], at[columns[e] + 1]):
                s += data[i] * w[rows[i]]
            out[e] = s


@compiled
def grams(
    data: Any, rows: Any, at: Any, columns: Any, starts: Any, blocks: Any, w: Any, mass: float,
    sums: Any, H: Any, q0: Any,
) -> None:  # fmt: skip
    """H_k = A_kᵀ diag(w) A_k (less its centre) for the blocks: one column at a time filled in."""
    full = np.zeros(w.shape[0])
    for k in blocks:
        first, m = starts[k], starts[k + 1] - starts[k]
        if q0[k + 1] == q0[k]:
            continue
        for i in range(m):
            own = columns[first + i]
            for e in range(at[own], at[own + 1]):
                full[rows[e]] = data[e] * w[rows[e]]
            for j in range(i, m):
                other = columns[first + j]
                s = -sums[first + i] * sums[first + j] / mass
                for e in range(at[other], at[other + 1]):
                    s += data[e] * full[rows[e]]
                H[q0[k] + i * m + j] = s
                H[q0[k] + j * m + i] = s
            for e in range(at[own], at[own + 1]):
                full[rows[e]] = 0.0


@compiled
def cycles(
    data: Any, rows: Any, at: Any, columns: Any, w: Any, mass: float, U: Any, x: Any, starts: Any,
    sums: Any, order: Any, Q: Any, q0: Any, D: Any, table: Any, rotated: bool, inner: int,
    most: int, enough: float, past_x: Any, past_U: Any,
) -> tuple[int, float]:  # fmt: skip
    """As `dense.cycles`; `mass` is Σ w."""
    n = U.shape[0] - 1
    widest = 1
    for k in order:
        widest = max(widest, starts[k + 1] - starts[k])
    g, c, now, d = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    done, largest = 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for k in order:
            first, m = starts[k], starts[k + 1] - starts[k]
            top = 0.0
            for i in range(m):
                s, j = U[n] * sums[first + i], columns[first + i]
                for e in range(at[j], at[j + 1]):
                    s += data[e] * U[rows[e]]
                g[i] = s
                top = max(top, D[first + i])
            if top <= 0.0:  # flat: nothing but the penalty has a say
                for i in range(m):
                    x[first + i] = 0.0 if table[k, 0] + table[k, 1] > 0.0 else x[first + i]
                continue
            block_step(
                g, x, first, Q, q0[k], q0[k + 1], D, m, table[k, 0], table[k, 1], top, rotated,
                inner, c, now, d,
            )  # fmt: skip
            length = 0.0
            for i in range(m):
                if d[i] != 0.0:
                    length += d[i] * d[i]
                    x[first + i] += d[i]
                    U[n] += d[i] * sums[first + i] / mass
                    j = columns[first + i]
                    for e in range(at[j], at[j + 1]):
                        U[rows[e]] -= d[i] * w[rows[e]] * data[e]
            largest = max(largest, top * np.sqrt(length))
        done += 1
        if done < past_x.shape[0]:
            copy_blocks(x, starts, order, past_x[done])
            copy(U, past_U[done])
    return done, largest
