"""The two scalar equations behind the proxes without a closed form, solved to rounding."""

from __future__ import annotations

import math

from array_api_compat import array_namespace

from cyclade._arrays import Array, rounding_unit

_NEWTON_STEPS = 200


def piecewise_linear_root(constant: float, slope: float, knots: Array, weights: Array) -> float:
    """Return the root of φ(c) = constant + slope c - sum_i weights_i max(knots_i - c, 0).

    Weights are positive and slope >= 0, so φ increases; knots and weights are vectors. After
    sorting the knots downwards, prefix sums give φ at every knot; the sign of φ there tells which
    terms are active at the root, and on that piece φ is linear. Needs a root to exist: slope > 0,
    or slope = 0 < constant and at least one knot.
    """
    xp = array_namespace(knots)
    active = 0
    weight_sum = moment_sum = 0.0
    if knots.shape[0]:
        order = xp.argsort(knots, descending=True)
        sorted_knots = xp.take(knots, order)
        sorted_weights = xp.take(weights, order)
        weight_sums = xp.cumulative_sum(sorted_weights)
        moment_sums = xp.cumulative_sum(sorted_weights * sorted_knots)
        at_knots = constant + slope * sorted_knots - (moment_sums - weight_sums * sorted_knots)
        active = int((at_knots > 0).sum())
        if slope == 0:
            active = max(active, 1)  # φ(max knot) = constant > 0, whatever rounding says
        if active:
            weight_sum = float(weight_sums[active - 1])
            moment_sum = float(moment_sums[active - 1])
    root = (moment_sum - constant) / (slope + weight_sum)
    if active:
        # One Newton step from here removes what the prefix sums lost to rounding.
        excess = (sorted_knots[:active] - root).clip(0.0, None)
        value = constant + slope * root - float((sorted_weights[:active] * excess).sum())
        root -= value / (slope + weight_sum)
    return root


def secular_root(a: Array, b: Array, c: Array) -> Array:
    """Return, for each row, the root x >= 0 of h(x) = sum_i a_i^2 / (b_i + c_i x)^2 = 1.

    All arguments are (rows, size) in double precision with b >= 0 and c > 0; the result is
    (rows, 1), and 0 where h(0) < 1. In the form 1/sqrt(h(x)) = 1 the equation is concave and
    increasing, so Newton from the left increases to the root; a bracket guards against rounding.
    No term can exceed 1 at the root, hence x >= max_i (|a_i| - b_i)/c_i, from where Newton starts;
    and x <= sqrt(sum_i (a_i/c_i)^2).
    """
    xp = array_namespace(a)
    low = xp.max((abs(a) - b) / c, axis=1, keepdims=True).clip(0.0, None)
    high = xp.maximum(row_norms(a / c), low)
    tolerance = 2.0 * rounding_unit(a)
    x = low
    for _ in range(_NEWTON_STEPS):
        denominators = b + c * x
        terms = (a / denominators) ** 2
        h = xp.sum(terms, axis=1, keepdims=True)
        half_slope = xp.sum(terms * c / denominators, axis=1, keepdims=True)
        step = h * (xp.sqrt(h) - 1.0) / half_slope
        low = xp.where(step >= 0, x, low)
        high = xp.where(step <= 0, x, high)
        candidate = x + step
        outside = (candidate < low) | (candidate > high)
        candidate = xp.where(outside, 0.5 * (low + high), candidate)
        if bool((abs(candidate - x) <= tolerance * candidate).all()):
            return candidate
        x = candidate
    return x


def row_norms(u: Array) -> Array:
    """Return the l2 norm of every row of a matrix as a column, safe from overflow and underflow."""
    xp = array_namespace(u)
    peak = xp.max(abs(u), axis=1, keepdims=True)
    scale = xp.where(peak > 0, peak, xp.ones_like(peak))
    return peak * xp.sqrt(xp.sum((u / scale) ** 2, axis=1, keepdims=True))


def block_norm(u: Array) -> float:
    """Return the l2 norm of a whole block, safe from overflow and underflow."""
    peak = float(abs(u).max())
    return peak * math.sqrt(float(((u / peak) ** 2).sum())) if peak > 0 else peak
