"""Bounds on a gradient from an earlier one: see `cyclade.linear.screening`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.columns import STRIP
from cyclade.linear.kernels.jit import compiled, reductions


@reductions
def bound_gradient(v: Any, v0: Any, g0: Any, rounding: float, out: Any) -> float:
    """out = c g0 with c = v·v0 / ‖v0‖²; ‖v − c v0‖ comes back, and `rounding` parts of ‖v‖ more."""
    along, size, whole = 0.0, 0.0, 0.0
    for i in range(v.shape[0]):
        along += v[i] * v0[i]
        size += v0[i] * v0[i]
        whole += v[i] * v[i]
    c = along / size if size > 0.0 else 0.0
    rest = 0.0
    for i in range(v.shape[0]):
        rest += (v[i] - c * v0[i]) ** 2
    for j in range(out.shape[0]):
        out[j] = c * g0[j]
    return float(np.sqrt(rest) + rounding * np.sqrt(whole) + 1e-300)


@compiled
def undecided(
    g: Any, norms: Any, error: float, known: Any, x: Any, zero_threshold: Any, part: float, out: Any
) -> int:
    """Names of columns not known, with x_j ≠ 0 or |g_j| + error ‖a_j‖ not below part · still_j."""
    many = 0
    for first in range(0, g.shape[0], STRIP):
        gs, sizes = g[first : first + STRIP], norms[first : first + STRIP]
        xs, limits = x[first : first + STRIP], zero_threshold[first : first + STRIP]
        few = 0
        for i in range(gs.shape[0]):
            calm = (xs[i] == 0.0) & (abs(gs[i]) + error * sizes[i] < part * limits[i])
            few += not calm
        for i in range(gs.shape[0] if few else 0):
            calm = xs[i] == 0.0 and abs(gs[i]) + error * sizes[i] < part * limits[i]
            if not (calm or known[first + i]):
                out[many] = first + i
                many += 1
    return many


@reductions
def dense_norms(XT: Any, out: Any) -> None:
    """out_j = ‖a_j‖, the columns being rows of XT."""
    for j in range(out.shape[0]):
        a, s = XT[j], 0.0
        for i in range(a.shape[0]):
            s += float(a[i]) * float(a[i])
        out[j] = np.sqrt(s)


@reductions
def sparse_norms(data: Any, starts: Any, out: Any) -> None:
    """The same for X by columns."""
    for j in range(out.shape[0]):
        s = 0.0
        for e in range(starts[j], starts[j + 1]):
            s += float(data[e]) * float(data[e])
        out[j] = np.sqrt(s)
