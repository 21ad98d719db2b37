"""Does the gradient belong to the function? Differences of values along a line say so.

Values are known up to rounding, and nobody knows how large a user's rounding is. So the derivative
along a line is taken from central differences over several lengths h. Too long ones disagree
because f bends, too short ones because of rounding; where neighbours agree best, their disagreement
is the error. A gradient is blamed only where it misses by several times that error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._arrays import Array, array_namespace, norm2
from cyclade.steps.curvature import random_like

TIMES_THE_ERROR = 8.0  # how many times the error of the differences a contradiction must be


@dataclass(frozen=True)
class Slope:
    """A derivative found by differences, and how far off it may be (NaN, infinity: unknown)."""

    value: float
    error: float

    def contradicts(self, claimed: float, size: float, eps: float) -> bool:
        """Whether `claimed` is clearly another number; `size` is the usual size of such slopes."""
        miss = abs(self.value - claimed)
        least = eps**0.25 * max(size, abs(claimed), abs(self.value))
        return bool(miss > TIMES_THE_ERROR * self.error and miss > least)


FIVE = (1 / 2, 5 / 12, 1 / 3, 1 / 4, 1 / 6)  # lengths are these powers of the rounding unit
THREE = FIVE[1:4]


def slope_along(
    phi: Callable[[float], float], length: float, eps: float, powers: Sequence[float] = FIVE
) -> Slope:
    """φ'(0) by central differences; `length` is the scale on which φ is expected to change.

    Example
    -------
    >>> import math
    >>> found = slope_along(math.sin, length=1.0, eps=2.2e-16)
    >>> abs(found.value - 1.0) < 8 * found.error < 1e-6
    True
    """
    lengths = [length * eps**power for power in powers]
    slopes, floors = [], []
    for h in lengths:
        ahead, behind = phi(h), phi(-h)
        slopes.append((ahead - behind) / (2 * h))
        floors.append(8 * eps * max(abs(ahead), abs(behind)) / h)
    best = Slope(math.nan, math.inf)
    for i in range(1, len(lengths) - 1):
        near = [abs(slopes[i] - slopes[i - 1]), abs(slopes[i] - slopes[i + 1]), floors[i]]
        error = max(near)
        if math.isfinite(error) and error < best.error:
            best = Slope(slopes[i], error)
    return best


def contradiction(
    value: Callable[[Any], float],
    x: Any,
    gradient: Sequence[Array],
    rng: np.random.Generator,
    block: int | None = None,
) -> str | None:
    """How `gradient` (by blocks) contradicts the values of f around the point x, or None.

    Two random directions through x, in `block` only or in all blocks, must both contradict it.
    """
    blocks = range(x.layout.m) if block is None else [block]
    leaf = x.leaves[0]
    eps = float(array_namespace(leaf).finfo(leaf.dtype).eps)
    length = 1.0 + math.sqrt(sum(norm2(x.get(j)) for j in blocks))
    message = None
    for _ in range(2):
        v = {j: random_like(x.get(j), rng) for j in blocks}
        unit = 1.0 / math.sqrt(sum(norm2(vj) for vj in v.values()))

        def phi(h: float) -> float:
            there = x.copy()
            for j, vj in v.items():  # noqa: B023
                there.set(j, x.get(j) + (h * unit) * vj)  # noqa: B023
            return value(there)

        claimed = unit * sum(float((gradient[j] * v[j]).sum()) for j in blocks)
        size = unit * math.sqrt(sum(norm2(gradient[j] * v[j]) for j in blocks))
        with np.errstate(all="ignore"):
            found = slope_along(phi, length, eps, THREE)
        if not found.contradicts(claimed, size, eps):
            return None
        message = (
            f"along a random direction f changes at the rate {found.value:.6g} (± "
            f"{found.error:.1g}), the gradient says {claimed:.6g}"
        )
    return message
