"""Regularisers that treat every coordinate by itself: closed forms, coordinate by coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from cyclade._arrays import Array, Parameter, clip, weighted_norm
from cyclade._checks import fraction, non_negative
from cyclade.regularisers.base import Indicator, Regulariser, Weighted


def soft_threshold(u: Array, threshold: float | Array) -> Array:
    """Return sign(u) max(|u| - threshold, 0), with exact zeros where |u| <= threshold."""
    return u - clip(u, -threshold, threshold)


def l1_residual(u: Array, v: Array, lam: float | Array) -> Array:
    """Return v + s, coordinate by coordinate as small as s in lam ∂|u_i| allows."""
    xp = array_namespace(u)
    return xp.where(u == 0, soft_threshold(v, lam), v + lam * xp.sign(u))


def bounds(owner: str, lower: Any, upper: Any) -> tuple[Any, Any]:
    """The lower and the upper bound as NumPy arrays.

    ValueError unless their shapes fit, no bound is NaN, and there is room between them.
    """
    a, b = Parameter(f"{owner}: lower", lower).array, Parameter(f"{owner}: upper", upper).array
    if a.ndim and b.ndim and a.shape != b.shape:
        raise ValueError(f"{owner}: lower has shape {a.shape} but upper has shape {b.shape}")
    if np.isnan(a).any() or np.isnan(b).any():
        raise ValueError(f"{owner}: lower and upper must not be NaN")
    if (a > b).any():
        got = f"got lower={lower!r}, upper={upper!r}"
        raise ValueError(f"{owner}: lower must be <= upper, {got}")
    if (a == math.inf).any() or (b == -math.inf).any():
        raise ValueError(f"{owner}: lower must be < inf and upper must be > -inf")
    return a, b


class L1(Regulariser):
    """The l1 norm, r(u) = sum_i lam_i |u_i|, with one lam or one per coordinate.

    The prox is the soft threshold z_i = sign(u_i) max(|u_i| - lam_i t_i, 0). Its zeros are exact,
    so kinks are recognised exactly.

    Examples
    --------
    >>> import numpy as np
    >>> L1(0.5).prox(np.array([2.0, -0.25, -1.0]), 1.0)
    array([ 1.5, 0. , -0.5])
    >>> L1([0.0, 1.0, 1.0]).value(np.array([2.0, -0.25, -1.0]))
    1.25
    """

    form = "{_lam!r}"

    def __init__(self, lam: float | Sequence[float] | Array) -> None:
        self._lam = Parameter("L1: lam", lam)
        if self._lam.scalar is not None:
            non_negative("L1: lam", self._lam.scalar)
        elif not (np.isfinite(self._lam.array).all() and (self._lam.array >= 0).all()):
            raise ValueError("L1: every entry of lam must be a finite number >= 0")

    def value(self, u: Array) -> float:
        """Return sum_i lam_i |u_i|."""
        u = self._block(u)
        return float((abs(u) * self._lam.matching(u)).sum())

    def _prox(self, u: Array, t: float | Array) -> Array:
        return soft_threshold(u, self._lam.matching(u) * t)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        return weighted_norm(l1_residual(u, v, self._lam.matching(u)), w)

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError if lam is an array of another shape than the block."""
        self._lam.check(shape, where)


class SquaredL2(Weighted):
    """The squared l2 norm, r(u) = lam/2 sum_i u_i^2; the prox is u_i / (1 + lam t_i).

    Examples
    --------
    >>> import numpy as np
    >>> SquaredL2(1.0).prox(np.array([2.0, -4.0]), 1.0)
    array([ 1., -2.])
    """

    def value(self, u: Array) -> float:
        """Return lam/2 sum_i u_i^2."""
        u = self._block(u)
        return 0.5 * self.lam * float((u * u).sum())

    def _prox(self, u: Array, t: float | Array) -> Array:
        return u / (1.0 + self.lam * t)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        return weighted_norm(v + self.lam * u, w)


class ElasticNet(Regulariser):
    """The elastic net, r(u) = l1 sum_i |u_i| + l2/2 sum_i u_i^2.

    Given either as `l1` and `l2`, or by keyword as `lam` and `l1_ratio`: then l1 = lam l1_ratio and
    l2 = lam (1 - l1_ratio), as in `cyclade.linear.penalties.ElasticNet`, which is for linear models
    and reads its first argument as lam. The prox is a soft threshold at l1 t_i followed by division
    by 1 + l2 t_i.

    Examples
    --------
    >>> import numpy as np
    >>> ElasticNet(l1=1.0, l2=1.0).prox(np.array([3.0, -0.5]), 1.0)
    array([1., 0.])
    >>> ElasticNet(lam=2.0, l1_ratio=0.5)
    ElasticNet(1, 1)
    """

    form = "{l1:g}, {l2:g}"

    def __init__(
        self,
        l1: float | None = None,
        l2: float | None = None,
        *,
        lam: float | None = None,
        l1_ratio: float | None = None,
    ) -> None:
        if lam is not None and l1_ratio is not None and l1 is l2 is None:
            lam = non_negative("ElasticNet: lam", lam)
            part = fraction("ElasticNet: l1_ratio", l1_ratio)
            l1, l2 = lam * part, lam * (1 - part)
        elif l1 is None or l2 is None or lam is not None or l1_ratio is not None:
            raise ValueError("ElasticNet: give l1 and l2, or lam and l1_ratio")
        self.l1 = non_negative("ElasticNet: l1", l1)
        self.l2 = non_negative("ElasticNet: l2", l2)

    def value(self, u: Array) -> float:
        """Return l1 sum_i |u_i| + l2/2 sum_i u_i^2."""
        u = self._block(u)
        return self.l1 * float(abs(u).sum()) + 0.5 * self.l2 * float((u * u).sum())

    def _prox(self, u: Array, t: float | Array) -> Array:
        return soft_threshold(u, self.l1 * t) / (1.0 + self.l2 * t)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        return weighted_norm(l1_residual(u, v + self.l2 * u, self.l1), w)


class Box(Indicator):
    """The indicator of the box lower <= u <= upper; bounds are numbers (±inf allowed) or arrays.

    The prox clips, whatever t. Bounds are met exactly after clipping, so they are recognised
    exactly; for float32 blocks the bounds are those rounded to float32. For linear models there is
    `cyclade.linear.penalties.Box`, with the same first arguments.

    Examples
    --------
    >>> import numpy as np
    >>> Box(-1.0, 1.0).prox(np.array([2.0, -0.25]), 0.1)
    array([ 1. , -0.25])
    >>> Box(-1.0, 1.0).value(np.array([2.0, -0.25]))
    inf
    """

    form = "{_low!r}, {_high!r}"

    def __init__(
        self, lower: float | Sequence[float] | Array, upper: float | Sequence[float] | Array
    ) -> None:
        owner = type(self).__name__
        # torch clips between two numbers or two arrays, never one of each.
        low_array, high_array = np.broadcast_arrays(*bounds(owner, lower, upper))
        self._low, self._high = (
            Parameter(f"{owner}: lower or upper", bound) for bound in (low_array, high_array)
        )

    def _contains(self, u: Array) -> bool:
        low, high = self._bounds(u)
        return bool(((u >= low) & (u <= high)).all())

    def _prox(self, u: Array, t: float | Array) -> Array:
        return clip(u, *self._bounds(u))

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        # The normal cone is s <= 0 at the lower bound, s >= 0 at the upper one, 0 between.
        xp = array_namespace(u)
        low, high = self._bounds(u)
        residual = xp.where(u <= low, v.clip(None, 0.0), v)
        residual = xp.where(u >= high, residual.clip(0.0, None), residual)
        return weighted_norm(residual, w)

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError if the bounds are arrays of another shape than the block."""
        self._low.check(shape, where)

    def _bounds(self, u: Array) -> tuple[Array, Array]:
        return self._low.matching(u), self._high.like(u)


class NonNegative(Box):
    """The indicator of u >= 0; the prox is max(u, 0).

    Examples
    --------
    >>> import numpy as np
    >>> NonNegative().prox(np.array([2.0, -0.25]), 0.1)
    array([2., 0.])
    """

    form = ""

    def __init__(self) -> None:
        super().__init__(0.0, math.inf)

    def _prox(self, u: Array, t: float | Array) -> Array:
        return u.clip(0.0, None)
