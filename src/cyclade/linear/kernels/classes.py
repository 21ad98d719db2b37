"""Passes over the rows of the multinomial loss; exp and log come from NumPy, as in `losses`.

p_i are the class probabilities of row i: its Hessian in z_i is diag(p_i) − p_i p_iᵀ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.rows import copy_matrix, copy_rows, row_step


@compiled
def lowered(z: Any, out: Any) -> None:
    """out_i = z_i less its largest entry, so that no exponential overflows."""
    for i in range(z.shape[0]):
        top = z[i, 0]
        for t in range(1, z.shape[1]):
            top = max(top, z[i, t])
        for t in range(z.shape[1]):
            out[i, t] = z[i, t] - top


@compiled
def probabilities(y: Any, e: Any, s: Any, u: Any, slopes: Any, total: Any) -> None:
    """From e = exp(lowered z), which becomes p: u = p − e_y, slopes = s u, and total_i = Σ_t e_it.

    u_y is minus the sum of the others, as p_y − 1 would lose what is left where p_y is near 1.
    """
    for i in range(e.shape[0]):
        size, own, others = 0.0, int(y[i]), 0.0
        for t in range(e.shape[1]):
            size += e[i, t]
        total[i] = size
        for t in range(e.shape[1]):
            e[i, t] /= size
            u[i, t] = e[i, t]
            others += e[i, t] if t != own else 0.0
        u[i, own] = -others
        for t in range(e.shape[1]):
            slopes[i, t] = s[i] * u[i, t]


@compiled
def summed(y: Any, low: Any, log: Any, s: Any) -> float:
    """Σ s_i (log_i − low_i,y): the loss, where low = lowered z and log_i = log Σ_t e^{low_it}."""
    out = 0.0
    for i in range(low.shape[0]):
        out += s[i] * (log[i] - low[i, int(y[i])])
    return out


@compiled
def shrunk(y: Any, u: Any, shrink: float, out: Any) -> None:
    """out = shrink u + e_y: the probabilities that belong to the dual point shrink u."""
    for i in range(u.shape[0]):
        for t in range(u.shape[1]):
            out[i, t] = shrink * u[i, t]
        out[i, int(y[i])] += 1.0


@reductions
def entropies(q: Any, log: Any, s: Any) -> float:
    """Σ_i s_i Σ_t q_it log_it, over entries that are not zero."""
    out = 0.0
    for i in range(q.shape[0]):
        part = 0.0
        for t in range(q.shape[1]):
            part += q[i, t] * log[i, t] if q[i, t] > 0.0 else 0.0
        out += s[i] * part
    return out


@compiled
def pairs(p: Any, s: Any, out: Any) -> None:
    """out_(t,v),i = s_i p_it (δ_tv − p_iv): the entries of the Hessians, each for all rows."""
    T = p.shape[1]
    for i in range(p.shape[0]):
        for t in range(T):
            a = s[i] * p[i, t]
            for v in range(T):
                out[t * T + v, i] = -a * p[i, v]
            rest = 0.0  # 1 − p_it, without cancellation
            for v in range(T):
                rest += p[i, v] if v != t else 0.0
            out[t * T + t, i] = a * rest


@compiled
def bounds(p: Any, s: Any, out: Any) -> None:
    """out_i: s_i times a diagonal above diag(p_i) − p_i p_iᵀ.

    With q the largest of p_i it is p_t (1 + q), and q (1 − q²) where p_t = q. For any v,
    Σ p v² − (Σ p v)² ≤ Σ out v²: of the v with given q v_top and Σ over the others w = Σ p_t v_t
    the worst has equal v_t, and then the difference is the square of w √(1 + q/(1 − q)) + q v_top
    √(1 − q).
    """
    T = p.shape[1]
    for i in range(p.shape[0]):
        top, rest = 0, 0.0
        for t in range(1, T):
            if p[i, t] > p[i, top]:
                top = t
        for t in range(T):
            rest += p[i, t] if t != top else 0.0
        for t in range(T):
            out[i, t] = s[i] * p[i, t] * (1.0 + p[i, top])
        out[i, top] *= rest


@reductions
def column_dots(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, j: int, mean: float, U: Any, c: Any
) -> None:
    """c = Σ_i (a_ij − mean) U_i; `mean` is zero of sparse columns."""
    for t in range(c.shape[0]):
        c[t] = 0.0
    if dense:
        for i in range(A.shape[1]):
            a = A[j, i] - mean
            for t in range(c.shape[0]):
                c[t] += a * U[i, t]
    else:
        for e in range(at[j], at[j + 1]):
            a, u = data[e], U[rows[e]]
            for t in range(c.shape[0]):
                c[t] += a * u[t]


@reductions
def subtract_row(w: float, p: Any, d: Any, u: Any) -> None:
    """u ← u − w (diag(p) − ppᵀ) d."""
    along = 0.0
    for t in range(d.shape[0]):
        along += p[t] * d[t]
    for t in range(d.shape[0]):
        u[t] -= w * p[t] * (d[t] - along)


@compiled
def column_subtract(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, j: int, mean: float, s: Any, p: Any,
    d: Any, U: Any,
) -> None:  # fmt: skip
    """U_i ← U_i − s_i (a_ij − mean) (diag(p_i) − p_i p_iᵀ) d."""
    if dense:
        for i in range(A.shape[1]):
            subtract_row(s[i] * (A[j, i] - mean), p[i], d, U[i])
    else:
        for e in range(at[j], at[j + 1]):
            i = rows[e]
            subtract_row(s[i] * data[e], p[i], d, U[i])


@compiled
def shift(s: Any, p: Any, inverse: Any, U: Any) -> float:
    """A Newton step of the intercepts, whose sum since the start is the last row of U; its size.

    `inverse` is that of Σ_i s_i (diag(p_i) − p_i p_iᵀ), made regular; it is empty without them.
    """
    n, T, size = s.shape[0], U.shape[1], 0.0
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
        subtract_row(s[i], p[i], d, U[i])
    return math.sqrt(size)


@compiled
def cycles(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, means: Any, s: Any, p: Any, inverse: Any,
    U: Any, x: Any, D: Any, order: Any, lam: Any, parameters: Any, entrywise: bool, max_cycles: int,
    tolerance: float, past_x: Any, past_U: Any,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over the rows of x until no ‖δ_j‖ max D_j exceeds the tolerance; cycles, last move.

    U is minus the gradient of the model in z, and D_j a diagonal above the Hessian of row j. The
    intercepts move at the end of each cycle; then the point is written to the next row of the past.
    """
    T = x.shape[1]
    c, d = np.empty(T), np.empty(T)
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for j in order:
            column_dots(dense, A, data, rows, at, j, means[j], U, c)
            move = row_step(c, x, D, j, lam, parameters, entrywise, d)
            if move > 0.0:
                column_subtract(dense, A, data, rows, at, j, means[j], s, p, d, U)
                largest = max(largest, move)
        largest = max(largest, shift(s, p, inverse, U))
        done += 1
        if done < past_x.shape[0]:
            copy_rows(x, order, past_x[done])
            copy_matrix(U, past_U[done])
    return done, largest


@compiled
def correlations(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, means: Any, columns: Any, U: Any, out: Any
) -> None:
    """out_j = Σ_i (a_ij − mean_j) U_i of the chosen columns."""
    for j in columns:
        column_dots(dense, A, data, rows, at, j, means[j], U, out[j])
