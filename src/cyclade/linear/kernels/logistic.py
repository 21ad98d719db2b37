"""Passes over the rows for the logistic loss, with e = exp(−|z|) and log(1 + e) at hand.

NumPy's exponential and logarithm are vector instructions, which compiled loops here would not get;
the rest is arithmetic, which compiled loops do in one pass.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import reductions


@reductions
def derivatives(y: Any, z: Any, e: Any, u: Any, second: Any) -> None:
    """u = −y / (1 + e^{yz}) and φ'' = e / (1 + e)²."""
    for i in range(z.shape[0]):
        q = 1.0 / (1.0 + e[i])
        u[i] = -y[i] * (e[i] * q if y[i] * z[i] >= 0.0 else q)
        second[i] = e[i] * q * q


@reductions
def total(y: Any, z: Any, log: Any, s: Any) -> float:
    """Σ_i s_i (log_i − min(y_i z_i, 0))."""
    out = 0.0
    for i in range(z.shape[0]):
        out += s[i] * (log[i] - min(y[i] * z[i], 0.0))
    return out
