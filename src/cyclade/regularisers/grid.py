"""The indicator of a grid: every entry is one of a few numbers, as of quantised weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from array_api_compat import array_namespace, device

from cyclade._arrays import TOLERANCE_ULPS, Array, as_double, rounding_unit
from cyclade.regularisers.base import Indicator


class Grid(Indicator):
    """The indicator of {u: every u_i is one of the points}.

    The prox rounds every entry to the nearest point, to the lower one of two. Points are isolated,
    so ∂r(u) is everything: each u on the grid is stationary, and a run ends when a cycle leaves it
    where it is. `PerBlock` gives blocks grids of their own, such as rows with scales.

    Examples
    --------
    >>> import numpy as np
    >>> Grid([-1.0, 0.0, 1.0]).prox(np.array([0.4, -0.6, 7.0]), 1.0)
    array([ 0., -1.,  1.])
    """

    convex: ClassVar[bool] = False

    def __init__(self, points: Sequence[float] | Array) -> None:
        try:
            given = np.asarray(points, np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is torch's
            given = np.empty(0)
        if given.ndim != 1 or not given.size or not np.isfinite(given).all():
            raise ValueError(f"Grid: points must be one or more finite numbers, got {points!r}")
        self.points = np.unique(given)

    def _contains(self, u: Array) -> bool:
        slack = TOLERANCE_ULPS * rounding_unit(u) * max(1.0, float(abs(self.points).max()))
        return bool((abs(as_double(u - self._prox(u, 1.0))) <= slack).all())

    def _prox(self, u: Array, t: float | Array) -> Array:
        xp = array_namespace(u)
        points = xp.asarray(self.points, device=device(u))
        wide = as_double(u)
        nearest = xp.searchsorted((points[1:] + points[:-1]) / 2.0, wide.reshape(-1))
        found = xp.astype(xp.take(points, nearest), u.dtype).reshape(u.shape)
        return xp.where(wide == wide, found, u)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        return 0.0

    def __repr__(self) -> str:
        return f"Grid({len(self.points)} points from {self.points[0]:g} to {self.points[-1]:g})"
