"""Mean curvatures between two points, row by row: differences of φ' over differences of z."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled


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
