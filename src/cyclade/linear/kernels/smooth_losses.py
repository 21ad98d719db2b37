"""Smooth convex losses: derivatives in z, values and conjugates.

Exponentials and logarithms are made of vector instructions. The compiler knows none: a loop that
calls those of the C library takes five times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, inner, reductions
from cyclade.linear.kernels.linalg import dot
from cyclade.linear.numerics import TINY

LOGISTIC, POISSON, GAMMA = 0, 1, 2

LOG2_E = 1.4426950408889634
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is log 2
TO_INTEGER = 6755399441055744.0  # 1.5 · 2^52: what is added to it is rounded to an integer
ONE_BITS, ROOT_BITS = np.uint64(0x3FF0000000000000), np.uint64(0x3FE6A09E667F3BCD)  # of 1, √½
INTEGER_BITS, EXPONENT = np.uint64(0x4338000000000000), np.uint64(52)  # of TO_INTEGER; its place
LARGEST = 708.0  # e^t is a normal number for |t| up to this


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


@compiled
def logarithms(t: Any, out: Any, room: Any) -> None:
    """out = log t for t ≥ 0, to two units in the last place; log 0 is about −708.

    With t = 2^k m and √½ ≤ m < √2, log t = k log 2 + 2 artanh((m − 1)/(m + 1)), by the polynomial
    of fdlibm; k is where a number has its exponent. `out` and `room` hold bits at first.
    """
    n = t.shape[0]
    bits, exponents = out.view(np.uint64), room.view(np.uint64)
    for i in range(n):
        out[i] = max(t[i], TINY)
    for i in range(n):
        k = (bits[i] - ROOT_BITS + ONE_BITS) >> EXPONENT  # and 1023 more
        exponents[i] = INTEGER_BITS + k
        bits[i] = bits[i] + ONE_BITS - (k << EXPONENT)
    for i in range(n):
        k, f = (room[i] - TO_INTEGER) - 1023.0, out[i] - 1.0
        q, half = f / (2.0 + f), 0.5 * f * f
        v = q * q
        e = 1.479819860511658591e-01
        e = e * v + 1.531383769920937332e-01
        e = e * v + 1.818357216161805012e-01
        e = e * v + 2.222219843214978396e-01
        e = e * v + 2.857142874366239149e-01
        e = e * v + 3.999999999940941908e-01
        e = e * v + 6.666666666666735130e-01
        out[i] = k * LOG_2_HIGH - ((half - (q * (half + v * e) + k * LOG_2_LOW)) - f)


@reductions
def logistic(y: Any, s: Any, e: Any, z: Any, slopes: Any, bends: Any) -> None:
    """From e = exp(−|z|): φ' = −y/(1 + e^{yz}) and φ'' = e/(1 + e)²."""
    for i in range(z.shape[0]):
        a = e[i] if y[i] * z[i] >= 0.0 else 1.0
        slopes[i] = -s[i] * y[i] * a / (1.0 + e[i])
    for i in range(z.shape[0]):  # by itself: of more arrays the compiler makes no vectors
        q = 1.0 / (1.0 + e[i])
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
    for i in range(z.shape[0]):
        slopes[i] = -abs(z[i]) if code == LOGISTIC else z[i] if code == POISSON else -z[i]
    exponentials(slopes, e, room)
    if code == LOGISTIC:
        logistic(y, s, e, z, slopes, bends)
    elif code == POISSON:
        poisson(y, s, e, slopes, bends)
    else:
        gamma(y, s, e, slopes, bends)


@inner
def loss(code: int, y: Any, s: Any, z: Any, e: Any, a: Any, logs: Any, room: Any) -> float:
    """Σ_i s_i φ(y_i, z_i) from what `derivatives` left in e; the last three are overwritten."""
    for i in range(z.shape[0]):
        a[i] = 1.0 + e[i] if code == LOGISTIC else y[i]
    logarithms(a, logs, room)
    if code == LOGISTIC:  # the second term is what 1 + e was rounded by
        for i in range(z.shape[0]):
            a[i] = logs[i] + (e[i] - (a[i] - 1.0)) / a[i] - min(y[i] * z[i], 0.0)
    elif code == POISSON:
        for i in range(z.shape[0]):
            a[i] = e[i] - y[i] * z[i] + y[i] * logs[i] - y[i]
    else:
        for i in range(z.shape[0]):
            a[i] = y[i] * e[i] + z[i] - logs[i] - 1.0
    return dot(s, a, z.shape[0])


@inner
def loss_conjugate(
    code: int, y: Any, s: Any, slopes: Any, shrink: float, a: Any, logs: Any, more: Any, room: Any
) -> float:
    """Σ_i s_i φ*(y_i, θ_i) at θ = shrink · slopes / s; the last four are overwritten.

    With a = |θ|, θ + y or 1 − θ, in the order of the losses, it is made of a log a, of
    (1 − a) log(1 − a) or terms with log y, and of what is linear in θ.
    """
    n, outside = y.shape[0], 0
    for i in range(n):
        theta = shrink * slopes[i] / max(s[i], TINY)
        if code == LOGISTIC:
            a[i] = abs(theta)
        else:
            a[i] = theta + y[i] if code == POISSON else 1.0 - theta
    for i in range(n):
        more[i] = 1.0 - a[i] if code == LOGISTIC else y[i]
        outside += min(a[i], more[i]) < 0.0
    if outside > 0:
        return np.inf
    logarithms(a, logs, room)
    for i in range(n):
        logs[i] *= a[i]
    entropy = dot(s, logs, n)
    logarithms(more, logs, room)
    if code == LOGISTIC:
        for i in range(n):
            a[i] = more[i] * logs[i]
    elif code == POISSON:
        for i in range(n):
            a[i] = y[i] - a[i] - y[i] * logs[i]
    else:
        for i in range(n):
            a[i] = (1.0 - a[i]) * (1.0 + logs[i])
    return entropy + dot(s, a, n)
