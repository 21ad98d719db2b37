"""Derivatives of smooth convex losses in z, with an exponential made of vector instructions.

The compiler knows none: a loop that calls the one of the C library takes five times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, inner, reductions

LOGISTIC, POISSON, GAMMA = 0, 1, 2

LOG2_E = 1.4426950408889634
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is log 2
TO_INTEGER = 6755399441055744.0  # 1.5 · 2^52: what is added to it is rounded to an integer
LARGEST = 708.0  # e^t is a normal number for |t| up to this
SHIFTS = 40  # steps and halvings of an intercept
BALANCED = 1e-15  # of Σ|s φ'|: a smaller |Σ s φ'| is rounding
ROUNDED = 1e-13  # the same where a step does not make it smaller


@compiled
def exponentials(t: Any, out: Any, room: Any) -> None:
    """out = e^t with t cut off at ±708, to two units in the last place.

    With t = k log 2 + r and |r| ≤ ½ log 2, e^t = 2^k e^r; k is read off the last bits of a sum
    that has no room for more, and shifted to where a number has its exponent. (Sums must be made in
    this order, so this is none of the `reductions`.)
    """
    bits = room.view(np.int64)
    for i in range(t.shape[0]):
        v = min(max(t[i], -LARGEST), LARGEST)
        room[i] = v * LOG2_E + TO_INTEGER
        k = room[i] - TO_INTEGER
        r = (v - k * LOG_2_HIGH) - k * LOG_2_LOW
        e = 1 / 6227020800
        e = e * r + 1 / 479001600
        e = e * r + 1 / 39916800
        e = e * r + 1 / 3628800
        e = e * r + 1 / 362880
        e = e * r + 1 / 40320
        e = e * r + 1 / 5040
        e = e * r + 1 / 720
        e = e * r + 1 / 120
        e = e * r + 1 / 24
        e = e * r + 1 / 6
        e = e * r + 0.5
        e = e * r + 1.0
        out[i] = e * r + 1.0
    for i in range(t.shape[0]):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(t.shape[0]):
        out[i] *= room[i]


@reductions
def logistic(y: Any, s: Any, e: Any, z: Any, slopes: Any, bends: Any) -> None:
    """From e = exp(−|z|): φ' = −y/(1 + e^{yz}) and φ'' = e/(1 + e)²."""
    for i in range(z.shape[0]):
        q = 1.0 / (1.0 + e[i])
        a = e[i] * q if y[i] * z[i] >= 0.0 else q
        slopes[i] = -s[i] * y[i] * a
        bends[i] = s[i] * e[i] * q * q


@reductions
def poisson(y: Any, s: Any, e: Any, slopes: Any, bends: Any) -> None:
    """From e = exp(z): φ' = e − y and φ'' = e."""
    for i in range(e.shape[0]):
        slopes[i] = s[i] * (e[i] - y[i])
        bends[i] = s[i] * e[i]


@reductions
def gamma(y: Any, s: Any, e: Any, slopes: Any, bends: Any) -> None:
    """From e = exp(−z): φ' = 1 − ye and φ'' = ye."""
    for i in range(e.shape[0]):
        slopes[i] = s[i] * (1.0 - y[i] * e[i])
        bends[i] = s[i] * y[i] * e[i]


@inner
def derivatives(
    code: int, y: Any, s: Any, z: Any, slopes: Any, bends: Any, e: Any, room: Any
) -> None:
    """slopes = s φ'(y, z) and bends = s φ''(y, z); `e` and `room` are overwritten."""
    if code == LOGISTIC:
        for i in range(z.shape[0]):
            e[i] = -abs(z[i])
    elif code == POISSON:
        e[:] = z
    else:
        for i in range(z.shape[0]):
            e[i] = -z[i]
    exponentials(e, e, room)
    if code == LOGISTIC:
        logistic(y, s, e, z, slopes, bends)
    elif code == POISSON:
        poisson(y, s, e, slopes, bends)
    else:
        gamma(y, s, e, slopes, bends)


@compiled
def best_shift(code: int, y: Any, s: Any, z: Any) -> float:
    """The d that minimises Σ_i s_i φ(y_i, z_i + d), by Newton steps; 0 where they fail.

    A step is halved until the slope has become smaller. Where all z_i are the same, as those of a
    null model, the mean of y tells d.
    """
    n, total = z.shape[0], 0.0
    low, high, up, down, mass = spread(y, s, z)
    if low == high:
        odds = up / (down if code == LOGISTIC else mass)
        return np.log(odds) - low if 0.0 < odds < np.inf else 0.0
    at, slopes, bends = np.empty(n), np.empty(n), np.empty(n)
    e, room = np.empty(n), np.empty(n)
    slope, size, bend, d = np.inf, 0.0, 0.0, 0.0
    for _ in range(SHIFTS):
        for i in range(n):
            at[i] = z[i] + (total + d)
        derivatives(code, y, s, at, slopes, bends, e, room)
        new, new_size, new_bend = sums(slopes, bends)
        if abs(new) < abs(slope):
            slope, size, bend, total = new, new_size, new_bend, total + d
            if abs(slope) <= BALANCED * size:
                return total
            if not bend > 0.0:
                return 0.0
            d = -slope / bend
        elif abs(slope) <= ROUNDED * size:
            return total
        else:
            d *= 0.5
    return 0.0


@reductions
def spread(y: Any, s: Any, z: Any) -> tuple[float, float, float, float, float]:
    """The least and the largest z_i; Σ s_i y_i over y_i > 0, −Σ s_i y_i over y_i < 0; Σ s_i."""
    low, high, up, down, mass = z[0], z[0], 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        low, high = min(low, z[i]), max(high, z[i])
        up += s[i] * max(y[i], 0.0)
        down += s[i] * max(-y[i], 0.0)
        mass += s[i]
    return low, high, up, down, mass


@reductions
def sums(slopes: Any, bends: Any) -> tuple[float, float, float]:
    """Of the slopes, their sizes, and the bends."""
    slope, size, bend = 0.0, 0.0, 0.0
    for i in range(slopes.shape[0]):
        slope += slopes[i]
        size += abs(slopes[i])
        bend += bends[i]
    return slope, size, bend
