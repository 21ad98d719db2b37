"""Passes over the rows: squared, logistic and multinomial losses at z.

Exponentials and logarithms come from NumPy, whose functions are vector instructions; what is left
is arithmetic, which a compiled loop does in one pass. Of the multinomial loss p_i are the class
probabilities of row i: its Hessian in z_i is diag(p_i) − p_i p_iᵀ.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled, reductions


@reductions
def residuals(y: Any, z: Any, s: Any, slopes: Any) -> tuple[float, float, float, float]:
    """su with u = z − y; Σ s_i u_i², Σ s_i u_i y_i, Σ s_i u_i and Σ s_i |u_i|."""
    squares, along, total, size = 0.0, 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        d = z[i] - y[i]
        slopes[i] = s[i] * d
        squares += s[i] * d * d
        along += s[i] * d * y[i]
        total += s[i] * d
        size += s[i] * abs(d)
    return squares, along, total, size


@reductions
def passage(
    y: Any, z: Any, e: Any, log: Any, s: Any, u: Any, slopes: Any
) -> tuple[float, float, float, float]:
    """u = −y / (1 + e^{yz}) and slopes = s u; and sums over rows, with a = |u| and m = yz.

    They are Σ s φ, Σ s a, Σ s a m and Σ s a log(a), where φ = log_i − min(m, 0) and
    log(a) = −log(1 + e^m) = −log_i − max(m, 0).
    """
    value, mass, margins, entropy = 0.0, 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        q, m = 1.0 / (1.0 + e[i]), y[i] * z[i]
        a = e[i] * q if m >= 0.0 else q
        u[i] = -y[i] * a
        slopes[i] = s[i] * u[i]
        value += s[i] * (log[i] - min(m, 0.0))
        mass += s[i] * a
        margins += s[i] * a * m
        entropy -= s[i] * a * (log[i] + max(m, 0.0))
    return value, mass, margins, entropy


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
