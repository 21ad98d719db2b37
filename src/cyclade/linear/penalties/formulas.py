"""The mathematics of the shipped scalar penalties, in plain functions of plain numbers.

`value`, `prox`, `distance`, `threshold` and `conjugate` take `parameters`, the pair (kind, table),
and a coordinate j, as the kernels call them. Nothing here needs an object or NumPy's array
functions, so the same text runs as ordinary Python in the penalty classes and, compiled
(`cyclade.linear.kernels.shipped`), inside the kernels.

A table has one row for all coordinates or one row per coordinate; its columns are, by kind,

==============  ========================================================================
``L1``          λ
``BOXED``       λ, μ, lower, upper:  λ|x| + ½μx² where lower ≤ x ≤ upper, +∞ elsewhere
``MCP``         λ, γ, positive
``SCAD``        λ, γ, positive
``LOG_SUM``     λ, ε, positive
==============  ========================================================================

`positive` is 1 where x < 0 is forbidden and 0 otherwise.
"""

from __future__ import annotations

import math
from typing import Protocol

L1 = 0
BOXED = 1
MCP = 2
SCAD = 3
LOG_SUM = 4


class Table(Protocol):
    """A float64 array of shape (1, k) or (p, k)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(1, k) or (p, k)."""

    def __getitem__(self, at: tuple[int, int], /) -> float:
        """One number."""


Parameters = tuple[int, Table]


def row_of(table: Table, j: int) -> int:
    """The row of the table that belongs to coordinate j."""
    return j if table.shape[0] > 1 else 0


def value(parameters: Parameters, x: float, j: int) -> float:
    """r_j(x)."""
    kind, table = parameters
    i = row_of(table, j)
    size, lam = abs(x), table[i, 0]
    if kind == L1:
        return lam * size
    if kind == BOXED:
        if x < table[i, 2] or x > table[i, 3]:
            return math.inf
        return lam * size + 0.5 * table[i, 1] * x * x
    if table[i, 2] > 0.0 and x < 0.0:
        return math.inf
    shape = table[i, 1]
    if kind == MCP:
        if size >= shape * lam:
            return 0.5 * shape * lam * lam
        return (lam - 0.5 * size / shape) * size
    if kind == SCAD:
        if size <= lam:
            return lam * size
        if size >= shape * lam:
            return 0.5 * lam * lam * (shape + 1.0)
        return lam * size - 0.5 * (size - lam) ** 2 / (shape - 1.0)
    return lam * math.log1p(size / shape)


def prox(parameters: Parameters, u: float, t: float, j: int) -> float:
    """A minimiser v of r_j(v) + (v − u)² / (2t); of several, the one nearest to zero.

    It is exact for every t > 0, also where the sum is not convex.
    """
    kind, table = parameters
    i = row_of(table, j)
    lam = table[i, 0]
    if kind == L1:
        return soft_threshold(u, lam * t)
    if kind == BOXED:
        # A convex function of one variable: the constrained minimiser is the clipped free one.
        v = soft_threshold(u, lam * t) / (1.0 + table[i, 1] * t)
        return min(max(v, table[i, 2]), table[i, 3])
    if table[i, 2] > 0.0 and u < 0.0:
        return 0.0
    size = abs(u)
    if kind == MCP:
        v = prox_mcp(size, t, lam, table[i, 1])
    elif kind == SCAD:
        v = prox_scad(size, t, lam, table[i, 1])
    else:
        v = prox_log_sum(size, t, lam, table[i, 1])
    return v if u >= 0.0 else -v


def distance(parameters: Parameters, x: float, g: float, j: int) -> float:
    """The distance from −g to ∂r_j(x): zero where x is stationary and g is the gradient of f."""
    kind, table = parameters
    i = row_of(table, j)
    lam = table[i, 0]
    if kind == L1:
        size = abs(g + lam) if x > 0.0 else abs(g - lam)
        return size if x != 0.0 else max(abs(g) - lam, 0.0)
    if kind == BOXED:
        lower, upper = table[i, 2], table[i, 3]
        if x < lower or x > upper:
            return math.inf
        # ∂r(x) is the interval [low, high], open to infinity at an active bound.
        low = high = table[i, 1] * x
        low += lam if x > 0.0 else -lam
        high += -lam if x < 0.0 else lam
        if x == lower:
            low = -math.inf
        if x == upper:
            high = math.inf
        return max(-g - high, low + g, 0.0)
    positive = table[i, 2] > 0.0
    if positive and x < 0.0:
        return math.inf
    at_zero = slope(kind, table, i, 0.0)
    if x == 0.0:
        return max(-g - at_zero, 0.0) if positive else max(abs(g) - at_zero, 0.0)
    return abs(g + math.copysign(slope(kind, table, i, abs(x)), x))


def threshold(parameters: Parameters, j: int) -> float:
    """The largest τ such that |g| ≤ τ keeps a zero stationary; −1 where zero is forbidden."""
    kind, table = parameters
    i = row_of(table, j)
    if kind == BOXED:
        lower, upper = table[i, 2], table[i, 3]
        if lower > 0.0 or upper < 0.0:
            return -1.0
        return math.inf if lower == upper else table[i, 0]
    return table[i, 0] / table[i, 1] if kind == LOG_SUM else table[i, 0]


def conjugate(parameters: Parameters, v: float, j: int) -> float:
    """r_j*(v) = max over x of v x − r_j(x), for the convex kinds; +inf outside its domain."""
    kind, table = parameters
    i = row_of(table, j)
    lam = table[i, 0]
    if kind == L1:
        return 0.0 if abs(v) <= lam else math.inf
    excess = soft_threshold(v, lam)
    if table[i, 1] > 0.0:
        x = excess / table[i, 1]
    else:
        x = 0.0 if excess == 0.0 else math.copysign(math.inf, excess)
    x = min(max(x, table[i, 2]), table[i, 3])
    if math.isinf(x):
        return math.inf
    return v * x - lam * abs(x) - 0.5 * table[i, 1] * x * x


def slope(kind: int, table: Table, i: int, size: float) -> float:
    """The derivative of a nonconvex r at |x| = size ≥ 0 (at zero, from the right), from row i."""
    lam, shape = table[i, 0], table[i, 1]
    if kind == MCP:
        return max(lam - size / shape, 0.0)
    if kind == SCAD:
        return lam if size <= lam else max(shape * lam - size, 0.0) / (shape - 1.0)
    return lam / (shape + size)


def soft_threshold(u: float, tau: float) -> float:
    """sign(u) max(|u| − τ, 0)."""
    if u > tau:
        return u - tau
    if u < -tau:
        return u + tau
    return 0.0


def prox_mcp(size: float, t: float, lam: float, gamma: float) -> float:
    """The MCP's prox at size ≥ 0."""
    if t >= gamma:
        # The sum is concave where the penalty bends: the choice is between zero and no shrinkage.
        return size if size > lam * math.sqrt(t * gamma) else 0.0
    if size <= lam * t:
        return 0.0
    return size if size > gamma * lam else (size - lam * t) / (1.0 - t / gamma)


def prox_scad(size: float, t: float, lam: float, gamma: float) -> float:
    """SCAD's prox at size ≥ 0."""
    shrunk = max(size - lam * t, 0.0)
    if t < gamma - 1.0:
        if size <= lam * (1.0 + t):
            return shrunk
        if size > gamma * lam:
            return size
        return ((gamma - 1.0) * size - gamma * lam * t) / (gamma - 1.0 - t)
    # The sum is concave on the bend: compare the best points of its two convex pieces.
    near = min(shrunk, lam)
    far = max(size, gamma * lam)
    at_near = lam * near + (near - size) ** 2 / (2.0 * t)
    at_far = 0.5 * lam * lam * (gamma + 1.0) + (far - size) ** 2 / (2.0 * t)
    return far if at_far < at_near else near


def prox_log_sum(size: float, t: float, lam: float, eps: float) -> float:
    """The log-sum's prox at size ≥ 0: zero, or the larger root of v² + (ε − u)v + λt − uε."""
    discriminant = (size + eps) ** 2 - 4.0 * lam * t
    if discriminant < 0.0:
        return 0.0
    root = math.sqrt(discriminant)
    if size >= eps:
        v = 0.5 * (size - eps + root)
    else:  # the same root without cancellation
        v = 2.0 * (size * eps - lam * t) / (root + eps - size)
    if v <= 0.0:
        return 0.0
    if lam * t <= eps * eps:  # then the sum is convex, and its only stationary point wins
        return v
    gain = lam * math.log1p(v / eps) + v * (v - 2.0 * size) / (2.0 * t)
    return v if gain < 0.0 else 0.0
