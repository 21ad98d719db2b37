"""Passes over the rows: squared, logistic and Poisson losses at z; mean curvatures of any loss.

Of the logistic loss e = exp(−|z|) and log(1 + e) come from NumPy, whose functions are vector
instructions; what is left is arithmetic, which a compiled loop does in one pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, reductions


@reductions
def level(y: Any, z: Any, s: Any, c: float) -> float:
    """z ← z + c with the best c for weights of sum one, from one that is near; c."""
    d = 0.0
    for i in range(z.shape[0]):
        d -= s[i] * (z[i] + c - y[i])
    c += d
    for i in range(z.shape[0]):
        z[i] += c
    return c


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


@reductions
def counts(y: Any, z: Any, e: Any, s: Any, u: Any, slopes: Any) -> float:
    """Of the Poisson loss, from e = exp(z): u = e − y and su, and Σ s_i (e_i − y_i z_i)."""
    value = 0.0
    for i in range(z.shape[0]):
        u[i] = e[i] - y[i]
        slopes[i] = s[i] * u[i]
        value += s[i] * (e[i] - y[i] * z[i])
    return value


@reductions
def sides(y: Any, z: Any, e: Any, log: Any, s: Any, a: Any, mass: Any, entropy: Any) -> float:
    """As `passage`: a = |u|, Σ s φ, and for the labels −1 and 1 apart Σ s a and Σ s a log(a)."""
    value, up, down, high, low = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        q, m = 1.0 / (1.0 + e[i]), y[i] * z[i]
        a[i] = e[i] * q if m >= 0.0 else q
        value += s[i] * (log[i] - min(m, 0.0))
        own, entropic = s[i] * a[i], -s[i] * a[i] * (log[i] + max(m, 0.0))
        up += own if y[i] > 0.0 else 0.0
        down += own if y[i] < 0.0 else 0.0
        high += entropic if y[i] > 0.0 else 0.0
        low += entropic if y[i] < 0.0 else 0.0
    mass[0], mass[1], entropy[0], entropy[1] = down, up, low, high
    return value


@compiled
def passages(
    y: Any, Z: Any, E: Any, logs: Any, s: Any, balanced: bool, a: Any, slopes: Any, value: Any,
    mass: Any, entropy: Any, part: Any,
) -> None:  # fmt: skip
    """`sides` for every row of Z; and slopes = −s y a · part, which sum to zero if `balanced`.

    The heavier label is shrunk for that, by `part`; that of the other one is 1.
    """
    for k in range(Z.shape[0]):
        value[k] = sides(y, Z[k], E[k], logs[k], s, a[k], mass[k], entropy[k])
        part[k, 0], part[k, 1] = 1.0, 1.0
        if balanced and mass[k, 0] > 0.0 and mass[k, 1] > 0.0:
            heavier = 0 if mass[k, 0] > mass[k, 1] else 1
            part[k, heavier] = mass[k, 1 - heavier] / mass[k, heavier]
        for i in range(y.shape[0]):
            slopes[k, i] = -s[i] * y[i] * a[k, i] * (part[k, 1] if y[i] > 0.0 else part[k, 0])


@compiled
def remainders(y: Any, a: Any, part: Any, out: Any) -> None:
    """out = 1 − a · part, where every row of `part` holds one for each label."""
    for k in range(a.shape[0]):
        for i in range(y.shape[0]):
            out[k, i] = 1.0 - a[k, i] * (part[k, 1] if y[i] > 0.0 else part[k, 0])


@compiled
def triples(a: Any, b: Any, c: Any) -> Any:
    """`triple` for every row of b and c."""
    out = np.empty(b.shape[0])
    for k in range(b.shape[0]):
        out[k] = triple(a, b[k], c[k])
    return out


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
