"""Cyclic descent over the rows of a coefficient matrix with T outputs.

The row x_j of T numbers meets all outputs through one column a_j of X. Where weights differ by
output the Hessian of a row is diagonal; where outputs are classes, a diagonal above it is used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.kernels.group import diagonal_solve
from cyclade.linear.kernels.jit import compiled, inner, reductions
from cyclade.linear.kernels.linalg import dot
from cyclade.linear.kernels.shipped import prox


class Outputs(NamedTuple):
    """Columns of X for outputs with weights W of their own, or for classes; see `OutputPanel`."""

    X: Any  # a `StoredX`
    W: Any  # (T, n) for dense columns, else (n, T)
    P: Any  # probabilities of classes (n, T), or no columns
    inverse: Any  # of Σ_i (diag(w_i) − w_i p_iᵀ), made regular; empty without intercepts
    D: Any  # a diagonal above the Hessian of each row of x
    sums: Any  # Σ_i w_it a_ij where an intercept is profiled out, else zeros
    means: Any  # these over Σ_i w_it


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
def row_dots(X: Any, sums: Any, j: int, U: Any, c: Any) -> None:
    """c_t = a_j · U_t, for U by outputs (dense) or by rows of X with a shift at the end."""
    if X.dense:
        for t in range(U.shape[0]):
            c[t] = dot(X.A[j], U[t], X.A.shape[1])
    else:
        n, T = U.shape[0] - 1, U.shape[1]
        for t in range(T):
            c[t] = U[n, t] * sums[j, t]
        for e in range(X.starts[j], X.starts[j + 1]):
            for t in range(T):
                c[t] += X.data[e] * U[X.rows[e], t]


@compiled
def row_subtract(outputs: Any, j: int, d: Any, U: Any) -> None:
    """U_i ← U_i − (diag(w_i) − w_i p_iᵀ) v_i with v_it = d_t (a_ij − mean_jt)."""
    X, W, P, means = outputs.X, outputs.W, outputs.P, outputs.means
    if X.dense:
        for t in range(U.shape[0]):
            if d[t] != 0.0:
                step, mean = U[0, 0] * 0 + d[t], U[0, 0] * 0 + means[j, t]
                weighted_subtract(X.A[j], W[t], mean, step, U[t])
    else:
        n, T = U.shape[0] - 1, U.shape[1]
        for t in range(T):
            U[n, t] += d[t] * means[j, t]
        for e in range(X.starts[j], X.starts[j + 1]):
            i, entry = X.rows[e], X.data[e]
            if P.shape[1] > 0:
                subtract_row(entry, W, P, i, d, U)
            else:
                for t in range(T):
                    U[i, t] -= W[i, t] * entry * d[t]


@compiled
def shift(outputs: Any, U: Any) -> float:
    """A Newton step of the intercepts, whose sum since the start is the last row of U; its size."""
    W, P, inverse = outputs.W, outputs.P, outputs.inverse
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
    outputs: Any, order: Any, U: Any, x: Any, lam: Any, parameters: Any, entrywise: bool,
    max_cycles: int, tolerance: float, past: Any,
) -> tuple[int, float]:  # fmt: skip
    """As `group.cycles` over the rows of `Outputs`; U is minus the gradient in z.

    Of dense columns U is (T, n). Of sparse ones it is (n, T) with another row: where an intercept
    is profiled out, the true U is U[:n] + U[n] W. The columns of classes are always sparse, and
    their intercepts move at the end of each cycle.
    """
    T = x.shape[1]
    c, d = np.empty(T), np.empty(T)
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for j in order:
            row_dots(outputs.X, outputs.sums, j, U, c)
            move = row_step(c, x, outputs.D, j, lam, parameters, entrywise, d)
            if move > 0.0:
                row_subtract(outputs, j, d, U)
                largest = max(largest, move)
        largest = max(largest, shift(outputs, U))
        done += 1
        if done < past[0].shape[0]:
            for j in order:
                for t in range(T):
                    past[0][done, j, t] = x[j, t]
            for i in range(U.shape[0]):
                for t in range(U.shape[1]):
                    past[1][done, i, t] = U[i, t]
    return done, largest


@compiled
def sparse_moments(X: Any, columns: Any, W: Any, sums: Any, squares: Any) -> None:
    """Σ_i w_it a_ij and Σ_i w_it a_ij² of the chosen columns, W being (n, T)."""
    for j in columns:
        for t in range(W.shape[1]):
            sums[j, t] = 0.0
            squares[j, t] = 0.0
        for e in range(X.starts[j], X.starts[j + 1]):
            for t in range(W.shape[1]):
                wa = W[X.rows[e], t] * X.data[e]
                sums[j, t] += wa
                squares[j, t] += wa * X.data[e]


@compiled
def weighted_dots(X: Any, columns: Any, U: Any, sums: Any, out: Any) -> None:
    """out_jt = a_j · U_t of the chosen columns."""
    for j in columns:
        row_dots(X, sums, j, U, out[j])
