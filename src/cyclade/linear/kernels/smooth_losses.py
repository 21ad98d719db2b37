"""Smooth convex losses: derivatives in z, values and conjugates."""

from __future__ import annotations

import math
from typing import Any

from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.numerics import TINY

LOGISTIC, POISSON, GAMMA = 0, 1, 2
LARGEST = 708.0  # e^t is a normal number for |t| up to this


@compiled
def exponential(t: float) -> float:
    """e^t with t cut off at ±708."""
    return math.exp(min(max(t, -LARGEST), LARGEST))


@compiled
def logarithm(t: float) -> float:
    """log t for t ≥ 0; log 0 is about −708."""
    return math.log(max(t, TINY))


@inner
def derivatives(code: int, y: Any, s: Any, z: Any, slopes: Any, bends: Any) -> None:
    """slopes = s φ'(y, z) and bends = s φ''(y, z)."""
    for i in range(z.shape[0]):
        bends[i] = exponential(
            -abs(z[i]) if code == LOGISTIC else z[i] if code == POISSON else -z[i]
        )
    for i in range(z.shape[0]):
        e = bends[i]
        if code == LOGISTIC:  # φ' = −y/(1 + e^{yz}) and φ'' = e/(1 + e)² with e = e^{−|z|}
            q = s[i] / (1.0 + e)
            slopes[i] = -y[i] * q * (e if y[i] * z[i] >= 0.0 else 1.0)
            bends[i] = e * q / (1.0 + e)
        elif code == POISSON:
            slopes[i], bends[i] = s[i] * (e - y[i]), s[i] * e
        else:
            slopes[i], bends[i] = s[i] * (1.0 - y[i] * e), s[i] * y[i] * e


@inner
def loss(code: int, y: Any, s: Any, z: Any) -> float:
    """Σ_i s_i φ(y_i, z_i)."""
    out = 0.0
    for i in range(z.shape[0]):
        if code == LOGISTIC:
            value = math.log1p(exponential(-abs(z[i]))) - min(y[i] * z[i], 0.0)
        elif code == POISSON:
            value = exponential(z[i]) - y[i] * z[i] + y[i] * logarithm(y[i]) - y[i]
        else:
            value = y[i] * exponential(-z[i]) + z[i] - logarithm(y[i]) - 1.0
        out += s[i] * value
    return out


@inner
def loss_conjugate(code: int, y: Any, s: Any, slopes: Any, shrink: float) -> float:
    """Σ_i s_i φ*(y_i, θ_i) at θ = shrink · slopes / s."""
    out = 0.0
    for i in range(y.shape[0]):
        theta = shrink * slopes[i] / max(s[i], TINY)
        if code == LOGISTIC:
            a = abs(theta)
            more = (1.0 - a) * logarithm(1.0 - a)
        elif code == POISSON:
            a = theta + y[i]
            more = y[i] - a - y[i] * logarithm(y[i])
        else:
            a = 1.0 - theta
            more = (1.0 - a) * (1.0 + logarithm(y[i]))
        if a < 0.0 or (code == LOGISTIC and a > 1.0):
            return math.inf
        out += s[i] * (a * logarithm(a) + more)
    return out
