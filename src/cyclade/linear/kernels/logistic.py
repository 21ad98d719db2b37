"""Passes over the rows for the logistic loss, with e = exp(−|z|) and log(1 + e) at hand.

NumPy's exponential and logarithm are vector instructions, which compiled loops here would not get;
the rest is arithmetic, which compiled loops do in one pass.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import reductions


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


@reductions
def remainder(u: Any, shrink: float, out: Any) -> None:
    """out = 1 − shrink |u|."""
    for i in range(u.shape[0]):
        out[i] = 1.0 - shrink * abs(u[i])


@reductions
def triple(a: Any, b: Any, c: Any) -> float:
    """Σ_i a_i b_i c_i."""
    out = 0.0
    for i in range(a.shape[0]):
        out += a[i] * b[i] * c[i]
    return out


@reductions
def curvature(e: Any, out: Any) -> None:
    """φ'' = e / (1 + e)²."""
    for i in range(e.shape[0]):
        q = 1.0 / (1.0 + e[i])
        out[i] = e[i] * q * q
