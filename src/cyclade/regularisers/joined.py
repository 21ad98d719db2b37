"""One regulariser from several, on disjoint parts of one block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cyclade._arrays import Array, array_namespace, copier
from cyclade.regularisers.base import Regulariser


class Joined(Regulariser):
    """r(u) = Σ_i r_i(u[index_i]): what r is to a method that moves all blocks at once.

    Each part is ``(index, shape, regulariser)``: where it lies in the flat block, and the shape its
    regulariser expects.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.regularisers import L1, NonNegative
    >>> r = Joined([(slice(0, 2), (2,), L1(1.0)), (slice(2, 3), (1,), NonNegative())])
    >>> r.prox(np.array([3.0, -0.5, -2.0]), 1.0)
    array([2., 0., 0.])
    """

    def __init__(self, parts: Sequence[tuple[Any, tuple[int, ...], Regulariser]]) -> None:
        self.parts = list(parts)

    @property
    def exact_distance(self) -> bool:  # type: ignore[override]
        """Whether every part's distance is exact."""
        return all(reg.exact_distance for _, _, reg in self.parts)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether every part is convex."""
        return all(reg.convex for _, _, reg in self.parts)

    @property
    def regularisers(self) -> list[Regulariser]:
        """The parts."""
        return [reg for _, _, reg in self.parts]

    def __repr__(self) -> str:
        return f"Joined({[reg for _, _, reg in self.parts]})"

    def value(self, u: Array) -> float:
        """The sum of the parts' values."""
        u = self._block(u)
        return sum(reg.value(u[index].reshape(shape)) for index, shape, reg in self.parts)

    def _prox(self, u: Array, t: Array | float) -> Array:
        z = copier(u)(u)
        for index, shape, reg in self.parts:
            step = _part(t, index, shape)
            z[index] = reg.prox(u[index].reshape(shape), step).reshape(-1)
        return z

    def _distance(self, u: Array, v: Array, w: Array | float) -> float:
        total = 0.0
        for index, shape, reg in self.parts:
            weight = _part(w, index, shape)
            part = reg.distance(u[index].reshape(shape), v[index].reshape(shape), weight)
            total += part**2
        return math.sqrt(total)


def _part(t: Array | float, index: Any, shape: tuple[int, ...]) -> Array | float:
    """A part's share of a step or weight; a number where it is constant (proxes are faster so)."""
    if getattr(t, "ndim", 0) == 0:
        return t
    part = t[index]  # type: ignore[index]
    xp = array_namespace(part)
    if bool(xp.min(part) == xp.max(part)):
        return float(part[0])
    return part.reshape(shape)
