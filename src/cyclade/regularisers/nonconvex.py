"""Nonconvex sparse regularisers, coordinate by coordinate: MCP, SCAD, l0 and l1/2.

Every prox is a global minimiser of its objective for every step, also for steps so long that the
objective is not convex; of several minimisers it is the one nearest to zero. ∂r is the limiting
subdifferential. All is computed in double precision, since comparing two minima loses half of the
digits.
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar

from array_api_compat import array_namespace

from cyclade._arrays import Array, as_double, weighted_norm
from cyclade._checks import above, positive
from cyclade.regularisers.base import Weighted
from cyclade.regularisers.elementwise import soft_threshold


class _SparseNonconvex(Weighted):
    """r(u) = Σ_i ρ(|u_i|), with ρ increasing, concave and ρ(0) = 0."""

    convex: ClassVar[bool] = False
    steep: ClassVar[bool] = False  # whether ρ' is infinite at 0, or ρ jumps there

    @abc.abstractmethod
    def _height(self, size: Array) -> Array:
        """ρ of every entry."""

    @abc.abstractmethod
    def _shrink(self, size: Array, t: Array) -> Array:
        """The prox at every entry of `size` ≥ 0, with a step for each.

        Conditions are written so that NaN fails those that lead to zero, and stays NaN.
        """

    @abc.abstractmethod
    def _slope(self, size: Array) -> Array:
        """ρ' of every entry of `size` > 0."""

    def value(self, u: Array) -> float:
        """Return Σ_i ρ(|u_i|)."""
        return float(self._height(as_double(abs(self._block(u)))).sum())

    def _prox(self, u: Array, t: float | Array) -> Array:
        xp = array_namespace(u)
        size = as_double(abs(u))
        steps = t * xp.ones_like(size) if isinstance(t, float) else as_double(t)
        return xp.sign(u) * xp.astype(self._shrink(size, steps), u.dtype)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        xp = array_namespace(u)
        u, v = as_double(u), as_double(v)
        zero = u == 0
        slopes = self._slope(xp.where(zero, xp.ones_like(u), abs(u)))
        at_zero = soft_threshold(v, math.inf if self.steep and self.lam > 0 else self.lam)
        return weighted_norm(xp.where(zero, at_zero, v + slopes * xp.sign(u)), w)


class MCP(_SparseNonconvex):
    """The minimax concave penalty: the slope falls from lam at zero to none at gamma lam.

    r(u) = Σ_i ρ(|u_i|) with ρ(s) = lam s − s²/(2 gamma) for s ≤ gamma lam, gamma lam²/2 beyond;
    gamma > 0.

    The prox is firm thresholding for t_i < gamma: 0 up to lam t_i, |u_i| beyond gamma lam, and
    linear between. For t_i ≥ gamma it is hard thresholding at lam √(gamma t_i).

    Examples
    --------
    >>> import numpy as np
    >>> MCP(1.0, gamma=2.0).prox(np.array([0.9, -1.5, 3.0]), 1.0)
    array([ 0., -1., 3.])
    >>> MCP(1.0, gamma=2.0).prox(np.array([1.9, 2.1]), 2.0)  # hard thresholding at 2
    array([0. , 2.1])
    """

    form = "{lam:g}, gamma={gamma:g}"

    def __init__(self, lam: float, gamma: float = 3.0) -> None:
        super().__init__(lam)
        self.gamma = positive("MCP: gamma", gamma)

    def _height(self, size: Array) -> Array:
        inside = size.clip(None, self.gamma * self.lam)
        return (self.lam - inside / (2.0 * self.gamma)) * inside

    def _shrink(self, size: Array, t: Array) -> Array:
        xp = array_namespace(size)
        short = t < self.gamma
        threshold = self.lam * xp.where(short, t, xp.sqrt(self.gamma * t))
        room = xp.where(short, 1.0 - t / self.gamma, xp.ones_like(t))
        firm = xp.minimum((size - self.lam * t) / room, size)
        z = xp.where(short & (size <= self.gamma * self.lam), firm, size)
        return xp.where(size <= threshold, xp.zeros_like(size), z)

    def _slope(self, size: Array) -> Array:
        return (self.lam - size / self.gamma).clip(0.0, None)


class SCAD(_SparseNonconvex):
    """The smoothly clipped absolute deviation: slope lam up to lam, falling to none at gamma lam.

    r(u) = Σ_i ρ(|u_i|) with ρ(s) = lam s for s ≤ lam, lam s − (s − lam)²/(2 (gamma − 1)) up to
    gamma lam, and lam² (gamma + 1)/2 beyond; gamma > 1 (statisticians take 3.7).

    For t_i < gamma − 1 the prox is piecewise linear and continuous. For longer steps the objective
    is concave between lam and gamma lam, and the better one of its minima on either side is
    returned.

    Examples
    --------
    >>> import numpy as np
    >>> SCAD(1.0, gamma=3.0).prox(np.array([1.5, -2.5, 4.0]), 1.0)
    array([ 0.5, -2. , 4. ])
    """

    form = "{lam:g}, gamma={gamma:g}"

    def __init__(self, lam: float, gamma: float = 3.7) -> None:
        super().__init__(lam)
        self.gamma = above("SCAD: gamma", gamma, 1.0)

    def _height(self, size: Array) -> Array:
        inside = size.clip(None, self.gamma * self.lam)
        bend = (inside - self.lam).clip(0.0, None)
        return self.lam * inside - bend * bend / (2.0 * (self.gamma - 1.0))

    def _shrink(self, size: Array, t: Array) -> Array:
        xp = array_namespace(size)
        lam, knee, width = self.lam, self.gamma * self.lam, self.gamma - 1.0
        soft = (size - lam * t).clip(0.0, None)
        short = t < width
        room = xp.where(short, width - t, xp.ones_like(t))
        bent = xp.minimum((width * size - knee * t) / room, size)
        continuous = xp.where(size <= lam * (1.0 + t), soft, xp.where(size <= knee, bent, size))
        near, far = soft.clip(None, lam), size.clip(knee, None)
        at_near = lam * near + (near - size) ** 2 / (2.0 * t)
        at_far = 0.5 * lam * lam * (self.gamma + 1.0) + (far - size) ** 2 / (2.0 * t)
        return xp.where(short, continuous, xp.where(at_near <= at_far, near, far))

    def _slope(self, size: Array) -> Array:
        return ((self.gamma * self.lam - size) / (self.gamma - 1.0)).clip(0.0, self.lam)


class L0(_SparseNonconvex):
    """The number of nonzero entries, r(u) = lam #{i: u_i ≠ 0}.

    The prox is hard thresholding: u_i where |u_i| > √(2 lam t_i), else 0.

    The limiting subdifferential is ∂r(u)_i = {0} where u_i ≠ 0 and all of R where u_i = 0 (for
    lam > 0). So a zero coordinate is stationary whatever the gradient: a certificate says that the
    nonzero entries are right for this support, not that the support is, and u = 0 is always
    stationary. Start elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> L0(0.5).prox(np.array([0.9, -1.5, 1.0]), 1.0)
    array([ 0. , -1.5, 0. ])
    >>> L0(0.5).distance(np.array([0.0, 2.0]), np.array([7.0, 0.25]))
    0.25
    """

    steep: ClassVar[bool] = True

    def _height(self, size: Array) -> Array:
        xp = array_namespace(size)
        return xp.where(size > 0, xp.full_like(size, self.lam), size)  # zero (or NaN) stays

    def _shrink(self, size: Array, t: Array) -> Array:
        xp = array_namespace(size)
        return xp.where(size <= xp.sqrt(2.0 * self.lam * t), xp.zeros_like(size), size)

    def _slope(self, size: Array) -> Array:
        return array_namespace(size).zeros_like(size)


class LHalf(_SparseNonconvex):
    """The l1/2 quasi-norm, r(u) = lam Σ_i √|u_i|.

    The prox is zero for |u_i| ≤ 3/2 (lam t_i)^{2/3}; beyond, it is the larger root of the cubic
    that √z_i solves, z_i = (2/3) u_i (1 + cos(2π/3 − (2/3) arccos((lam t_i/4) (3/|u_i|)^{3/2}))).

    ∂r(u)_i is {lam sign(u_i) / (2 √|u_i|)} where u_i ≠ 0 and all of R where u_i = 0 (for lam > 0):
    every zero coordinate is stationary, as with `L0`.

    Examples
    --------
    >>> import numpy as np
    >>> LHalf(1.0).prox(np.array([1.4, -4.0]), 1.0)
    array([ 0. , -3.7415])
    """

    steep: ClassVar[bool] = True

    def _height(self, size: Array) -> Array:
        return self.lam * array_namespace(size).sqrt(size)

    def _shrink(self, size: Array, t: Array) -> Array:
        xp = array_namespace(size)
        scale, zeros = self.lam * t, xp.zeros_like(size)
        vanishing = size <= 1.5 * scale ** (2.0 / 3.0)
        safe = xp.where(vanishing, xp.ones_like(size), size)
        cosine = xp.where(vanishing, zeros, 0.25 * scale * (3.0 / safe) ** 1.5)
        angle = 2.0 * (math.pi - xp.acos(cosine)) / 3.0
        return xp.where(vanishing, zeros, 2.0 * safe * (1.0 + xp.cos(angle)) / 3.0)

    def _slope(self, size: Array) -> Array:
        return 0.5 * self.lam / array_namespace(size).sqrt(size)
