"""Cyclic descent over groups of columns, dense or sparse, with an exact or proximal step on each.

The problem is  min over x of ½‖R‖² + Σ_k λ_k‖x_k‖_2 + ν_k‖x_k‖_1,  R = t − Aᵀx.  The columns of
group k lie side by side in A from place[k] on; its coefficients are x[starts[k]:starts[k + 1]].

With b = g + H x (g = A_k R minus the gradient at x, H = A_k A_kᵀ the Hessian of the group) the
problem on one group is

    min over v of ½ vᵀHv − bᵀv + λ‖v‖_2 + ν‖v‖_1.

Where ν = 0 it is solved in the eigenbasis of H, with c = Qᵀb: v = 0 if ‖b‖ ≤ λ, and otherwise
v_i = ρ c_i / (d_i ρ + λ), where ρ = ‖v‖ is the root of one equation in one unknown.

Anderson extrapolation combines the points after the last cycles: with steps d_i = x_i − x_{i−1} the
weights c minimise ‖Σ_i c_i d_i‖ subject to Σ c = 1, so they are proportional to the solution of
(DDᵀ) c = 1.

Sums and distances of these penalties come last.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.kernels.jit import compiled, pasted
from cyclade.linear.kernels.linalg import factor, substitute
from cyclade.linear.kernels.shipped import soft_threshold, value
from cyclade.linear.kernels.storage import dots, subtract_all
from cyclade.linear.limits import STEPS
from cyclade.linear.numerics import FLAT, ROOT, SOLVED
from cyclade.linear.penalties.formulas import L1, slope


class Blocks(NamedTuple):
    """Groups of entries: the Hessian H of each, and the penalty h_k(‖x_k‖) + ν_k‖x_k‖_1.

    Entries of Q from q0[k] on hold the eigenvectors of group k if `rotated`, and D its eigenvalues;
    else Q holds H for so many proximal `steps`, and D its largest eigenvalue. A group with q0[k] =
    q0[k + 1] has no matrix.
    """

    starts: Any
    Q: Any
    q0: Any
    D: Any
    table: Any  # λ_k, γ_k, the lowest entry, ν_k, and the kind of formula in the norm
    rotated: bool
    steps: int


@compiled
def level(table: Any, k: int, size: float) -> float:
    """The derivative of h_k at ‖x_k‖ = size: λ_k of a norm, less where h_k is concave."""
    kind = int(table[k, 4])
    return table[k, 0] if kind == L1 else slope(kind, table, k, size)


@compiled
def norm_of(x: Any, first: int, last: int) -> float:
    """‖x‖ over some entries."""
    square = 0.0
    for e in range(first, last):
        square += x[e] * x[e]
    return math.sqrt(square)


@compiled
def copy_blocks(source: Any, starts: Any, blocks: Any, target: Any) -> None:
    """target ← source on the entries of these blocks."""
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            target[e] = source[e]


@compiled
def norm_root(c: Any, d: Any, d0: int, m: int, lam: float, start: float) -> float:
    """The root ρ > 0 of h(ρ) = Σ_i c_i² / (d_i ρ + λ)² = 1, where ‖c‖ > λ > 0.

    1/√h is increasing and concave in ρ, so Newton's method climbs to the root from any point on its
    left, and from the right falls to the left at once. (‖c‖ − λ)/max d bounds the root from below.
    Each step squares the error: after one of √eps only rounding is left.
    """
    top, size = 0.0, 0.0
    for i in range(m):
        top = max(top, d[d0 + i])
        size += c[i] * c[i]
    lowest = (math.sqrt(size) - lam) / top
    rho = max(start, lowest)
    for _ in range(STEPS):
        h, slope = 0.0, 0.0
        for i in range(m):
            e = 1.0 / (d[d0 + i] * rho + lam)
            q = (c[i] * e) ** 2
            h += q
            slope += q * d[d0 + i] * e
        new = max(rho + h * (math.sqrt(h) - 1.0) / slope, lowest)
        if abs(new - rho) <= ROOT * new:
            return new
        rho = new
    return rho


@compiled
def diagonal_solve(c: Any, x: Any, d: Any, d0: int, m: int, lam: float, size: float) -> None:
    """c ← argmin over v of ½ Σ d_i v_i² − c·v + λ‖v‖; `size` = ‖x‖ at the present point x.

    Without a unique minimiser (λ = 0 and a flat direction) v stays at x.
    """
    total, top = 0.0, 0.0
    for i in range(m):
        total += c[i] * c[i]
        top = max(top, d[d0 + i])
    if lam > 0.0:
        if total <= lam * lam or top <= 0.0:
            for i in range(m):
                c[i] = 0.0
        else:
            rho = norm_root(c, d, d0, m, lam, size)
            for i in range(m):
                c[i] = rho * c[i] / (d[d0 + i] * rho + lam)
    else:
        for i in range(m):
            flat = d[d0 + i] <= SOLVED * top or top <= 0.0
            c[i] = x[i] if flat else c[i] / d[d0 + i]


@pasted
def rotated_step(g: Any, x: Any, k: int, blocks: Any, c: Any, now: Any, move: Any) -> None:
    """move ← argmin − x for a group with H = Q diag(D) Qᵀ and ν = 0; c and now are scratch.

    A concave h is replaced by the line that touches it at ‖x‖: F falls all the same.
    """
    x0, m, q0, Q = blocks.starts[k], blocks.starts[k + 1] - blocks.starts[k], blocks.q0[k], blocks.Q
    size = 0.0
    for i in range(m):
        a, b = 0.0, 0.0
        for h in range(m):
            q = Q[q0 + h * m + i]
            a += q * g[h]
            b += q * x[x0 + h]
        now[i], c[i] = b, a + blocks.D[x0 + i] * b
        size += b * b
    size = math.sqrt(size)
    diagonal_solve(c, now, blocks.D, x0, m, level(blocks.table, k, size), size)
    zero = True
    for i in range(m):
        zero = zero and c[i] == 0.0
        c[i] -= now[i]
    for h in range(m):
        a = 0.0
        for i in range(m):
            a += Q[q0 + h * m + i] * c[i]
        move[h] = -x[x0 + h] if zero else a  # zeros are exact, however Q is rounded


@pasted
def sparse_step(g: Any, x: Any, k: int, blocks: Any, L: float, v: Any, move: Any) -> None:
    """move ← argmin − x for h(‖v‖) + ν‖v‖_1, perhaps with v ≥ 0, by proximal steps on the group.

    The first is the plain step with L, the largest eigenvalue of H. Each lowers F, and costs m²:
    little beside reading a column. A group whose matrix is not known makes one.
    """
    x0, m, q0 = blocks.starts[k], blocks.starts[k + 1] - blocks.starts[k], blocks.q0[k]
    low, nu = blocks.table[k, 2], blocks.table[k, 3]
    lam = level(blocks.table, k, norm_of(x, x0, x0 + m))
    for i in range(m):
        v[i] = x[x0 + i]
    for step in range(blocks.steps if q0 < blocks.q0[k + 1] else 1):
        square, change, scale = 0.0, 0.0, 0.0
        for i in range(m):
            a = g[i]
            if step > 0:
                for h in range(m):
                    a -= blocks.Q[q0 + i * m + h] * (v[h] - x[x0 + h])
            move[i] = max(soft_threshold(v[i] + a / L, nu / L), low)
            square += move[i] * move[i]
        size = math.sqrt(square)
        shrink = 1.0 - lam / (L * size) if size * L > lam else 0.0
        for i in range(m):
            change = max(change, abs(shrink * move[i] - v[i]))
            v[i] = shrink * move[i]
            scale = max(scale, abs(v[i]))
        if change <= SOLVED * scale:  # a fixed point is the minimum, zero or not
            break
    for i in range(m):
        move[i] = v[i] - x[x0 + i]


@pasted
def block_step(g: Any, x: Any, k: int, blocks: Any, c: Any, now: Any, move: Any) -> float:
    """Move block k to its minimiser, or towards it; move ← by what, and ‖move‖ max D."""
    x0, m = blocks.starts[k], blocks.starts[k + 1] - blocks.starts[k]
    top, length = 0.0, 0.0
    for i in range(m):
        move[i], top = 0.0, max(top, blocks.D[x0 + i])
    if top <= 0.0:  # a block of zeros: only the penalty depends on it
        for i in range(m):
            x[x0 + i] = 0.0 if blocks.table[k, 0] + blocks.table[k, 3] > 0.0 else x[x0 + i]
        return 0.0
    if blocks.rotated and blocks.q0[k] < blocks.q0[k + 1]:
        rotated_step(g, x, k, blocks, c, now, move)
    else:
        sparse_step(g, x, k, blocks, top, c, move)
    for i in range(m):
        length += move[i] * move[i]
        x[x0 + i] += move[i]
    return top * math.sqrt(length)


@compiled
def cycles(
    X: Any, blocks: Any, place: Any, order: Any, R: Any, b: Any, x: Any, max_cycles: int,
    tolerance: float, past: Any,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over the groups of `order` until no ‖δ_k‖ L_k exceeds the tolerance; cycles, last move.

    X is a `Stored`, R is (T, n), and b holds what A R lacks of the correlations (see `GroupPanel`).
    The point after each cycle is written to the next row of the past, (x, R).
    """
    widest, starts, T = 1, blocks.starts, R.shape[0]
    for k in order:
        widest = max(widest, starts[k + 1] - starts[k])
    g, c, now, d = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in order:
            first, m, own = starts[k], (starts[k + 1] - starts[k]) // T, place[k]
            for i in range(m):
                dots(X, own + i, R, g[T * i : T * i + T])
            for e in range(T * m):
                g[e] += b[first + e]
            size = block_step(g, x, k, blocks, c, now, d)
            for i in range(m if size > 0.0 else 0):
                subtract_all(X, own + i, d[T * i : T * i + T], R)
            largest = max(largest, size)
        done += 1
        if done < past[0].shape[0]:
            copy_blocks(x, starts, order, past[0][done])
            for t in range(T):
                for i in range(R.shape[1]):
                    past[1][done, t, i] = R[t, i]
    return done, largest


@compiled
def anderson_weights(past: Any, starts: Any, blocks: Any, c: Any) -> bool:
    """c of the points after the first, from the entries of the blocks; False if there is none."""
    depth = past.shape[0] - 1
    gram, step = np.zeros((depth, depth)), np.empty(depth)
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            for i in range(depth):
                step[i] = past[i + 1, e] - past[i, e]
            for i in range(depth):
                for j in range(i + 1):
                    gram[i, j] += step[i] * step[j]
    size = np.trace(gram)
    for i in range(depth):
        gram[i, i] += FLAT * size
        c[i] = 1.0
    if not factor(gram):  # no step at all, too
        return False
    substitute(gram, c, depth)
    total = c.sum()
    c /= total
    return bool(total != 0.0 and np.isfinite(total))


@compiled
def anderson_combine(
    past_x: Any, past_R: Any, starts: Any, blocks: Any, c: Any, x: Any, R: Any
) -> None:
    """x ← Σ_i c_i x_i on the blocks, R ← Σ_i c_i R_i."""
    depth = c.shape[0]
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            s = 0.0
            for i in range(depth):
                s += c[i] * past_x[i + 1, e]
            x[e] = s
    for e in range(R.shape[0]):
        s = 0.0
        for i in range(depth):
            s += c[i] * past_R[i + 1, e]
        R[e] = s


@compiled
def total(x: Any, starts: Any, table: Any, blocks: Any) -> float:
    """Σ r_k(x_k) over the blocks."""
    out = 0.0
    for k in blocks:
        size = norm_of(x, starts[k], starts[k + 1])
        out += value((int(table[k, 4]), table), size, k)
        for e in range(starts[k], starts[k + 1]):
            out += table[k, 3] * abs(x[e]) if x[e] >= table[k, 2] else math.inf
    return out


@compiled
def distances(x: Any, g: Any, starts: Any, table: Any, blocks: Any, out: Any) -> None:
    """out_i = dist(−g_k, ∂r_k(x_k)) for the i-th of the blocks, k = blocks[i]."""
    for i in range(blocks.shape[0]):
        k = blocks[i]
        nu, bounded = table[k, 3], table[k, 2] == 0.0
        size, far = norm_of(x, starts[k], starts[k + 1]), 0.0
        lam = level(table, k, size)
        for e in range(starts[k], starts[k + 1]):
            ge = g[e]
            if size > 0.0:
                ge += lam * x[e] / size
            if x[e] == 0.0:
                ge = max((-ge if bounded else abs(ge)) - nu, 0.0)
            else:
                ge += math.copysign(nu, x[e])
            far += ge * ge
        far = math.sqrt(far)
        out[i] = far if size > 0.0 else max(far - lam, 0.0)
