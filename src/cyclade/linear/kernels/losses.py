"""Passes over the rows: the squared and the logistic loss at z, and mean curvatures of any loss.

Of the logistic loss e = exp(−|z|) and log(1 + e) come from NumPy, whose functions are vector
instructions; what is left is arithmetic, which a compiled loop does in one pass.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled, reductions


@reductions
def residuals(y: Any, z: Any, s: Any, u: Any, slopes: Any) -> tuple[float, float]:
    """u = z − y and su; Σ s_i u_i² and Σ s_i u_i y_i."""
    squares, along = 0.0, 0.0
    for i in range(z.shape[0]):
        d = z[i] - y[i]
        u[i] = d
        slopes[i] = s[i] * d
        squares += s[i] * d * d
        along += s[i] * d * y[i]
    return squares, along


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


@compiled
def secants(z: Any, u: Any, z0: Any, u0: Any, second: Any, far: float, out: Any) -> None:
    """out = (u − u0) / (z − z0), the mean of φ'' between; φ'' itself where z has hardly moved."""
    for i in range(z.shape[0]):
        d = z[i] - z0[i]
        out[i] = (u[i] - u0[i]) / d if abs(d) > far else second[i]


@compiled
def stiffest(
    z: Any, u: Any, z0: Any, u0: Any, second: Any, used: Any, far: float, out: Any
) -> None:
    """out = φ'', or the mean of it since z0 if that is larger, where the mean exceeds `used`."""
    for i in range(z.shape[0]):
        d = z[i] - z0[i]
        mean = (u[i] - u0[i]) / d if abs(d) > far else second[i]
        out[i] = max(mean, second[i]) if mean > used[i] else second[i]
