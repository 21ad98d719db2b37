"""Loops over coordinates, once per check: sums and distances of a penalty, and who may move.

`zero_threshold` holds, for each coordinate, the largest |g| at which a zero surely stays zero.
Zero coordinates below it, which are most of them, cost one comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.shipped import conjugate, distance, prox, threshold, value


@compiled
def total(parameters: Any, cols: Any, x: Any) -> float:
    """Σ_k r_j(x_k) over the coordinates j = cols[k]."""
    out = 0.0
    for k in range(cols.shape[0]):
        out += value(parameters, x[k], cols[k])
    return out


@compiled
def distances(parameters: Any, cols: Any, x: Any, g: Any, zero_threshold: Any, out: Any) -> None:
    """out_k = dist(−g_k, ∂r_j(x_k)) for the coordinates j = cols[k]."""
    for k in range(cols.shape[0]):
        j = cols[k]
        if x[k] == 0.0 and abs(g[k]) <= zero_threshold[j]:
            out[k] = 0.0
        else:
            out[k] = distance(parameters, x[k], g[k], j)


@compiled
def check(
    parameters: Any, x: Any, g: Any, zero_threshold: Any, zeros: bool, out: Any
) -> tuple[float, float, bool]:
    """`distances` and `total` over all coordinates, in one pass.

    Returns the largest distance, Σ_j r_j(x_j), and whether g is finite. Unless `zeros`, r_j(0) = 0
    is taken for granted.
    """
    largest, r, clean = 0.0, 0.0, 0.0
    for j in range(x.shape[0]):
        out[j] = 0.0
        clean += 0.0 * g[j]  # NaN once an entry is not finite
        if x[j] != 0.0 or abs(g[j]) > zero_threshold[j]:
            out[j] = distance(parameters, x[j], g[j], j)
            largest = max(largest, out[j])
        if zeros or x[j] != 0.0:
            r += value(parameters, x[j], j)
    return largest, r, clean == 0.0


@compiled
def project(parameters: Any, x: Any) -> None:
    """Move x to the domain of r: a prox with a vanishing step where r is infinite."""
    for j in range(x.shape[0]):
        if value(parameters, x[j], j) == np.inf:
            x[j] = prox(parameters, x[j], 1e-300, j)


@compiled
def thresholds(parameters: Any, out: Any) -> None:
    """out_j = the largest |g_j| for which x_j = 0 stays stationary."""
    for j in range(out.shape[0]):
        out[j] = threshold(parameters, j)


@compiled
def conjugates(parameters: Any, v: Any, factor: float) -> float:
    """Σ_j r_j*(factor · v_j)."""
    out = 0.0
    for j in range(v.shape[0]):
        out += conjugate(parameters, factor * v[j], j)
    return out


@compiled
def excess(v: Any, down: Any, up: Any) -> float:
    """The least factor f ≥ 0 with −f·down ≤ v ≤ f·up."""
    out = 0.0
    for j in range(v.shape[0]):
        if v[j] > out * up[j]:
            out = v[j] / up[j]
        elif -v[j] > out * down[j]:
            out = -v[j] / down[j]
    return out


@reductions
def bound_gradient(v: Any, v0: Any, g0: Any, v1: Any, g1: Any, rounding: float, out: Any) -> float:
    """out = c g0 + d g1 for the multiple c v0 + d v1 that is nearest to v, up to rounding.

    ‖v − c v0 − d v1‖ comes back, and `rounding` parts of all that was added up more. A v1 that is
    nearly a multiple of v0 counts for nothing.
    """
    on_first, on_second, first, both, second, whole = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(v.shape[0]):
        on_first += v[i] * v0[i]
        on_second += v[i] * v1[i]
        first += v0[i] * v0[i]
        both += v0[i] * v1[i]
        second += v1[i] * v1[i]
        whole += v[i] * v[i]
    c, d = on_first / first if first > 0.0 else 0.0, 0.0
    volume = first * second - both * both
    if volume > rounding * first * second:
        c = (second * on_first - both * on_second) / volume
        d = (first * on_second - both * on_first) / volume
    rest = 0.0
    for i in range(v.shape[0]):
        rest += (v[i] - c * v0[i] - d * v1[i]) ** 2
    for j in range(out.shape[0]):
        out[j] = c * g0[j] + d * g1[j]
    size = np.sqrt(whole) + abs(c) * np.sqrt(first) + abs(d) * np.sqrt(second)
    return float(np.sqrt(rest) + rounding * size + 1e-300)


@compiled
def undecided(
    g: Any, norms: Any, error: float, known: Any, x: Any, zero_threshold: Any, out: Any
) -> int:
    """Columns not known, with x_j ≠ 0 or |g_j| + error ‖a_j‖ not below τ_j; how many."""
    many = 0
    for j in range(g.shape[0]):
        still = x[j] == 0.0 and abs(g[j]) + error * norms[j] < zero_threshold[j]
        if not (still or known[j]):
            out[many] = j
            many += 1
    return many
