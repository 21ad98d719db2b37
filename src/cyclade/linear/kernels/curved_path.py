"""A path of fits with a smooth convex loss, in one call: Newton models on products of columns.

At z the loss is replaced by Σ_i s_i [φ'_i δ_i + ½ φ''_i δ_i²], which is minimised together with the
penalty over the columns that may be in the solution (`gram.minimise`). On small tables a call of
NumPy costs as much as such a model, so all of it is compiled: the null model, the choice of
columns, the models, the line search, the loop over λ and the certificates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.kernels.dense import correlate
from cyclade.linear.kernels.gram import extrapolate, minimise
from cyclade.linear.kernels.gram_path import feasible, scale_table
from cyclade.linear.kernels.jit import compiled, inner, reductions
from cyclade.linear.kernels.linalg import dot, subtract
from cyclade.linear.kernels.shipped import distance, threshold, value
from cyclade.linear.kernels.smooth_losses import derivatives, loss, loss_conjugate
from cyclade.linear.limits import STEPS
from cyclade.linear.numerics import FLAT, SOLVED, SUM, TINY


class Rows(NamedTuple):
    """A table: columns by rows, targets, weights, offsets, the loss and whether c is fitted."""

    A: Any  # (p, n)
    y: Any
    s: Any
    offset: Any
    code: int
    intercept: bool


class Limits(NamedTuple):
    """How precisely models are minimised, and how many of them; fields of `Tuning` say more."""

    precision: float
    strong_step: float
    max_steps: int
    max_cycles: int


class Found(NamedTuple):
    """Where solutions go, one row for each λ."""

    coefs: Any
    intercepts: Any
    cycles: Any


@compiled
def fit(
    rows: Rows, x: Any, c: float, penalty: Any, lams: Any, goals: Any, limits: Limits, found: Found,
    objectives: Any, gaps: Any,
) -> bool:  # fmt: skip
    """`path` on centred columns from (x, c), and certificates on X; whether all goals were met.

    A single fit that starts elsewhere than at zero first looks whether that will do.
    """
    XT, y, s, offset, code, intercept = rows
    coefs, intercepts, cycles = found
    kind, unit = penalty
    p, n = XT.shape
    g, means, table = np.empty(p), np.zeros(p), np.empty_like(unit)
    if lams.shape[0] == 1 and largest(x) > 0.0:
        scale_table(unit, lams[0], table)
        F, gap = judge(rows, x, c, (kind, table), g)
        if gap <= 2.0 * goals[0]:
            coefs[0], intercepts[0], cycles[0], objectives[0], gaps[0] = x, c, 0, F, gap
            return True
    A = XT
    if intercept:
        A = np.empty_like(XT)
        for j in range(p):
            means[j] = dot(XT[j], s, n)
            for i in range(n):
                A[j, i] = XT[j, i] - means[j]
    start = c + dot(means, x, p)
    if not path(
        Rows(A, y, s, offset, code, intercept), x, start, penalty, lams, goals, limits, found
    ):
        return False
    for k in range(lams.shape[0]):
        intercepts[k] -= dot(means, coefs[k], p)
        scale_table(unit, lams[k], table)
        objectives[k], gaps[k] = judge(rows, coefs[k], intercepts[k], (kind, table), g)
    return True


@compiled
def largest_lam(kind: int, unit: Any, g: Any) -> float:
    """The smallest λ at which zero is stationary, as `penalty.lam_max`; infinite if none is."""
    out = 0.0
    for j in range(g.shape[0]):
        i = j if unit.shape[0] > 1 else 0
        pull = abs(g[j])
        if kind != 0:
            if unit[i, 2] > 0.0 or unit[i, 3] < 0.0:
                return math.inf
            if (unit[i, 3] if g[j] < 0.0 else unit[i, 2]) == 0.0:
                pull = 0.0
        if pull > 0.0 and unit[i, 0] > 0.0:
            out = max(out, pull / unit[i, 0])
    return out


@compiled
def stages(first: float, lam: float, step: float) -> Any:
    """Larger λ on the way from zero to λ, with one model each: few columns come in at a time."""
    if not 0.0 < lam < step * first < math.inf:
        return np.empty(0)
    count = math.ceil(math.log(lam / first) / math.log(step))  # in equal steps
    out = np.empty(count - 1)
    for k in range(count - 1):
        out[k] = first * (lam / first) ** ((k + 1) / count)
    return out


@inner
def judge(rows: Rows, x: Any, c: float, parameters: Any, g: Any) -> tuple[float, float]:
    """F and the duality gap at (x, c), as `certificate.dual_value`; g is overwritten.

    The dual point θ is φ', its entries of one sign shrunk until Σ s_i θ_i is zero, and then all.
    """
    XT, y, s, offset, code, intercept = rows
    n = XT.shape[1]
    z, slopes, w = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        z[i] = offset[i] + c if intercept else offset[i]
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            subtract(z, XT[j], -x[j], n)
    derivatives(code, y, s, z, slopes, w)
    F = loss(code, y, s, z)
    if intercept:
        slope = total(slopes)
        part = slope / (0.5 * (slope + math.copysign(np.abs(slopes).sum(), slope)))
        for i in range(n):
            slopes[i] *= 1.0 - part if slopes[i] * slope > 0.0 else 1.0
    gradient(XT, slopes, False, g)
    shrink, r, conjugates = feasible(parameters, x, g)
    F, dual = F + r, -conjugates
    dual += shrink * dot(slopes, offset, n)
    dual -= loss_conjugate(code, y, s, slopes, shrink)
    return F, 0.0 if dual > F else F - dual


@compiled
def path(
    rows: Rows, x: Any, c: float, penalty: Any, lams: Any, goals: Any, limits: Limits, found: Found
) -> bool:
    """Minimise Σ_i s_i φ(y_i, z_i) + r(x), z = Aᵀx + c + offset, for one λ after another.

    It starts at (x, c). At each λ there is at least one model and at most `max_steps`, until the
    duality gap is about the goal. A model is minimised to `precision` times its first distance. The
    first at a λ that is no less than `strong_step` times the last takes φ'' half-way to where the
    last step points. Row k of `coefs` is the solution for the k-th λ. Returns whether all goals
    were met; x is moved in any case.
    """
    A, y, s, offset, code, intercept = rows
    coefs, intercepts, cycles = found
    kind, unit = penalty
    p, n = A.shape
    table, zero, before = np.empty_like(unit), np.empty(p), np.empty(p)
    z, last_z, new_z, dz = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    slopes, new_slopes, w, new_w = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    row, last_x, this_x = np.empty(n), np.empty(p), np.empty(p)
    g, inside, V, sums = np.empty(p), np.empty(p, np.bool_), np.empty(p, np.int64), np.empty(p)
    for i in range(n):
        z[i] = offset[i] + c
    for j in range(p):
        subtract(z, A[j], -x[j], n)
    derivatives(code, y, s, z, slopes, w)
    slope = gradient(A, slopes, intercept, g)
    if not math.isfinite(slope + total(g)):
        return False
    for k in range(lams.shape[0]):
        scale_table(unit, lams[k], table)
        parameters, times = (kind, table), 0.0
        for j in range(p):
            zero[j], inside[j], this_x[j] = threshold(parameters, j), False, x[j]
            before[j] = zero[j] * lams[k - 1] / lams[k] if k > 0 else zero[j]
        near = k > 0 and lams[k] >= limits.strong_step * lams[k - 1]
        if near and k > 1:
            times = min((lams[k - 1] - lams[k]) / (lams[k - 2] - lams[k - 1]), 1.0)
            for i in range(n):
                new_z[i] = z[i] + 0.5 * times * (z[i] - last_z[i])
            derivatives(code, y, s, new_z, new_slopes, w)
        last_z[:] = z
        done, made, gap = 0, 0, math.inf
        while (
            (made == 0 or not gap <= goals[k])
            and made < limits.max_steps
            and done < limits.max_cycles
        ):
            m = choose(x, g, zero, before, made == 0 and near, inside, V)
            G, b, new, mass = np.empty((m, m)), np.empty(m), np.empty(m), total(w)
            weighted_products(A, w, V, m, G, sums, row)
            first = abs(slope)
            for a in range(m):
                j = V[a]
                new[a], b[a] = x[j], -g[j]
                first = max(first, distance(parameters, x[j], g[j], j))
            if intercept:  # minimised over first
                take_out(G, b, sums, slope, mass)
            if made == 0 and times > 0.0:
                extrapolate(x, last_x, times, V[:m], G, b, new)
            tolerance, left = limits.precision * first, limits.max_cycles - done
            done += minimise(
                G, b, new, diagonal(G), V[:m], parameters, zero, tolerance, left, False
            )
            dc, change, size = (-slope / mass if intercept else 0.0), 0.0, 0.0
            dz[:] = 0.0
            for a in range(m):
                j, d = V[a], new[a] - x[V[a]]
                if d != 0.0:
                    old, r = value(parameters, x[j], j), value(parameters, new[a], j)
                    change, size = change + r - old, size + r + old
                    subtract(dz, A[j], -d, n)
                    if intercept:
                        dc -= sums[a] / mass * d
            if intercept:
                for i in range(n):
                    dz[i] += dc
            made += 1
            t = search(rows, z, slopes, dz, change, size, (new_z, new_slopes, new_w))
            if t == 0.0:
                break
            c += t * dc
            for a in range(m):
                j = V[a]
                x[j] = new[a] if t == 1.0 else x[j] + t * (new[a] - x[j])
            z[:], slopes[:], w[:] = new_z, new_slopes, new_w
            slope = gradient(A, slopes, intercept, g)
            gap = duality_gap(parameters, x, g, slopes, w)
            if intercept:  # to bring Σ s φ' to zero costs the dual so much
                gap += abs(slope) * (1.0 + largest(z))
        cycles[k], intercepts[k] = max(done, 1), c
        for j in range(p):
            coefs[k, j], last_x[j] = x[j], this_x[j]
        if not gap <= goals[k]:
            return False
    return True


@inner
def gradient(A: Any, slopes: Any, intercept: bool, g: Any) -> float:
    """g = A slopes, and the slope in the intercept."""
    correlate(A, np.arange(A.shape[0]), slopes, g)
    return total(slopes) if intercept else 0.0


@inner
def choose(x: Any, g: Any, zero: Any, before: Any, first: bool, inside: Any, V: Any) -> int:
    """V = what is inside already, the support and what may come in; how many they are.

    For the `first` model at a λ not far from the last the strong rule says what may: no gradient is
    expected to grow by more than its threshold falls. Else it is what violates optimality.
    """
    m = 0
    for j in range(x.shape[0]):
        limit = 2.0 * zero[j] - before[j] if first else zero[j]
        if inside[j] or x[j] != 0.0 or abs(g[j]) > (1.0 + SOLVED) * limit:
            inside[j], V[m] = True, j
            m += 1
    return m


@reductions
def weighted_products(A: Any, w: Any, V: Any, m: int, G: Any, sums: Any, row: Any) -> None:
    """G = Σ_i w_i a_i a_iᵀ on the first m of the columns V, and sums = Σ_i w_i a_i."""
    n = A.shape[1]
    for a in range(m):
        own, whole = A[V[a]], 0.0
        for i in range(n):
            row[i] = w[i] * own[i]
            whole += row[i]
        sums[a] = whole
        b = 0
        while b + 3 <= a:  # four at once, so that the row is read once for four columns
            b0, b1, b2, b3 = A[V[b]], A[V[b + 1]], A[V[b + 2]], A[V[b + 3]]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                s0 += row[i] * b0[i]
                s1 += row[i] * b1[i]
                s2 += row[i] * b2[i]
                s3 += row[i] * b3[i]
            G[a, b], G[a, b + 1], G[a, b + 2], G[a, b + 3] = s0, s1, s2, s3
            b += 4
        while b <= a:
            G[a, b] = dot(row, A[V[b]], n)
            b += 1
        for b in range(a):
            G[b, a] = G[a, b]


@inner
def take_out(G: Any, b: Any, sums: Any, slope: float, mass: float) -> None:
    """The model once the intercept is minimised over: columns are centred under w."""
    for a in range(b.shape[0]):
        low, part = FLAT * G[a, a], sums[a] / mass
        b[a] += part * slope
        for q in range(b.shape[0]):
            G[a, q] -= part * sums[q]
        G[a, a] = max(G[a, a], low)


@inner
def diagonal(G: Any) -> Any:
    """The diagonal of G, positive."""
    L = np.empty(G.shape[0])
    for a in range(G.shape[0]):
        L[a] = max(G[a, a], TINY)
    return L


@inner
def search(rows: Rows, z: Any, slopes: Any, dz: Any, change: float, size: float, new: Any) -> float:
    """The length t of a step along dz that lowers F, 0 if there is none; and the loss there.

    h(t) = Σ s φ(z + t dz) + t · change is not less than F − r(x), as r is convex, and equal at 0
    and 1. h is convex too, so F has come down where h' ≤ 0. Where h' > 0, a short step with a small
    |h'| has lowered it as well: on a way of length 1 in z, φ'' of the losses here changes by no
    more than a factor e, and h would have to bend more at its start to end higher. `change` is a
    difference of terms of that `size`; slopes that are rounding count as none.
    """
    n, (new_z, new_slopes, new_w) = z.shape[0], new
    down, way, t = dot(slopes, dz, n) + change, largest(dz), 1.0
    noise = SUM * (np.abs(slopes * dz).sum() + size)
    if not down <= noise:
        return 0.0
    for _ in range(STEPS):
        for i in range(n):
            new_z[i] = z[i] + t * dz[i]
        derivatives(rows.code, rows.y, rows.s, new_z, new_slopes, new_w)
        left = dot(new_slopes, dz, n) + change
        if left <= noise or (left <= -0.5 * down and t * way <= 1.0):
            return t
        t *= 0.5
    return 0.0


@inner
def duality_gap(parameters: Any, x: Any, g: Any, slopes: Any, w: Any) -> float:
    """About what the duality gap is at x with gradient g.

    With θ = shrink · φ' feasible it is Σ_j r_j(x_j) + r_j*(−shrink g_j) + shrink g_j x_j, plus
    Σ_i s_i [φ + φ*(θ) − θz], which is ½ (1 − shrink)² Σ_i s_i φ'²/φ'' up to third order.
    """
    shrink, r, conjugates = feasible(parameters, x, g)
    out = r + conjugates + shrink * dot(g, x, x.shape[0])
    if shrink < 1.0:
        out += 0.5 * (1.0 - shrink) ** 2 * np.sum(slopes**2 / np.maximum(w, TINY))
    return out


@reductions
def total(v: Any) -> float:
    """Σ_i v_i."""
    out = 0.0
    for i in range(v.shape[0]):
        out += v[i]
    return out


@reductions
def largest(v: Any) -> float:
    """max_i |v_i|."""
    out = 0.0
    for i in range(v.shape[0]):
        out = max(out, abs(v[i]))
    return out
