"""The shipped penalties inside kernels.

A kernel knows a penalty by a few functions of a `parameters` tuple and a coordinate. For shipped
penalties the tuple is (kind, table) and the kind is an ordinary number, so one machine code
serves them all; `cyclade.linear.penalty_bound` gives the same functions for a user's penalty.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import inner
from cyclade.linear.penalties import compiled as formulas

_value, _prox, _distance = formulas.value, formulas.prox, formulas.distance
_threshold, _conjugate = formulas.threshold, formulas.conjugate


@inner
def value(parameters: Any, x: float, j: int) -> float:
    """r_j(x)."""
    return _value(parameters[0], parameters[1], j, x)  # type: ignore[no-any-return]


@inner
def prox(parameters: Any, u: float, t: float, j: int) -> float:
    """argmin_v r_j(v) + (v − u)² / (2t)."""
    return _prox(parameters[0], parameters[1], j, u, t)  # type: ignore[no-any-return]


@inner
def distance(parameters: Any, x: float, g: float, j: int) -> float:
    """dist(−g, ∂r_j(x))."""
    return _distance(parameters[0], parameters[1], j, x, g)  # type: ignore[no-any-return]


@inner
def threshold(parameters: Any, j: int) -> float:
    """The largest |g| for which zero stays stationary."""
    return _threshold(parameters[0], parameters[1], j)  # type: ignore[no-any-return]


@inner
def conjugate(parameters: Any, v: float, j: int) -> float:
    """r_j*(v)."""
    return _conjugate(parameters[0], parameters[1], j, v)  # type: ignore[no-any-return]
