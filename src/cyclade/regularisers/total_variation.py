"""Total variation along a vector block, by dynamic programming."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from cyclade._arrays import Array, from_numpy, to_numpy, weighted_norm
from cyclade.regularisers.base import Weighted

Vector = np.ndarray[Any, np.dtype[np.float64]]


def fused_prox(u: Vector, t: Vector, edges: Vector) -> Vector:
    """Return argmin_z sum_i (z_i - u_i)^2 / (2 t_i) + sum_i edges_i |z_{i+1} - z_i|, exactly.

    Let d_k(b) be the derivative, with respect to z_k = b, of the best cost of z_1, ..., z_k. It is
    piecewise linear and increasing, and d_{k+1}(b) = clip(d_k(b), -edges_k, edges_k) plus
    (b - u_{k+1})/t_{k+1}. Knots of d_k wait in a deque as (position, change of slope, change of
    intercept); clipping removes knots at the two ends and adds one at each, so the work is O(n).
    Backwards, z_k is z_{k+1} clipped to the interval where d_k is within ±edges_k: neighbours that
    fuse come out exactly equal.
    """
    n = len(u)
    # Shifting u shifts z; a small mean keeps the intercepts small.
    shift = float(u.mean())
    slopes = (1.0 / t).tolist()
    intercepts = (-(u - shift) / t).tolist()
    lows, highs = [0.0] * (n - 1), [0.0] * (n - 1)
    knots: deque[tuple[float, float, float]] = deque()
    left_slope = left_intercept = right_slope = right_intercept = 0.0
    for k, edge in enumerate(edges.tolist()):
        left_slope += slopes[k]
        left_intercept += intercepts[k]
        right_slope += slopes[k]
        right_intercept += intercepts[k]
        while knots and left_slope * knots[0][0] + left_intercept < -edge:
            _, slope, intercept = knots.popleft()
            left_slope += slope
            left_intercept += intercept
        while knots and right_slope * knots[-1][0] + right_intercept > edge:
            _, slope, intercept = knots.pop()
            right_slope -= slope
            right_intercept -= intercept
        low = (-edge - left_intercept) / left_slope
        high = max((edge - right_intercept) / right_slope, low)
        lows[k], highs[k] = low, high
        knots.appendleft((low, left_slope, left_intercept + edge))
        knots.append((high, -right_slope, edge - right_intercept))
        left_slope = right_slope = 0.0
        left_intercept, right_intercept = -edge, edge
    left_slope += slopes[-1]
    left_intercept += intercepts[-1]
    while knots and left_slope * knots[0][0] + left_intercept < 0.0:
        _, slope, intercept = knots.popleft()
        left_slope += slope
        left_intercept += intercept
    z = [0.0] * n
    z[-1] = last = -left_intercept / left_slope
    for k in range(n - 2, -1, -1):
        last = min(max(last, lows[k]), highs[k])
        z[k] = last
    return np.asarray(z, dtype=np.float64) + shift


class TotalVariation1D(Weighted):
    """Total variation, r(u) = lam sum_i |u_{i+1} - u_i|, of vector blocks.

    The prox, for scalar and diagonal t alike, is exact dynamic programming over the piecewise
    linear derivatives of the cost-to-go, in O(n); it runs in double precision on the CPU. Values
    that fuse are exactly equal, so jumps are recognised exactly.

    ∂r(u) = {s_k = y_{k-1} - y_k} with y_i = lam sign(u_{i+1} - u_i) at a jump and |y_i| <= lam at
    a tie. The distance to it is by Moreau's identity again such a prox, without the jumps' edges.

    Examples
    --------
    >>> import numpy as np
    >>> TotalVariation1D(1.0).prox(np.array([0.0, 0.0, 6.0, 8.0]), 1.0)
    array([0.5, 0.5, 6. , 7. ])
    """

    def value(self, u: Array) -> float:
        """Return lam sum_i |u_{i+1} - u_i|."""
        u = self._block(u)
        return self.lam * float(abs(u[1:] - u[:-1]).sum())

    def _prox(self, u: Array, t: float | Array) -> Array:
        self.check(tuple(u.shape), "u")
        point = to_numpy(u).astype(np.float64)
        edges = np.full(len(point) - 1, self.lam)
        return from_numpy(fused_prox(point, _steps(t, point), edges), u)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        jumps = np.sign(np.diff(to_numpy(u).astype(np.float64)))
        residual = to_numpy(v).astype(np.float64)
        residual[1:] += self.lam * jumps
        residual[:-1] -= self.lam * jumps
        weights = _steps(w, residual)
        edges = np.where(jumps == 0, self.lam, 0.0)
        return weighted_norm(fused_prox(-weights * residual, weights, edges), 1.0 / weights)

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError unless the block is a vector with at least one entry."""
        if len(shape) != 1 or shape[0] == 0:
            raise ValueError(
                f"{where}: TotalVariation1D acts on non-empty vector (1-D) blocks, but the block "
                f"has shape {tuple(shape)}"
            )


def _steps(t: float | Array, like: Vector) -> Vector:
    if isinstance(t, float):
        return np.full(len(like), t)
    return to_numpy(t).astype(np.float64)
