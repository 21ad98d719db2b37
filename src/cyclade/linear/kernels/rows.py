"""Cyclic descent over the rows of a coefficient matrix with T outputs.

The row x_j of T numbers meets all outputs through one column a_j of X. Where every output has the
same weights the Hessian of a row is L_j I, and rows are taken eight at a time, as in
`cyclade.linear.kernels.dense`. Where weights differ by output it is diagonal; where outputs are
classes, a diagonal above it is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.dense import WIDTH, subtract
from cyclade.linear.kernels.group import diagonal_solve
from cyclade.linear.kernels.jit import compiled, inner, reductions
from cyclade.linear.kernels.linalg import dot
from cyclade.linear.kernels.shipped import prox

TILE = 512  # entries of each of eight columns: 32 kB in float64, what a first-level cache holds


@compiled
def copy_matrix(source: Any, target: Any) -> None:
    """target ← source; a loop compiles in a tenth of the time of an array assignment."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@compiled
def copy_rows(source: Any, rows: Any, target: Any) -> None:
    """target ← source on these rows."""
    for j in rows:
        for t in range(source.shape[1]):
            target[j, t] = source[j, t]


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


@compiled
def shared_cycles(
    A: Any, R: Any, x: Any, L: Any, cols: Any, order: Any, G: Any, lam: Any, max_cycles: int,
    tolerance: float, past_x: Any, past_R: Any,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over `order`, eight columns at a time, until no ‖δ_j‖ L_j exceeds the tolerance.

    A, L, cols, order and G are those of a dense panel: `order` is padded with a column of zeros,
    which has L = 0. R is (T, n). Returns the number of cycles and the largest move of the last;
    the point after each cycle is written to the next row of the past.
    """
    T, n = R.shape
    g, d = np.empty((WIDTH, T)), np.zeros((T, WIDTH), A.dtype)
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for b in range(G.shape[0]):
            dots(A, order, WIDTH * b, R, g)
            moved = False
            for k in range(WIDTH):
                at = order[WIDTH * b + k]
                for t in range(T):
                    d[t, k] = 0
                if L[at] <= 0.0:
                    continue
                j, square = cols[at], 0.0
                for t in range(T):
                    g[k, t] = x[j, t] + g[k, t] / L[at]
                    square += g[k, t] * g[k, t]
                size = math.sqrt(square)
                shrink = 1.0 - lam[j] / (L[at] * size) if size * L[at] > lam[j] else 0.0
                length = 0.0
                for t in range(T):
                    d[t, k] = shrink * g[k, t] - x[j, t]
                    length += d[t, k] * d[t, k]
                if length > 0.0:
                    moved = True
                    largest = max(largest, L[at] * math.sqrt(length))
                    for t in range(T):
                        x[j, t] = 0.0 if shrink == 0.0 else x[j, t] + d[t, k]
                        for h in range(k + 1, WIDTH):
                            g[h, t] -= G[b, k, h] * d[t, k]
            for first in range(0, n if moved else 0, TILE):
                for t in range(T):
                    subtract(A, R[t], order, WIDTH * b, first, min(first + TILE, n), d[t])
        done += 1
        if done < past_x.shape[0]:
            copy_matrix(x, past_x[done])
            copy_matrix(R, past_R[done])
    return done, largest


@inner
def row_step(
    c: Any, x: Any, D: Any, j: int, lam: Any, parameters: Any, entrywise: bool, d: Any
) -> float:
    """Move row j of x to the minimiser of its model; d ← by what, and ‖d‖ max_t D_jt.

    The model is ½ Σ_t D_jt v_t² − b·v + r_j(v), b = c + D_j x_j for the correlations c, which are
    overwritten; r_j is λ_j‖v‖, or a scalar penalty `entrywise`.
    """
    top, square, length = 0.0, 0.0, 0.0
    for t in range(c.shape[0]):
        c[t] += D[j, t] * x[j, t]
        top = max(top, D[j, t])
        square += x[j, t] * x[j, t]
    if top <= 0.0:  # a column of zeros: only the penalty depends on its row
        for t in range(c.shape[0]):
            x[j, t] = 0.0 if lam[j] > 0.0 else x[j, t]
        return 0.0
    if entrywise:
        for t in range(c.shape[0]):
            if D[j, t] > 0.0:
                c[t] = prox(parameters, c[t] / D[j, t], 1.0 / D[j, t], j)
            else:
                c[t] = x[j, t]
    else:
        diagonal_solve(c, x[j], D[j], 0, c.shape[0], lam[j], math.sqrt(square))
    for t in range(c.shape[0]):
        d[t] = c[t] - x[j, t]
        length += d[t] * d[t]
        x[j, t] = c[t]
    return top * math.sqrt(length)


@reductions
def weighted_subtract(a: Any, w: Any, mean: float, d: float, u: Any) -> None:
    """u ← u − d w (a − mean)."""
    for i in range(a.shape[0]):
        u[i] -= d * w[i] * (a[i] - mean)


@inner
def subtract_row(a: float, W: Any, P: Any, i: int, d: Any, U: Any) -> None:
    """U_i ← U_i − a (diag(w_i) − w_i p_iᵀ) d."""
    along = 0.0
    for t in range(P.shape[1]):
        along += P[i, t] * d[t]
    for t in range(U.shape[1]):
        U[i, t] -= W[i, t] * a * (d[t] - along)


@compiled
def row_dots(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, sums: Any, j: int, U: Any, c: Any
) -> None:
    """c_t = a_j · U_t, for U by outputs (dense) or by rows of X with a shift at the end."""
    if dense:
        for t in range(U.shape[0]):
            c[t] = dot(A[j], U[t], A.shape[1])
    else:
        n, T = U.shape[0] - 1, U.shape[1]
        for t in range(T):
            c[t] = U[n, t] * sums[j, t]
        for e in range(at[j], at[j + 1]):
            for t in range(T):
                c[t] += data[e] * U[rows[e], t]


@compiled
def row_subtract(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, W: Any, P: Any, means: Any, j: int, d: Any,
    U: Any,
) -> None:  # fmt: skip
    """U_i ← U_i − (diag(w_i) − w_i p_iᵀ) v_i with v_it = d_t (a_ij − mean_jt)."""
    if dense:
        for t in range(U.shape[0]):
            if d[t] != 0.0:
                step, mean = U[0, 0] * 0 + d[t], U[0, 0] * 0 + means[j, t]
                weighted_subtract(A[j], W[t], mean, step, U[t])
    else:
        n, T = U.shape[0] - 1, U.shape[1]
        for t in range(T):
            U[n, t] += d[t] * means[j, t]
        for e in range(at[j], at[j + 1]):
            if P.shape[1] > 0:
                subtract_row(data[e], W, P, rows[e], d, U)
            else:
                for t in range(T):
                    U[rows[e], t] -= W[rows[e], t] * data[e] * d[t]


@compiled
def shift(W: Any, P: Any, inverse: Any, U: Any) -> float:
    """A Newton step of the intercepts, whose sum since the start is the last row of U; its size.

    `inverse` is that of Σ_i (diag(w_i) − w_i p_iᵀ), made regular; it is empty without them.
    """
    n, T, size = W.shape[0], U.shape[1], 0.0
    if inverse.shape[0] == 0:
        return size
    g, d = np.zeros(T), np.zeros(T)
    for i in range(n):
        for t in range(T):
            g[t] += U[i, t]
    for t in range(T):
        for v in range(T):
            d[t] += inverse[t, v] * g[v]
        U[n, t] += d[t]
        size += g[t] * g[t]
    for i in range(n):
        subtract_row(1.0, W, P, i, d, U)
    return math.sqrt(size)


@compiled
def weighted_cycles(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, W: Any, P: Any, inverse: Any, U: Any,
    x: Any, D: Any, sums: Any, means: Any, order: Any, lam: Any, parameters: Any, entrywise: bool,
    max_cycles: int, tolerance: float, past_x: Any, past_U: Any,
) -> tuple[int, float]:  # fmt: skip
    """As `shared_cycles` with weights W that differ by output; U is minus the gradient in z.

    Of dense columns W and U are (T, n). Of sparse ones they are (n, T), and U has another row:
    where an intercept is profiled out, the true U is U[:n] + U[n] W, `sums` holds Σ_i w_it a_ij
    and `means` these over Σ_i w_it. Without, both are zero.

    Classes meet in the Hessian of row i, diag(w_i) − w_i p_iᵀ; their columns are always sparse. D_j
    is a diagonal above the Hessian of row j of x, and intercepts move at the end of each cycle.
    """
    T = x.shape[1]
    c, d = np.empty(T), np.empty(T)
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for j in order:
            row_dots(dense, A, data, rows, at, sums, j, U, c)
            move = row_step(c, x, D, j, lam, parameters, entrywise, d)
            if move > 0.0:
                row_subtract(dense, A, data, rows, at, W, P, means, j, d, U)
                largest = max(largest, move)
        largest = max(largest, shift(W, P, inverse, U))
        done += 1
        if done < past_x.shape[0]:
            copy_rows(x, order, past_x[done])
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
def weighted_dots(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, columns: Any, U: Any, sums: Any, out: Any
) -> None:
    """out_jt = a_j · U_t of the chosen columns."""
    for j in columns:
        row_dots(dense, A, data, rows, at, sums, j, U, out[j])
