"""The prox, the subdifferential and the dual norm of sorted l1, by sorting and pooling.

Decreasing fits are made by pooling adjacent violators, with a stack.

Cyclic descent over clusters, the coordinates of equal |x|, with exact minimisation along each.

The problem is  min over x of ½‖R‖² + Σ_k λ_k |x|_(k),  R = t − Aᵀx. A cluster C of size c moves
along d = Σ_{j∈C} sign(x_j) a_j. As a function of its new size b, the penalty is piecewise linear
and convex: it has the slope λ_{k+1} + … + λ_{k+|C|} while k coordinates are larger, and a kink
where b meets another cluster. So the minimiser lies between two clusters, on one of them (the two
become one) or at zero. Coordinates at zero move by themselves. No cluster is ever split: that is
what proximal steps between the cycles are for.

A cluster is known by the number of its first member and holds its members as a chain, `after`;
`rank` lists the clusters, largest first. `Lam` holds the sums of the k largest λ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.kernels.linalg import dot as plain_dot
from cyclade.linear.kernels.storage import dot, subtract

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


class Clusters(NamedTuple):
    """The first m of `rank` are clusters, largest first, by the number of their first member."""

    rank: Any
    size: Any  # |x| of a cluster
    count: Any  # of its members; 0 if it was joined to another
    sign: Any  # of x_j
    after: Any  # the next member, or −1
    last: Any  # the last member of a cluster


@compiled
def build(order: Any, x: Any) -> tuple[Any, int]:
    """Clusters of equal |x|, where |x| falls along `order`; how many there are."""
    k = x.shape[0]
    rank, count, last = np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k, np.int64)
    size, sign, after = np.empty(k), np.empty(k), np.empty(k, np.int64)
    m, here = 0, -1
    for i in range(k):
        j = order[i]
        count[j], after[j] = 0, -1
        sign[j] = 0.0 if x[j] == 0.0 else (1.0 if x[j] > 0.0 else -1.0)
        if x[j] == 0.0:
            continue
        if here >= 0 and abs(x[j]) == size[here]:
            after[last[here]] = j
            last[here] = j
            count[here] += 1
        else:
            rank[m], here = j, j
            m += 1
            size[j], count[j], last[j] = abs(x[j]), 1, j
    return Clusters(rank, size, count, sign, after, last), m


@compiled
def read(m: int, clusters: Any, x: Any) -> None:
    """x from its clusters."""
    x[:] = 0.0
    for i in range(m):
        j = clusters.rank[i]
        while j >= 0:
            x[j] = clusters.sign[j] * clusters.size[clusters.rank[i]]
            j = clusters.after[j]


@inner
def threshold(
    pull: float, bend: float, members: int, skip: int, m: int, clusters: Any, Lam: Any
) -> tuple[float, int, int]:
    """argmin over b ≥ 0 of ½ bend b² − pull b + r: b, its place in `rank`, and whom it meets or −1.

    `skip` is the cluster that moves; it is not in the way.
    """
    larger = 0
    for i in range(m):
        other = clusters.rank[i]
        if other == skip:
            continue
        b = (pull - (Lam[larger + members] - Lam[larger])) / bend
        if b > clusters.size[other]:
            return b, i, -1
        larger += clusters.count[other]
        if pull - (Lam[larger + members] - Lam[larger]) >= bend * clusters.size[other]:
            return clusters.size[other], i, other
    b = (pull - (Lam[larger + members] - Lam[larger])) / bend
    return max(b, 0.0), m, -1


@inner
def take_out(m: int, rank: Any, name: int) -> int:
    """Remove a cluster from `rank`; the place where it was."""
    at = 0
    while rank[at] != name:
        at += 1
    for i in range(at, m - 1):
        rank[i] = rank[i + 1]
    return at


@inner
def put_in(m: int, rank: Any, name: int, at: int) -> None:
    """Insert a cluster at a place of `rank`, which has m others."""
    for i in range(m, at, -1):
        rank[i] = rank[i - 1]
    rank[at] = name


@compiled
def cycles(
    X: Any, R: Any, m: int, clusters: Any, Lam: Any, max_cycles: int, tolerance: float
) -> tuple[int, float, int]:
    """Cycle until nothing moves by more than the tolerance (in |δ| times curvature, per member).

    A cycle visits the m clusters there are, largest first, then the coordinates at zero. X is a
    `Stored`. Returns the number of cycles, the last's largest move, and the number of clusters.
    """
    rank, size, count, sign, after, last = clusters
    L, mass = X.L, X.mass
    k, shift = sign.shape[0], R.shape[0] - 1
    d, visit = np.zeros_like(R), np.empty(k, np.int64)
    done, largest, inside = 0, np.inf, 0
    for i in range(m):
        inside += count[rank[i]]
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        visits = m
        visit[:m] = rank[:m]
        for v in range(visits):
            name = visit[v]
            members = count[name]
            if members == 0:  # it was joined to another in this cycle
                continue
            if members == 1:
                g = sign[name] * dot(X, name, R)
                bend = L[name]
            else:
                d[:] = 0
                j = name
                while j >= 0:
                    subtract(X, j, -sign[j], d)
                    j = after[j]
                g, bend = plain_dot(d, R, d.shape[0]), plain_dot(d, d, d.shape[0])
                if not X.dense:  # the last entry of d is a shift: minus the mean of Σ sign a_j
                    along = -d[shift] * mass
                    g += R[shift] * (along - d[shift])
                    bend -= d[shift] * d[shift] + along * along / mass
                # Opposite columns cancel: then the penalty alone decides, and the step is long.
                bend = max(bend, 1e-12 * members * L[name])
            pull = bend * size[name] + g
            turned = pull < 0.0
            b, put, met = threshold(abs(pull), bend, members, name, m, clusters, Lam)
            step = (-b if turned else b) - size[name]
            if step == 0.0:
                continue
            largest = max(largest, abs(step) * bend / members)
            if members == 1:
                subtract(X, name, step * sign[name], R)
            else:
                for i in range(R.shape[0]):
                    R[i] -= step * d[i]
            if turned or b == 0.0:
                j = name
                while j >= 0:
                    sign[j] = 0.0 if b == 0.0 else -sign[j]
                    j = after[j]
            was = take_out(m, rank, name)
            m -= 1
            if b == 0.0:
                inside -= members
                j = name
                while j >= 0:
                    following = after[j]
                    after[j] = -1
                    j = following
                count[name] = 0
            elif met >= 0:
                after[last[met]] = name
                last[met] = last[name]
                count[met] += members
                count[name] = 0
            else:
                size[name] = b
                put_in(m, rank, name, put - 1 if put > was else put)
                m += 1
        for j in range(k):
            if sign[j] != 0.0 or L[j] <= 0.0:
                continue
            g = dot(X, j, R)
            if abs(g) <= Lam[inside + 1] - Lam[inside]:
                continue
            b, put, met = threshold(abs(g), L[j], 1, -1, m, clusters, Lam)
            if b == 0.0:
                continue
            largest = max(largest, b * L[j])
            sign[j] = 1.0 if g > 0.0 else -1.0
            subtract(X, j, b * sign[j], R)
            inside += 1
            after[j] = -1
            if met >= 0:
                after[last[met]] = j
                last[met] = j
                count[met] += 1
            else:
                size[j], count[j], last[j] = b, 1, j
                put_in(m, rank, j, put)
                m += 1
        done += 1
    return done, largest, m
