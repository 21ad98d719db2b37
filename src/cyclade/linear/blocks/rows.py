"""Cycles over the rows of a coefficient matrix with T outputs, dense and sparse.

The row x_j of T numbers meets all outputs through one column of X. Where every output has the same
weights the Hessian of a row is L_j I, and rows are taken eight at a time, as in
`cyclade.linear.kernels.dense`; where weights differ by output (multinomial) it is diagonal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.blocks.steps import copy_matrix, diagonal_solve
from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.shipped import prox

WIDTH = 8
TILE = 512  # entries of eight columns that stay in the first cache


@reductions
def dots(A: Any, order: Any, b: int, R: Any, g: Any) -> None:
    """g_{kt} = a_k · R_t for the eight columns at b of `order` and every output t."""
    zero = A[0, 0] * 0
    n, T = A.shape[1], R.shape[0]
    for k in range(WIDTH):
        for t in range(T):
            g[k, t] = 0.0
    for first in range(0, n, TILE):
        last = min(first + TILE, n)
        for k in range(0, WIDTH, 4):
            # Views from zero on: an index that might be negative would not become vector code.
            a0, a1 = A[order[b + k], first:last], A[order[b + k + 1], first:last]
            a2, a3 = A[order[b + k + 2], first:last], A[order[b + k + 3], first:last]
            t = 0
            while t < T:
                # Two outputs at a time; the last may be made twice.
                after = min(t + 1, T - 1)
                r, q = R[t, first:last], R[after, first:last]
                s0, s1, s2, s3 = zero, zero, zero, zero
                p0, p1, p2, p3 = zero, zero, zero, zero
                for i in range(r.shape[0]):
                    s0 += a0[i] * r[i]
                    s1 += a1[i] * r[i]
                    s2 += a2[i] * r[i]
                    s3 += a3[i] * r[i]
                    p0 += a0[i] * q[i]
                    p1 += a1[i] * q[i]
                    p2 += a2[i] * q[i]
                    p3 += a3[i] * q[i]
                g[k, t] += s0
                g[k + 1, t] += s1
                g[k + 2, t] += s2
                g[k + 3, t] += s3
                if after > t:
                    g[k, after] += p0
                    g[k + 1, after] += p1
                    g[k + 2, after] += p2
                    g[k + 3, after] += p3
                t += 2


@reductions
def subtract(A: Any, order: Any, b: int, d: Any, R: Any) -> None:
    """R_t ← R_t − Σ_k d_{kt} a_k for the eight columns at b of `order`."""
    n, T = A.shape[1], R.shape[0]
    for first in range(0, n, TILE):
        last = min(first + TILE, n)
        a0, a1 = A[order[b], first:last], A[order[b + 1], first:last]
        a2, a3 = A[order[b + 2], first:last], A[order[b + 3], first:last]
        a4, a5 = A[order[b + 4], first:last], A[order[b + 5], first:last]
        a6, a7 = A[order[b + 6], first:last], A[order[b + 7], first:last]
        for t in range(T):
            r = R[t, first:last]
            d0, d1, d2, d3 = d[0, t], d[1, t], d[2, t], d[3, t]
            d4, d5, d6, d7 = d[4, t], d[5, t], d[6, t], d[7, t]
            for i in range(r.shape[0]):
                r[i] -= (
                    (a0[i] * d0 + a1[i] * d1)
                    + (a2[i] * d2 + a3[i] * d3)
                    + (a4[i] * d4 + a5[i] * d5)
                    + (a6[i] * d6 + a7[i] * d7)
                )


@reductions
def squares(A: Any, lines: Any, blocks: Any, sums: Any, L: Any) -> None:
    """L_j = ‖a_j‖² (less its centre), zero where that is only rounding."""
    n = A.shape[1]
    for j in blocks:
        a, s = A[lines[j]], A[0, 0] * 0
        for i in range(n):
            s += a[i] * a[i]
        centre = sums[j] * sums[j] / n
        L[j] = s - centre if s - centre > 1e-13 * s else 0.0


@reductions
def grams(A: Any, lines: Any, cols: Any, sums: Any, G: Any) -> None:
    """G_b = the products of each eight columns (less their centre), above the diagonal."""
    n = A.shape[1]
    for b in range(G.shape[0]):
        for k in range(WIDTH):
            a = A[lines[WIDTH * b + k]]
            for h in range(k + 1, WIDTH):
                c, s = A[lines[WIDTH * b + h]], A[0, 0] * 0
                for i in range(n):
                    s += a[i] * c[i]
                G[b, k, h] = s - sums[cols[WIDTH * b + k]] * sums[cols[WIDTH * b + h]] / n


@compiled
def shared_cycles(
    A: Any, R: Any, x: Any, L: Any, sums: Any, lines: Any, cols: Any, count: int, G: Any,
    lam: Any, most: int, enough: float, past_x: Any, past_R: Any,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over `count` rows, eight at a time, until no ‖δ_j‖ L_j exceeds `enough`.

    `cols` are rows of x and `lines` their rows of A, both padded to a multiple of eight; G holds
    the products of the columns of each eight. The last entry of R_t is a shift (see `dense`).
    """
    T, n = R.shape[0], A.shape[1]
    g, d = np.empty((WIDTH, T)), np.zeros((WIDTH, T), A.dtype)
    done, largest = 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for b in range(G.shape[0]):
            dots(A, lines, WIDTH * b, R, g)
            moved = False
            for k in range(WIDTH):
                j = cols[WIDTH * b + k]
                for t in range(T):
                    d[k, t] = 0
                if WIDTH * b + k >= count:
                    continue
                if L[j] <= 0.0:  # flat: nothing but the penalty has a say
                    for t in range(T):
                        x[j, t] = 0.0 if lam[j] > 0.0 else x[j, t]
                    continue
                square = 0.0
                for t in range(T):
                    g[k, t] = x[j, t] + (g[k, t] + R[t, n] * sums[j]) / L[j]
                    square += g[k, t] * g[k, t]
                size = math.sqrt(square)
                shrink = 1.0 - lam[j] / (L[j] * size) if size * L[j] > lam[j] else 0.0
                length = 0.0
                for t in range(T):
                    d[k, t] = shrink * g[k, t] - x[j, t]
                    length += d[k, t] * d[k, t]
                if length > 0.0:
                    moved = True
                    largest = max(largest, L[j] * math.sqrt(length))
                    for t in range(T):
                        x[j, t] = 0.0 if shrink == 0.0 else x[j, t] + d[k, t]
                        for h in range(k + 1, WIDTH):
                            g[h, t] -= G[b, k, h] * d[k, t]
            if moved:
                subtract(A, lines, WIDTH * b, d, R)
                for k in range(WIDTH):
                    share = sums[cols[WIDTH * b + k]] / n
                    for t in range(T):
                        R[t, n] += d[k, t] * share
        done += 1
        if done < past_x.shape[0]:
            copy_matrix(x, past_x[done])
            copy_matrix(R, past_R[done])
    return done, largest


@reductions
def weighted_dot(a: Any, u: Any) -> float:
    """a · u."""
    s = a[0] * 0
    for i in range(a.shape[0]):
        s += a[i] * u[i]
    return s  # type: ignore[no-any-return]


@reductions
def weighted_subtract(a: Any, w: Any, mean: float, d: float, u: Any) -> None:
    """u ← u − d w (a − mean)."""
    for i in range(a.shape[0]):
        u[i] -= d * w[i] * (a[i] - mean)


@compiled
def row_solve(
    c: Any, x: Any, D: Any, j: int, lam: Any, parameters: Any, entrywise: bool, size: float
) -> None:
    """c ← the minimiser over row j, where c = g + D x: by its norm, or entry by entry."""
    if entrywise:
        for t in range(c.shape[0]):
            if D[j, t] > 0.0:
                c[t] = prox(parameters, c[t] / D[j, t], 1.0 / D[j, t], j)
            else:
                c[t] = x[j, t]
    else:
        diagonal_solve(c, x[j], D[j], 0, c.shape[0], lam[j], size)


@compiled
def weighted_cycles(
    A: Any, lines: Any, W: Any, U: Any, x: Any, D: Any, means: Any, order: Any, lam: Any,
    parameters: Any, entrywise: bool, most: int, enough: float, past_x: Any, past_U: Any,
) -> tuple[int, float]:  # fmt: skip
    """As `shared_cycles` with weights W (T, n) that differ by output; U = W (t − z), D (p, T)."""
    T = U.shape[0]
    c = np.empty(T)
    done, largest = 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for j in order:
            top, square = 0.0, 0.0
            for t in range(T):
                c[t] = weighted_dot(A[lines[j]], U[t]) + D[j, t] * x[j, t]
                top = max(top, D[j, t])
                square += x[j, t] * x[j, t]
            if top <= 0.0:  # flat: nothing but the penalty has a say
                for t in range(T):
                    x[j, t] = 0.0 if lam[j] > 0.0 else x[j, t]
                continue
            row_solve(c, x, D, j, lam, parameters, entrywise, math.sqrt(square))
            length = 0.0
            for t in range(T):
                d = c[t] - x[j, t]
                if d != 0.0:
                    length += d * d
                    x[j, t] = c[t]
                    step, mean = A[0, 0] * 0 + d, A[0, 0] * 0 + means[j, t]
                    weighted_subtract(A[lines[j]], W[t], mean, step, U[t])
            largest = max(largest, top * math.sqrt(length))
        done += 1
        if done < past_x.shape[0]:
            copy_matrix(x, past_x[done])
            copy_matrix(U, past_U[done])
    return done, largest


@compiled
def sparse_moments(
    data: Any, rows: Any, at: Any, columns: Any, W: Any, sums: Any, squares: Any
) -> None:
    """Σ_i w_it a_ij and Σ_i w_it a_ij² of the chosen columns, W being (n, T)."""
    for j in columns:
        for t in range(W.shape[1]):
            sums[j, t] = 0.0
            squares[j, t] = 0.0
        for e in range(at[j], at[j + 1]):
            for t in range(W.shape[1]):
                wa = W[rows[e], t] * data[e]
                sums[j, t] += wa
                squares[j, t] += wa * data[e]


@compiled
def sparse_products(
    data: Any, rows: Any, at: Any, columns: Any, U: Any, sums: Any, out: Any
) -> None:
    """out_jt = a_j · (U_t + shift_t W_t) of the chosen columns; the last row of U is the shift."""
    n, T = U.shape[0] - 1, U.shape[1]
    for j in columns:
        for t in range(T):
            out[j, t] = U[n, t] * sums[j, t]
        for e in range(at[j], at[j + 1]):
            for t in range(T):
                out[j, t] += data[e] * U[rows[e], t]


@compiled
def sparse_cycles(
    data: Any, rows: Any, at: Any, W: Any, U: Any, x: Any, D: Any, sums: Any, means: Any,
    order: Any, lam: Any, parameters: Any, entrywise: bool, most: int, enough: float, past_x: Any,
    past_U: Any,
) -> tuple[int, float]:  # fmt: skip
    """As `weighted_cycles` on sparse columns, W (n, T) and U (n + 1, T); the last row is a shift.

    `sums` holds Σ_i w_it a_ij where an intercept is profiled out and `means` these over Σ_i w_it;
    without an intercept both are zero.
    """
    n, T = U.shape[0] - 1, U.shape[1]
    c, d = np.empty(T), np.empty(T)
    done, largest = 0, np.inf
    while done < most and largest > enough:
        largest = 0.0
        for j in order:
            top, square = 0.0, 0.0
            for t in range(T):
                c[t] = U[n, t] * sums[j, t] + D[j, t] * x[j, t]
                top = max(top, D[j, t])
                square += x[j, t] * x[j, t]
            if top <= 0.0:  # flat: nothing but the penalty has a say
                for t in range(T):
                    x[j, t] = 0.0 if lam[j] > 0.0 else x[j, t]
                continue
            for e in range(at[j], at[j + 1]):
                for t in range(T):
                    c[t] += data[e] * U[rows[e], t]
            row_solve(c, x, D, j, lam, parameters, entrywise, math.sqrt(square))
            length = 0.0
            for t in range(T):
                d[t] = c[t] - x[j, t]
                length += d[t] * d[t]
                x[j, t] = c[t]
                U[n, t] += d[t] * means[j, t]
            if length > 0.0:
                for e in range(at[j], at[j + 1]):
                    for t in range(T):
                        U[rows[e], t] -= W[rows[e], t] * data[e] * d[t]
                largest = max(largest, top * math.sqrt(length))
        done += 1
        if done < past_x.shape[0]:
            copy_matrix(x, past_x[done])
            copy_matrix(U, past_U[done])
    return done, largest
