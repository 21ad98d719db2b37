"""Cycles over groups of dense columns.

One row of A is one column of X. The residual has one entry more than A has columns: R[n] is a
shift, and the true residual is R[:n] + R[n]·1. That profiles an intercept out of columns which
were not centred; where they were, `sums` is zero and so is the shift. As the residual stays linear
in x, so do combinations of several.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.blocks.steps import block_step, copy, copy_blocks
from cyclade.linear.kernels.jit import compiled, reductions

LONG = 1536  # rows


@reductions
def dots(A: Any, rows: Any, first: int, m: int, n: int, R: Any, g: Any) -> None:
    """g_i = a_i · R for the m columns from `first`; long ones eight at a time.

    Memory is read fastest in one stream while columns are a few pages long, and in several beyond.
    """
    zero = A[0, 0] * 0
    k = 0
    while n > LONG and k + 8 <= m:
        a0, a1, a2, a3 = (
            A[rows[first + k]], A[rows[first + k + 1]], A[rows[first + k + 2]],
            A[rows[first + k + 3]],
        )  # fmt: skip
        a4, a5, a6, a7 = (
            A[rows[first + k + 4]], A[rows[first + k + 5]], A[rows[first + k + 6]],
            A[rows[first + k + 7]],
        )  # fmt: skip
        s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
        for i in range(n):
            r = R[i]
            s0 += a0[i] * r
            s1 += a1[i] * r
            s2 += a2[i] * r
            s3 += a3[i] * r
            s4 += a4[i] * r
            s5 += a5[i] * r
            s6 += a6[i] * r
            s7 += a7[i] * r
        g[k], g[k + 1], g[k + 2], g[k + 3] = s0, s1, s2, s3
        g[k + 4], g[k + 5], g[k + 6], g[k + 7] = s4, s5, s6, s7
        k += 8
    while k < m:
        a0, s0 = A[rows[first + k]], zero
        for i in range(n):
            s0 += a0[i] * R[i]
        g[k] = s0
        k += 1


@reductions
def subtract(A: Any, rows: Any, first: int, m: int, n: int, d: Any, R: Any) -> None:
    """R ← R − Σ_i d_i a_i for the m columns from `first`, four at a time."""
    k = 0
    while k + 4 <= m:
        a0, a1 = A[rows[first + k]], A[rows[first + k + 1]]
        a2, a3 = A[rows[first + k + 2]], A[rows[first + k + 3]]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for i in range(n):
            R[i] -= (a0[i] * d0 + a1[i] * d1) + (a2[i] * d2 + a3[i] * d3)
        k += 4
    while k < m:
        a0, d0 = A[rows[first + k]], d[k]
        for i in range(n):
            R[i] -= a0[i] * d0
        k += 1


@reductions
def products(
    A: Any, rows: Any, starts: Any, blocks: Any, n: int, R: Any, sums: Any, out: Any
) -> None:
    """out_e = a_e · (R + shift) for every column e of the blocks."""
    for k in blocks:
        first, m = starts[k], starts[k + 1] - starts[k]
        dots(A, rows, first, m, n, R, out[first : first + m])
        for e in range(first, first + m):
            out[e] += R[n] * sums[e]


@reductions
def half_square(R: Any) -> float:
    """½‖R + shift‖²."""
    n, s = R.shape[0] - 1, 0.0
    for i in range(n):
        r = float(R[i]) + float(R[n])
        s += r * r
    return 0.5 * s


@reductions
def column_sums(A: Any, rows: Any, starts: Any, blocks: Any, out: Any) -> None:
    """out_e = Σ_i a_ie for every column e of the blocks."""
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            a, s = A[rows[e]], A[0, 0] * 0
            for i in range(A.shape[1]):
                s += a[i]
            out[e] = s


@reductions
def grams(A: Any, rows: Any, starts: Any, blocks: Any, sums: Any, H: Any, q0: Any) -> None:
    """H_k = A_k A_kᵀ (less its centre) for the blocks, row by row."""
    n, zero = A.shape[1], A[0, 0] * 0
    for k in blocks:
        first, m = starts[k], starts[k + 1] - starts[k]
        if q0[k + 1] == q0[k]:  # too large a group for a Hessian of its own
            continue
        for i in range(m):
            a, j = A[rows[first + i]], i
            while j < m:
                # Two products at a time; the last may be made twice.
                after = min(j + 1, m - 1)
                b0, b1 = A[rows[first + j]], A[rows[first + after]]
                s0, s1 = zero, zero
                for e in range(n):
                    s0 += a[e] * b0[e]
                    s1 += a[e] * b1[e]
                H[q0[k] + i * m + j], H[q0[k] + i * m + after] = s0, s1
                j += 2
        for i in range(m):
            for j in range(i, m):
                h = H[q0[k] + i * m + j] - sums[first + i] * sums[first + j] / n
                H[q0[k] + i * m + j] = h
                H[q0[k] + j * m + i] = h


@compiled
def cycles(
    A: Any, R: Any, x: Any, rows: Any, starts: Any, sums: Any, order: Any, Q: Any, q0: Any, D: Any,
    table: Any, rotated: bool, inner: int, most: int, enough: float, past_x: Any, past_R: Any,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over the groups of `order` until no ‖δ_k‖ L_k exceeds `enough`; cycles, last move.

    Q, q0 and D are the Hessians of the groups (see `block_step`). The point after each cycle is
    written to the next row of the past.
    """
    n = R.shape[0] - 1
    widest = 1
    for k in order:
        widest = max(widest, starts[k + 1] - starts[k])
    g, c, now, d = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    step = np.empty(widest, A.dtype)
    done, largest = 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for k in order:
            first, m = starts[k], starts[k + 1] - starts[k]
            dots(A, rows, first, m, n, R, g)
            top = 0.0
            for i in range(m):
                g[i] += R[n] * sums[first + i]
                top = max(top, D[first + i])
            if top <= 0.0:  # flat: nothing but the penalty has a say
                for i in range(m):
                    x[first + i] = 0.0 if table[k, 0] + table[k, 1] > 0.0 else x[first + i]
                continue
            block_step(
                g, x, first, Q, q0[k], q0[k + 1], D, m, table[k, 0], table[k, 1], top, rotated,
                inner, c, now, d,
            )  # fmt: skip
            length, shift = 0.0, 0.0
            for i in range(m):
                length += d[i] * d[i]
                shift += d[i] * sums[first + i]
                x[first + i] += d[i]
                step[i] = d[i]
            if length > 0.0:
                subtract(A, rows, first, m, n, step, R)
                R[n] += shift / n
                largest = max(largest, top * np.sqrt(length))
        done += 1
        if done < past_x.shape[0]:
            copy_blocks(x, starts, order, past_x[done])
            copy(R, past_R[done])
    return done, largest
