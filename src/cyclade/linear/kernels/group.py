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
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.dense import add_rows, correlate
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.linalg import factor, substitute
from cyclade.linear.kernels.shipped import soft_threshold
from cyclade.linear.kernels.storage import dot, subtract

FLAT = 1e-14  # of the largest eigenvalue: smaller ones count as zero
RIDGE = 1e-12  # of the trace of DDᵀ: steps may be dependent


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
    Each step squares the error: after one of 1e-9 only rounding is left.
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
            flat = d[d0 + i] <= FLAT * top or top <= 0.0
            c[i] = x[i] if flat else c[i] / d[d0 + i]


@compiled
def rotated_step(
    g: Any, x: Any, x0: int, Q: Any, q0: int, d: Any, d0: int, m: int, lam: float,
    c: Any, now: Any, move: Any,
) -> None:  # fmt: skip
    """move ← argmin − x for a group with H = Q diag(d) Qᵀ and ν = 0; c and now are scratch."""
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
        move[h] = -x[x0 + h] if zero else a  # zeros are exact, however Q is rounded


@compiled
def sparse_step(
    g: Any, x: Any, x0: int, H: Any, q0: int, L: float, m: int, lam: float, nu: float, steps: int,
    v: Any, last: Any, move: Any,
) -> None:  # fmt: skip
    """move ← argmin − x for λ‖v‖_2 + ν‖v‖_1, by proximal steps on the group itself.

    The first is the plain step with L, the largest eigenvalue of H; later ones are accelerated,
    and restart where momentum points uphill. They cost m² each, little beside reading a column.
    If they end higher than they began, the plain step alone is made: it never does.
    """
    while True:
        accelerated_steps(g, x, x0, H, q0, L, m, lam, nu, steps, v, last, move)
        if steps == 1 or decrease(g, x, x0, H, q0, m, lam, nu, move) >= 0.0:
            break
        steps = 1


@compiled
def accelerated_steps(
    g: Any, x: Any, x0: int, H: Any, q0: int, L: float, m: int, lam: float, nu: float, steps: int,
    v: Any, last: Any, move: Any,
) -> None:  # fmt: skip
    """See `sparse_step`; v is where the gradient is taken, last the latest iterate."""
    for i in range(m):
        v[i], last[i] = x[x0 + i], x[x0 + i]
    momentum = 1.0
    for step in range(steps):
        square = 0.0
        for i in range(m):
            a = g[i]
            if step > 0:
                for h in range(m):
                    a -= H[q0 + i * m + h] * (v[h] - x[x0 + h])
            move[i] = soft_threshold(v[i] + a / L, nu / L)
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
        if change <= 1e-13 * scale:  # v is a fixed point of its own step: a minimum, zero or not
            break
    for i in range(m):
        move[i] = last[i] - x[x0 + i]


@compiled
def decrease(
    g: Any, x: Any, x0: int, H: Any, q0: int, m: int, lam: float, nu: float, move: Any
) -> float:
    """By how much the problem on the group falls from x to x + move."""
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


@compiled
def block_step(
    g: Any, x: Any, x0: int, m: int, Q: Any, q0: int, q1: int, D: Any, levels: Any, rotated: bool,
    steps: int, c: Any, now: Any, move: Any,
) -> float:  # fmt: skip
    """Move a block to its minimiser, or towards it; move ← by what, and ‖move‖ max D.

    `levels` are λ and ν of the block. Its Hessian is Q[q0:q1] and D, as for `cycles`: eigenvectors
    if `rotated`, else the matrix for so many proximal `steps`, one if there is none (q0 = q1).
    """
    lam, nu, top, length = levels[0], levels[1], 0.0, 0.0
    for i in range(m):
        move[i], top = 0.0, max(top, D[x0 + i])
    if top <= 0.0:  # a block of zeros: only the penalty depends on it
        for i in range(m):
            x[x0 + i] = 0.0 if lam + nu > 0.0 else x[x0 + i]
        return 0.0
    if rotated and q0 < q1:
        rotated_step(g, x, x0, Q, q0, D, x0, m, lam, c, now, move)
    else:
        steps = steps if q0 < q1 else 1
        sparse_step(g, x, x0, Q, q0, top, m, lam, nu, steps, c, now, move)
    for i in range(m):
        length += move[i] * move[i]
        x[x0 + i] += move[i]
    return top * math.sqrt(length)


@compiled
def cycles(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, sums: Any, mass: float, R: Any, b: Any,
    x: Any, starts: Any, place: Any, order: Any, Q: Any, q0: Any, D: Any, table: Any, rotated: bool,
    inner: int, max_cycles: int, tolerance: float, past_x: Any, past_R: Any,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over the groups of `order` until no ‖δ_k‖ L_k exceeds the tolerance; cycles, last move.

    b holds what A R lacks of the correlations (see `GroupPanel`), `table` λ_k and ν_k. The Hessian
    of group k is described by Q[q0[k]:q0[k + 1]] and D: if `rotated`, by its eigenvectors and
    eigenvalues; if not, Q holds the matrix, D its largest eigenvalue, and `inner` proximal steps
    are made. Groups without a matrix (q0[k] = q0[k + 1]) make one such step. The point after each
    cycle is written to the next row of the past.
    """
    widest = 1
    for k in order:
        widest = max(widest, starts[k + 1] - starts[k])
    g, c, now, d = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    step, columns = np.empty(widest, R.dtype), np.arange(A.shape[0])
    done, largest = 0, np.inf
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in order:
            first, m, own = starts[k], starts[k + 1] - starts[k], place[k]
            if dense:
                correlate(A, columns[own : own + m], R, g)
            else:
                for i in range(m):
                    g[i] = dot(dense, A, data, rows, at, sums, own + i, R)
            for i in range(m):
                g[i] += b[first + i]
            size = block_step(
                g, x, first, m, Q, q0[k], q0[k + 1], D, table[k], rotated, inner, c, now, d
            )
            for i in range(m):
                step[i] = -d[i]
            if size > 0.0:
                if dense:
                    add_rows(A, columns[own : own + m], step, R, 0)
                else:
                    for i in range(m):
                        subtract(dense, A, data, rows, at, sums, mass, own + i, d[i], R)
                largest = max(largest, size)
        done += 1
        if done < past_x.shape[0]:
            copy_blocks(x, starts, order, past_x[done])
            for i in range(R.shape[0]):
                past_R[done, i] = R[i]
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
        gram[i, i] += RIDGE * size
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
