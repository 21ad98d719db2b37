"""Indicators of the simplex and of the l1 and l2 balls.

Rounding keeps projected points from meeting `sum u = radius` or `‖u‖ = radius` exactly. Membership
and lying on the boundary are therefore judged with a relative slack of 64 machine epsilons of the
block's dtype. Zero coordinates are judged exactly.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from cyclade._arrays import TOLERANCE_ULPS, Array, as_double, rounding_unit, weighted_norm
from cyclade._checks import positive
from cyclade.regularisers._roots import block_norm, piecewise_linear_root, secular_root
from cyclade.regularisers.base import Indicator


class _RadiusSet(Indicator):
    """What the three sets share: a radius, and the value 0 inside, +inf outside."""

    form = "{radius:g}"

    def __init__(self, radius: float) -> None:
        self.radius = positive(f"{type(self).__name__}: radius", radius)

    def _slack(self, u: Array) -> float:
        return TOLERANCE_ULPS * rounding_unit(u) * self.radius


def _spread(w: float | Array, like: Array) -> Array:
    """Return w as a double-precision vector with one entry per entry of `like`."""
    if isinstance(w, float):
        xp = array_namespace(like)
        return w * xp.ones_like(as_double(like.reshape(-1)))
    return as_double(w.reshape(-1))


def _project_to_simplex(u: Array, t: Array, radius: float) -> Array:
    """Return z = max(u - c t, 0) with c such that sum z = radius, for double-precision vectors.

    The multiplier is found twice: first for u, then for u - c t, whose active entries are of the
    size of the radius. So a large common part of u costs no accuracy. The last scaling removes the
    error that rounding c itself leaves in the sum of many entries.
    """
    shifted = u - piecewise_linear_root(radius, 0.0, u / t, t) * t
    correction = piecewise_linear_root(radius, 0.0, shifted / t, t)
    z = (shifted - correction * t).clip(0.0, None)
    return z * (radius / float(z.sum()))


class Simplex(_RadiusSet):
    """The indicator of the scaled simplex {u >= 0, sum_i u_i = radius}.

    The prox is z_i = max(u_i - c t_i, 0); the multiplier c solves a piecewise linear equation,
    exactly, by sorting. The normal cone at u is {s: s_i = c where u_i > 0, s_i <= c where u_i = 0,
    c real}; the distance to it is a piecewise quadratic in c, again solved exactly by sorting.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex().prox(np.array([1.0, 0.5, -3.0]), 1.0)
    array([0.75, 0.25, 0. ])
    """

    def __init__(self, radius: float = 1.0) -> None:
        super().__init__(radius)

    def _contains(self, u: Array) -> bool:
        return bool((u >= 0).all()) and abs(float(u.sum()) - self.radius) <= self._slack(u)

    def _prox(self, u: Array, t: float | Array) -> Array:
        xp = array_namespace(u)
        # A scalar step does not change a projection.
        steps = _spread(1.0 if isinstance(t, float) else t, u)
        z = _project_to_simplex(as_double(u.reshape(-1)), steps, self.radius)
        return xp.astype(z, u.dtype).reshape(u.shape)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        xp = array_namespace(u)
        positive = u.reshape(-1) > 0
        v, w = as_double(v.reshape(-1)), _spread(w, u)
        c = piecewise_linear_root(
            float((w * v)[positive].sum()), float(w[positive].sum()), -v[~positive], w[~positive]
        )
        return weighted_norm(xp.where(positive, v + c, (v + c).clip(None, 0.0)), w)


class L1Ball(_RadiusSet):
    """The indicator of the l1 ball {sum_i |u_i| <= radius}.

    Outside the ball the prox is z_i = sign(u_i) max(|u_i| - c t_i, 0): the projection of |u| to
    the simplex, with the signs put back. On the boundary the normal cone is c ∂‖u‖_1 for c >= 0,
    and the distance to it is a piecewise quadratic in c, solved exactly by sorting.

    Examples
    --------
    >>> import numpy as np
    >>> L1Ball(1.0).prox(np.array([1.0, -0.5, 0.0]), 1.0)
    array([ 0.75, -0.25, 0. ])
    """

    def _contains(self, u: Array) -> bool:
        return float(abs(u).sum()) <= self.radius + self._slack(u)

    def _prox(self, u: Array, t: float | Array) -> Array:
        if float(abs(u).sum()) <= self.radius:
            return u + 0.0
        xp = array_namespace(u)
        steps = _spread(1.0 if isinstance(t, float) else t, u)
        z = _project_to_simplex(as_double(abs(u).reshape(-1)), steps, self.radius)
        return xp.sign(u) * xp.astype(z, u.dtype).reshape(u.shape)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        if float(abs(u).sum()) < self.radius - self._slack(u):
            return weighted_norm(v, w)
        xp = array_namespace(u)
        signs = as_double(xp.sign(u).reshape(-1))
        zero = signs == 0
        v, w = as_double(v.reshape(-1)), _spread(w, u)
        c = piecewise_linear_root(
            float((w * v * signs).sum()), float(w[~zero].sum()), abs(v[zero]), w[zero]
        )
        c = max(c, 0.0)
        return weighted_norm(xp.where(zero, (abs(v) - c).clip(0.0, None), v + c * signs), w)


class L2Ball(_RadiusSet):
    """The indicator of the l2 ball {‖u‖_2 <= radius} (Frobenius for matrix blocks).

    Outside the ball the prox scales u to the radius for scalar t; for diagonal t it is
    z_i = u_i / (1 + c t_i), and c > 0 solves the secular equation ‖z‖ = radius by Newton. On the
    boundary the normal cone is the ray {c u: c >= 0}.

    Examples
    --------
    >>> import numpy as np
    >>> L2Ball(1.0).prox(np.array([3.0, 4.0]), 0.1)
    array([0.6, 0.8])
    """

    def _contains(self, u: Array) -> bool:
        return block_norm(u) <= self.radius + self._slack(u)

    def _prox(self, u: Array, t: float | Array) -> Array:
        norm = block_norm(u)
        if norm <= self.radius:
            return u + 0.0
        if isinstance(t, float):
            return u * (self.radius / norm)
        xp = array_namespace(u)
        rows, steps = as_double(u.reshape(1, -1)), as_double(t.reshape(1, -1))
        c = secular_root(rows / self.radius, xp.ones_like(rows), steps)
        return xp.astype(rows / (1.0 + c * steps), u.dtype).reshape(u.shape)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        if block_norm(u) >= self.radius - self._slack(u):
            c = -float((w * v * u).sum()) / float((w * u * u).sum())
            v = v + max(c, 0.0) * u
        return weighted_norm(v, w)
