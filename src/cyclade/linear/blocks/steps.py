"""Exact minimisation of a quadratic and a norm over one block, compiled.

With b = g + H x (g the negative gradient at x, H the Hessian of the block) the block problem is

    min over v of ½ vᵀHv − bᵀv + λ‖v‖_2 + ν‖v‖_1.

Where ν = 0 it is solved in the eigenbasis of H, with c = Qᵀb: v = 0 if ‖b‖ ≤ λ, and otherwise
v_i = ρ c_i / (d_i ρ + λ), where ρ = ‖v‖ is the root of one equation in one unknown.
"""

from __future__ import annotations

import math
from typing import Any

from cyclade.linear.kernels.jit import compiled

FLAT = 1e-14  # eigenvalues below this fraction of the largest count as zero


@compiled
def copy(source: Any, target: Any) -> None:
    """target ← source; a loop compiles in a tenth of the time of an array assignment."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@compiled
def copy_blocks(source: Any, starts: Any, blocks: Any, target: Any) -> None:
    """As `copy`, on the entries of these blocks alone."""
    for k in blocks:
        for e in range(starts[k], starts[k + 1]):
            target[e] = source[e]


@compiled
def copy_matrix(source: Any, target: Any) -> None:
    """As `copy`, for matrices."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@compiled
def norm_root(c: Any, d: Any, d0: int, m: int, lam: float, start: float) -> float:
    """The root ρ > 0 of h(ρ) = Σ_i c_i² / (d_i ρ + λ)² = 1, where ‖c‖ > λ > 0.

    1/√h is increasing and concave in ρ, so Newton climbs to the root from any point on its left,
    and from the right falls to the left at once. (‖c‖ − λ)/max d bounds the root from below. Each
    step squares the error: after one of 1e-9 nothing but rounding is left.
    """
    top, size = 0.0, 0.0
    for i in range(m):
        top = max(top, d[d0 + i])
        size += c[i] * c[i]
    lowest = (math.sqrt(size) - lam) / top
    rho = max(start, lowest)
    for _ in range(60):
        h, slope = 0.0, 0.0
        for i in range(m):
            e = 1.0 / (d[d0 + i] * rho + lam)
            q = (c[i] * e) ** 2
            h += q
            slope += q * d[d0 + i] * e
        new = max(rho + h * (math.sqrt(h) - 1.0) / slope, lowest)
        if abs(new - rho) <= 1e-9 * new:
            return new
        rho = new
    return rho


@compiled
def diagonal_solve(c: Any, x: Any, d: Any, d0: int, m: int, lam: float, size: float) -> None:
    """c ← argmin over v of ½ Σ d_i v_i² − c·v + λ‖v‖; `size` = ‖x‖ at the present point x.

    Where nothing is at stake (λ = 0 and a flat direction) v stays at x.
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
            flat = d[d0 + i] <= FLAT * top or top <= 0.0
            c[i] = x[i] if flat else c[i] / d[d0 + i]


@compiled
def block_step(
    g: Any, x: Any, x0: int, Q: Any, q0: int, q1: int, D: Any, m: int, lam: float, nu: float,
    top: float, rotated: bool, inner: int, c: Any, now: Any, move: Any,
) -> None:  # fmt: skip
    """move ← argmin − x for the block at x0, whose Hessian is described by Q[q0:q1] and D.

    `rotated`: Q holds its eigenvectors and D its eigenvalues, and the minimum is exact. Otherwise Q
    holds the Hessian itself, and `inner` proximal steps are made. Where q0 = q1 there is neither:
    D holds a bound on the curvature, and one proximal step is made. `top` is the largest of D.
    """
    if rotated and q0 < q1:
        rotated_step(g, x, x0, Q, q0, D, x0, m, lam, c, now, move)
    else:
        most = inner if q0 < q1 else 1
        sparse_step(g, x, x0, Q, q0, top, m, lam, nu, most, c, now, move)


@compiled
def rotated_step(
    g: Any, x: Any, x0: int, Q: Any, q0: int, d: Any, d0: int, m: int, lam: float,
    c: Any, now: Any, move: Any,
) -> None:  # fmt: skip
    """move ← argmin − x for a block with H = Q diag(d) Qᵀ and ν = 0; c and now are scratch."""
    size = 0.0
    for i in range(m):
        a, b = 0.0, 0.0
        for h in range(m):
            q = Q[q0 + h * m + i]
            a += q * g[h]
            b += q * x[x0 + h]
        now[i], c[i] = b, a + d[d0 + i] * b
        size += b * b
    diagonal_solve(c, now, d, d0, m, lam, math.sqrt(size))
    zero = True
    for i in range(m):
        zero = zero and c[i] == 0.0
        c[i] -= now[i]
    for h in range(m):
        a = 0.0
        for i in range(m):
            a += Q[q0 + h * m + i] * c[i]
        move[h] = -x[x0 + h] if zero else a  # zeros are exact, whatever Q rounds


@compiled
def sparse_step(
    g: Any, x: Any, x0: int, H: Any, q0: int, L: float, m: int, lam: float, nu: float, most: int,
    v: Any, last: Any, move: Any,
) -> None:  # fmt: skip
    """move ← argmin − x for λ‖v‖_2 + ν‖v‖_1: at most `most` proximal steps on the block itself.

    The first is the plain step with L, the largest eigenvalue of H; later ones are accelerated,
    and restart where momentum points uphill. They cost m² each, next to nothing beside a column.
    Should they end higher than they began, the plain step alone is made: it never does.
    """
    steps = most
    while True:
        accelerated_steps(g, x, x0, H, q0, L, m, lam, nu, steps, v, last, move)
        if steps == 1 or gain(g, x, x0, H, q0, m, lam, nu, move) >= 0.0:
            break
        steps = 1


@compiled
def accelerated_steps(
    g: Any, x: Any, x0: int, H: Any, q0: int, L: float, m: int, lam: float, nu: float, most: int,
    v: Any, last: Any, move: Any,
) -> None:  # fmt: skip
    """See `sparse_step`; v is where the gradient is taken, last the latest iterate."""
    for i in range(m):
        v[i], last[i] = x[x0 + i], x[x0 + i]
    momentum = 1.0
    for step in range(most):
        square = 0.0
        for i in range(m):
            a = g[i]
            if step > 0:
                for h in range(m):
                    a -= H[q0 + i * m + h] * (v[h] - x[x0 + h])
            u, cut = v[i] + a / L, nu / L
            move[i] = u - cut if u > cut else (u + cut if u < -cut else 0.0)
            square += move[i] * move[i]
        size = math.sqrt(square)
        shrink = 1.0 - lam / (L * size) if size * L > lam else 0.0
        change, uphill, scale = 0.0, 0.0, 0.0
        for i in range(m):
            move[i] *= shrink
            uphill += (v[i] - move[i]) * (move[i] - last[i])
            change = max(change, abs(move[i] - v[i]))
            scale = max(scale, abs(move[i]))
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        if uphill > 0.0:
            following = 1.0
        beta = (momentum - 1.0) / following if uphill <= 0.0 else 0.0
        momentum = following
        for i in range(m):
            v[i] = move[i] + beta * (move[i] - last[i])
            last[i] = move[i]
        if change <= 1e-13 * scale:  # v is where its own step leads: a minimum, zero or not
            break
    for i in range(m):
        move[i] = last[i] - x[x0 + i]


@compiled
def gain(
    g: Any, x: Any, x0: int, H: Any, q0: int, m: int, lam: float, nu: float, move: Any
) -> float:
    """By how much the block problem falls from x to x + move."""
    out, before, after = 0.0, 0.0, 0.0
    for i in range(m):
        a = 0.0
        for h in range(m):
            a += H[q0 + i * m + h] * move[h]
        out += move[i] * (g[i] - 0.5 * a)
        out += nu * (abs(x[x0 + i]) - abs(x[x0 + i] + move[i]))
        before += x[x0 + i] ** 2
        after += (x[x0 + i] + move[i]) ** 2
    return out + lam * (math.sqrt(before) - math.sqrt(after))
