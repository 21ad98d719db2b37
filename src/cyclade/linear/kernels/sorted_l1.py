"""The prox, the subdifferential and the dual norm of sorted l1, by sorting and pooling.

Decreasing fits are made by pooling adjacent violators, with a stack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.jit import compiled

Array = NDArray[Any]


@compiled
def pool(v: Any, out: Any) -> None:
    """out = argmin of ‖out − v‖² over out_1 ≥ out_2 ≥ …; entries of one pool are exactly equal."""
    total, size = np.empty(v.shape[0]), np.empty(v.shape[0], np.int64)
    top = -1
    for i in range(v.shape[0]):
        s, count = v[i], 1
        while top >= 0 and total[top] * count <= s * size[top]:  # its mean is no larger
            s += total[top]
            count += size[top]
            top -= 1
        top += 1
        total[top], size[top] = s, count
    i = 0
    for block in range(top + 1):
        mean = total[block] / size[block]
        for _ in range(size[block]):
            out[i] = mean
            i += 1


@compiled
def pool_clusters(size: Any, v: Any, out: Any) -> None:
    """`pool` on each run of equal `size`; on the run of zeros, which is last, cut off at zero."""
    first = 0
    for i in range(1, size.shape[0] + 1):
        if i == size.shape[0] or size[i] != size[first]:
            pool(v[first:i], out[first:i])
            if size[first] == 0.0:
                for k in range(first, i):
                    out[k] = max(out[k], 0.0)
            first = i


def prox(u: Array, lam: Array) -> Array:
    """argmin over v of ½‖v − u‖² + Σ_k λ_k |v|_(k).

    With |u| in decreasing order it is the decreasing fit to |u| − λ, cut off at zero; so entries
    of one pool come out exactly equal.
    """
    size = np.abs(u)
    order = np.argsort(-size, kind="stable")
    fit = np.empty(u.size)
    pool(size[order] - lam, fit)
    out = np.empty(u.size)
    out[order] = np.maximum(fit, 0.0)
    return np.copysign(out, u) + 0.0  # no −0


def residuals(x: Array, g: Array, lam: Array) -> Array:
    """−g − P(−g), P the projection onto the subdifferential of sorted l1 at x; in the order of x.

    A cluster of |x_j| = c > 0 at the places K of the sequence has the signed entries in the hull
    of all orderings of λ_K: −g less its projection is the decreasing fit to sort(−g·sign) − λ_K.
    The cluster of zeros has the unit ball of a dual norm: its fit is cut off at zero.
    """
    order, fit = sorted_residuals(x, g, lam)
    out = np.empty(x.size)
    out[order] = fit
    return np.where(x != 0, np.sign(x), -np.sign(g)) * out


def sorted_residuals(x: Array, g: Array, lam: Array) -> tuple[Array, Array]:
    """An order in which |x| falls and within clusters −g·sign(x), and the residuals in it."""
    support, rest = np.flatnonzero(x), np.flatnonzero(x == 0)
    size, pull = np.abs(x[support]), -g[support] * np.sign(x[support])
    support = support[np.lexsort((-pull, -size))]
    rest = rest[np.argsort(-np.abs(g[rest]), kind="stable")]
    order = np.concatenate([support, rest])
    pulls = np.concatenate([-g[support] * np.sign(x[support]), np.abs(g[rest])])
    fit = np.empty(x.size)
    pool_clusters(np.abs(x[order]), pulls - lam, fit)
    return order, fit


def dual_norm(v: Array, lam: Array) -> float:
    """max_k Σ_{i≤k} |v|_(i) / Σ_{i≤k} λ_i; infinite if λ = 0 and v is not."""
    if not lam[0] > 0:
        return np.inf if v.any() else 0.0
    return float((np.cumsum(np.sort(np.abs(v))[::-1]) / np.cumsum(lam)).max())
