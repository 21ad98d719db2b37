"""Where clusters, their order and signs stay as they are, F is a quadratic in their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def of(x: Array) -> tuple[Array, Array, Array]:
    """The support by falling |x| (then by number), where each cluster starts in it, and the signs.

    Examples
    --------
    >>> of(np.array([1.0, 0.0, -3.0, -1.0]))
    (array([2, 0, 3]), array([0, 1]), array([-1.,  1., -1.]))
    """
    support = np.flatnonzero(x)
    order = support[np.argsort(-np.abs(x[support]), kind="stable")]
    return order, starts_of(np.abs(x[order])), np.sign(x[order])


def starts_of(size: Array) -> Array:
    """Where runs of equal sizes start."""
    return np.flatnonzero(np.diff(size, prepend=np.inf))


def minimise(size: Array, G: Array, pull: Array, lam: Array) -> Array:
    """Minimise ½‖R‖² + λ·b over the sizes b of the members, equal within clusters.

    G holds the products of the signed columns and `pull` their products with R, at b = `size`. The
    order must stay as it is: where a cluster meets the next, or zero, the two go on as one, or it
    stays there. F falls all along.

    Examples
    --------
    >>> minimise(np.array([3.0, 1.0]), np.eye(2), np.zeros(2), np.array([2.0, 0.5]))
    array([1. , 0.5])
    >>> minimise(np.array([3.0, 2.5]), np.eye(2), np.zeros(2), np.array([2.0, 0.5]))
    array([1.5, 1.5])
    """
    b, live = size.copy(), size.size
    while live:
        starts = starts_of(b[:live])
        inside = np.add.reduceat(G[:live, :live], starts, axis=0)
        H = np.add.reduceat(inside, starts, axis=1)
        H.flat[:: starts.size + 1] += 1e-12 * float(H.diagonal().max())
        downhill = np.add.reduceat((pull - G @ (b - size) - lam)[:live], starts)
        step = solution(H, downhill)
        if step is None:
            return b
        now = b[starts]
        t, at = first_meeting(now, step)
        now = np.minimum.accumulate(now + t * step)  # rounding must not change the order
        if at >= 0:
            now[at] = now[at + 1] if at + 1 < now.size else 0.0
            now = np.minimum.accumulate(now)
        b[:live] = np.repeat(now, np.diff(np.append(starts, live)))
        live = int(np.count_nonzero(b > 0.0))
        b[live:] = 0.0
        if at < 0:
            return b
    return b


def first_meeting(size: Array, step: Array) -> tuple[float, int]:
    """The part of `step` at which a cluster first meets the next or zero, and which; or 1, −1."""
    gap = size - np.append(size[1:], 0.0)
    closing = np.append(step[1:], 0.0) - step
    closes = np.flatnonzero(closing > gap)
    if not closes.size:
        return 1.0, -1
    times = gap[closes] / closing[closes]
    first = int(np.argmin(times))
    return float(times[first]), int(closes[first])


def solution(H: Array, v: Array) -> Array | None:
    """H⁻¹v; None unless H is positive definite."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(H, lower=True, check_finite=False)
    except LinAlgError:
        return None
    step = np.asarray(cho_solve(factor, v, check_finite=False))
    return step if np.isfinite(step).all() else None
