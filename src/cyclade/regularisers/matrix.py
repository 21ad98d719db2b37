"""The nuclear norm of matrix blocks."""

from __future__ import annotations

import math
import warnings

from array_api_compat import array_namespace

from cyclade._arrays import (
    TOLERANCE_ULPS,
    Array,
    all_finite,
    as_double,
    rounding_unit,
    weighted_norm,
)
from cyclade.regularisers.base import Weighted

_ITERATIONS = 10_000
_RANK_ULPS = 8  # singular values below so many epsilons times the dimension are rounding


def _clip_spectrum(m: Array, bound: float) -> Array:
    """Return the projection of m to the matrices of spectral norm <= bound."""
    xp = array_namespace(m)
    left, sigma, right = xp.linalg.svd(m, full_matrices=False)
    return (left * sigma.clip(None, bound)) @ right


def _drop_ranges(m: Array, left: Array, right: Array) -> Array:
    """Return (I - left leftᵀ) m (I - rightᵀ right) for orthonormal columns left, rows right."""
    m = m - left @ (left.T @ m)
    return m - (m @ right.T) @ right


def _with_an_svd(u: Array) -> Array:
    """Return u, in double precision if its dtype (half, long double) has no decomposition."""
    xp = array_namespace(u)
    return u if u.dtype in (xp.float32, xp.float64) else as_double(u)


def nearest_dual(target: Array, w: float | Array, bound: float, left: Array, right: Array) -> Array:
    """Return argmin_W 1/2 sum w (W - target)^2 over ‖W‖_2 <= bound, leftᵀ W = 0, W rightᵀ = 0.

    Projecting to the complement of the ranges and then clipping the spectrum is the projection to
    the whole feasible set, because clipping keeps the ranges. That is the answer for a scalar w.
    For a diagonal w this is accelerated projected gradient with step 1/max w and restarts; its
    momentum never exceeds what strong convexity min w calls for. It stops when the fixed-point
    residual is at rounding level, and warns if it does not get there.
    """
    if isinstance(w, float):
        return _clip_spectrum(_drop_ranges(target, left, right), bound)
    xp = array_namespace(target)
    step = 1.0 / float(w.max())
    relative_weights = w * step
    root_condition = math.sqrt(float(w.min()) * step)
    momentum_limit = (1.0 - root_condition) / (1.0 + root_condition)
    # Rounding in the singular value decomposition grows with the dimension.
    tolerance = 4.0 * math.sqrt(max(target.shape)) * rounding_unit(target)
    current = _clip_spectrum(_drop_ranges(target, left, right), bound)
    point, theta = current, 1.0
    for _ in range(_ITERATIONS):
        descended = point - relative_weights * (point - target)
        following = _clip_spectrum(_drop_ranges(descended, left, right), bound)
        residual = float(xp.linalg.vector_norm(following - point))
        scale = float(xp.linalg.vector_norm(descended))
        if residual <= tolerance * scale:
            return following
        if float(((point - following) * (following - current)).sum()) > 0:
            theta = 1.0
        next_theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
        momentum = min((theta - 1.0) / next_theta, momentum_limit)
        point = following + momentum * (following - current)
        current, theta = following, next_theta
    warnings.warn(
        f"NuclearNorm: the dual problem for a diagonal step stopped after {_ITERATIONS} iterations "
        f"at a relative fixed-point residual of {residual / scale:.1e}; a diagonal that varies "
        "less, or a scalar, converges faster",
        RuntimeWarning,
        stacklevel=4,
    )
    return current


class NuclearNorm(Weighted):
    """The nuclear norm, r(u) = lam sum_i σ_i(u), of matrix blocks.

    For scalar t the prox soft-thresholds the singular values at lam t. For diagonal t there is no
    closed form: the dual, min_Z 1/2 sum t Z^2 - <Z, u> over ‖Z‖_2 <= lam, is solved to rounding by
    accelerated projected gradient, and z = u - t Z. Its cost grows with sqrt(max t / min t).

    With u = U1 Σ V1ᵀ of rank k, ∂r(u) = {lam U1 V1ᵀ + W: U1ᵀ W = 0, W V1 = 0, ‖W‖_2 <= lam}. The
    rank counts the singular values above 8 max(rows, columns) machine epsilons times the largest.

    Examples
    --------
    >>> import numpy as np
    >>> NuclearNorm(1.0).prox(np.array([[3.0, 0.0], [0.0, 0.5]]), 1.0)
    array([[2., 0.],
           [0., 0.]])
    """

    def value(self, u: Array) -> float:
        """Return lam times the sum of the singular values."""
        u = self._block(u)
        u = _with_an_svd(u)
        if not all_finite(u):
            return math.nan
        return self.lam * float(array_namespace(u).linalg.svdvals(u).sum())

    def _prox(self, u: Array, t: float | Array) -> Array:
        self.check(tuple(u.shape), "u")
        xp = array_namespace(u)
        if not all_finite(u):
            return xp.full_like(u, math.nan)
        if isinstance(t, float):
            left, sigma, right = xp.linalg.svd(_with_an_svd(u), full_matrices=False)
            kept = int((sigma > self.lam * t).sum())
            z = (left[:, :kept] * (sigma[:kept] - self.lam * t)) @ right[:kept, :]
            return xp.astype(z, u.dtype, copy=False)
        if self.lam == 0:
            return u + 0.0
        steps, target = as_double(t), as_double(u)
        nothing = target[:, :0], target[:0, :]
        dual = nearest_dual(target / steps, steps, self.lam, *nothing)
        # z lies in the singular space of Z at the bound; projecting there leaves the rank clean.
        left, sigma, right = xp.linalg.svd(dual, full_matrices=False)
        slack = TOLERANCE_ULPS * rounding_unit(dual)
        kept = int((sigma >= self.lam * (1.0 - slack)).sum())
        left, right = left[:, :kept], right[:kept, :]
        z = left @ (left.T @ (target - steps * dual) @ right.T) @ right
        return xp.astype(z, u.dtype)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        if not (all_finite(u) and all_finite(v)):
            return math.nan
        xp = array_namespace(u)
        left, sigma, right = xp.linalg.svd(as_double(u), full_matrices=False)
        noise = _RANK_ULPS * max(u.shape) * rounding_unit(u) * float(sigma[0])
        rank = int((sigma > noise).sum())
        left, right = left[:, :rank], right[:rank, :]
        weights = w if isinstance(w, float) else as_double(w)
        smooth = as_double(v) + self.lam * (left @ right)
        free = nearest_dual(-smooth, weights, self.lam, left, right)
        return weighted_norm(smooth + free, weights)

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError unless the block is a matrix."""
        if len(shape) != 2:
            raise ValueError(
                f"{where}: NuclearNorm acts on matrix (2-D) blocks, but the block has shape "
                f"{tuple(shape)}"
            )
