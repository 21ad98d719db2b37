"""Passes over the rows for the logistic loss, with e = exp(−|z|) and log(1 + e) at hand.

NumPy's exponential and logarithm are vector instructions, which compiled loops here would not get;
the rest is arithmetic, which compiled loops do in one pass.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import reductions


@reductions
def passage(y: Any, z: Any, e: Any, log: Any, s: Any, u: Any, slopes: Any) -> float:
    """u = −y / (1 + e^{yz}), slopes = s u, and Σ_i s_i (log_i − min(y_i z_i, 0))."""
    out = 0.0
    for i in range(z.shape[0]):
        q, m = 1.0 / (1.0 + e[i]), y[i] * z[i]
        u[i] = -y[i] * (e[i] * q if m >= 0.0 else q)
        slopes[i] = s[i] * u[i]
        out += s[i] * (log[i] - min(m, 0.0))
    return out


@reductions
def curvature(e: Any, out: Any) -> None:
    """φ'' = e / (1 + e)²."""
    for i in range(e.shape[0]):
        q = 1.0 / (1.0 + e[i])
        out[i] = e[i] * q * q
