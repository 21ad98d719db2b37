"""An active-set method for ½ xᵀGx − bᵀx + Σ_j λ_j |x_j|, one coordinate in or out at a time.

On a support S with signs s the minimum is where c_S = λ_S s with c = b − Gx: a linear system, whose
Cholesky factor F Fᵀ = G_SS follows S at k² per change. A step towards it ends where a coordinate
gets to zero, which then leaves; at the minimum the coordinate that violates |c_j| ≤ λ_j most comes
in. Columns that are nearly dependent, as when S has as many columns as X has rows, cost no more
than others here, while cycles hardly move along what they have in common. G need only be positive
definite on the first S: a coordinate along which it is not stays out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.kernels.linalg import append, backward, dot, forward, remove


@compiled
def pivots(
    G: Any, c: Any, x: Any, lam: Any, F: Any, S: Any, k: int, max_pivots: int, goal: float
) -> tuple[int, int, int]:
    """Change the support at most `max_pivots` times, until |c_j| ≤ λ_j + goal at zeros.

    Returns the changes, its size, and how many coordinates were kept out. S holds the k coordinates
    with x ≠ 0 and F the factor of G_SS; both have room for all.

    y = F⁻¹ (c_S − λ_S s) is what is left to go: a step of length t leaves 1 − t of it, and at the
    minimum of S only the coordinate that comes in has any. So it need not be solved for.
    """
    m = x.shape[0]
    inside, barred = np.zeros(m, np.bool_), np.zeros(m, np.bool_)
    d, y, moved, begun = np.empty(m), np.empty(m), np.zeros(m), c.copy()
    sign, done, kept_out, corrections, solved = np.sign(x), 0, 0, 0, False
    for i in range(k):
        inside[S[i]] = True
    while True:
        if not solved:
            for i in range(k):
                y[i] = c[S[i]] - lam[S[i]] * sign[S[i]]
            forward(F, y, k)
            solved = True
        for i in range(k):
            d[i] = y[i]
        backward(F, d, k)
        t, out = 1.0, -1
        for i in range(k):
            j = S[i]
            if (x[j] + d[i]) * sign[j] < 0.0 and -x[j] / d[i] < t:
                t, out = -x[j] / d[i], i
        for i in range(k):
            x[S[i]] += t * d[i]
            moved[S[i]] += t * d[i]
            y[i] *= 1.0 - t
        if out >= 0:
            x[S[out]], inside[S[out]] = 0.0, False
            remove(F, S, k, out, y)
            k -= 1
        if out < 0 or done == max_pivots:
            for j in range(m):  # c of the zeros is needed only now
                if not inside[j]:
                    c[j] = begun[j] - dot(G[j], moved, m)
            new = entering(c, lam, inside, barred, goal)
            while new >= 0 and done < max_pivots and not append(F, G, S, k, new):
                barred[new], kept_out = True, kept_out + 1
                new = entering(c, lam, inside, barred, goal)
            if new < 0 or done == max_pivots:
                left = 0.0
                for i in range(k):
                    j = S[i]
                    c[j] = begun[j] - dot(G[j], moved, m)
                    left = max(left, abs(c[j] - lam[j] * sign[j]))
                if done == max_pivots or left <= goal or corrections == 2:
                    break
                corrections, solved = corrections + 1, False  # rounding errors have added up
                continue
            S[k], inside[new], sign[new] = new, True, np.sign(c[new])
            y[k] = (c[new] - lam[new] * sign[new]) / F[k, k]
            k += 1
        done += 1
    return done, k, kept_out


@inner
def entering(c: Any, lam: Any, inside: Any, barred: Any, goal: float) -> int:
    """The zero that violates |c_j| ≤ λ_j most, by more than the goal; −1 if none."""
    worst, new = goal, -1
    for j in range(c.shape[0]):
        if not inside[j] and not barred[j] and abs(c[j]) - lam[j] > worst:
            worst, new = abs(c[j]) - lam[j], j
    return new
