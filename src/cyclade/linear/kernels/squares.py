"""Passes over the rows for the squared loss."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import reductions


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
