"""A quadratic model of few columns, minimised in one call: cycles, and Newton steps on the support.

The same method as `Gram.minimise` of `cyclade.linear.subproblem.gram`, without NumPy calls: along a
path a model of a hundred columns takes less time than ten such calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.gram import subtract, subtract_four
from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.shipped import distance, prox, soft_threshold, value
from cyclade.linear.penalties.formulas import L1

IN_A_ROW = 8  # Newton steps, while coordinates leave the support
LENGTHS = (1.0, 0.5, 0.25, 0.0625)  # of a Newton step, until the model falls


@reductions
def factor(H: Any) -> bool:
    """Cholesky's lower factor of H in its place; no if H is not positive definite."""
    for i in range(H.shape[0]):
        row = H[i]
        for j in range(i + 1):
            other, s = H[j], row[j]
            for a in range(j):
                s -= row[a] * other[a]
            if j < i:
                row[j] = s / other[j]
            elif s > 0.0:
                row[i] = np.sqrt(s)
            else:
                return False
    return True


@compiled
def solve(F: Any, b: Any) -> None:
    """b ← (F Fᵀ)⁻¹ b."""
    k = b.shape[0]
    for i in range(k):
        for a in range(i):
            b[i] -= F[i, a] * b[a]
        b[i] /= F[i, i]
    for i in range(k - 1, -1, -1):
        b[i] /= F[i, i]
        subtract(b[:i], F[i, :i], b[i])


@compiled
def ahead(x: Any, before: Any, times: float, cols: Any, G: Any, c: Any, new: Any) -> None:
    """new = x + times (x − before) on `cols`, and c ← c − G (new − x); zero is not crossed.

    Along a path coefficients go on about as they went: a better start than where they are.
    """
    for k in range(cols.shape[0]):
        j = cols[k]
        new[k] = x[j]
        if x[j] != 0.0 and x[j] != before[j]:
            there = x[j] + times * (x[j] - before[j])
            new[k] = there if there * x[j] > 0.0 else 0.0
            subtract(c, G[k], new[k] - x[j])


@compiled
def minimise(
    G: Any, c: Any, x: Any, L: Any, cols: Any, parameters: Any, zero_threshold: Any, goal: float,
    most: int, exact: bool,
) -> int:  # fmt: skip
    """Minimise ½ xᵀGx − bᵀx + r(x), with c = b − Gx, until no |δ_j| L_j exceeds `goal`.

    x and c are changed in place; the number of cycles comes back. A Newton step follows whenever
    the cycles have cost as much, and if `exact` at the end.
    """
    k, done, wait = x.shape[0], 0, 8 + x.shape[0] // 4
    full, slope, new = np.empty(k), np.empty(k), np.empty(k)
    t, plain = 1.0 / L, parameters[0] == L1
    at, moves = np.zeros(4, np.int64), np.zeros(4)  # that c does not know of yet
    while done < most:
        largest, last = np.inf, min(most, done + wait)
        while done < last and largest > goal:
            largest, late = 0.0, 0
            for j in range(k):
                v = c[j]
                for a in range(late):
                    v -= moves[a] * G[j, at[a]]
                v = x[j] + t[j] * v
                if plain:  # by far the most common, and cheaper without a call
                    u = soft_threshold(v, t[j] * zero_threshold[cols[j]])
                else:
                    u = prox(parameters, v, t[j], cols[j])
                d = u - x[j]
                if d != 0.0:
                    x[j] = u
                    largest = max(largest, abs(d) * L[j])
                    at[late], moves[late] = j, d
                    late += 1
                    if late == 4:
                        subtract_four(c, G, at, moves)
                        late = 0
            for a in range(late):
                subtract(c, G[at[a]], moves[a])
            done += 1
        settled = largest <= goal
        if done >= most or (settled and not exact):
            break
        taken = False
        for _ in range(IN_A_ROW):
            S = np.flatnonzero(x)
            m = 0
            for a in range(S.shape[0]):  # r' and r'' where r is smooth; see Compiled.derivatives
                j = S[a]
                h = 1e-6 * abs(x[j])
                ahead = distance(parameters, x[j] + h, 0.0, cols[j])
                behind = distance(parameters, x[j] - h, 0.0, cols[j])
                bend = np.copysign((ahead - behind) / (2.0 * h), x[j] * (ahead - behind))
                if np.isfinite(bend) and (behind != 0.0 or ahead == 0.0):
                    S[m], full[m] = j, bend
                    slope[m] = np.copysign(distance(parameters, x[j], 0.0, cols[j]), x[j])
                    m += 1
            S = S[:m]
            H = np.empty((m, m))
            for a in range(m):
                for b in range(a + 1):
                    H[a, b] = G[S[a], S[b]]
                H[a, a] += full[a] + 1e-13 * L[S[a]]
            if m == 0 or not factor(H):
                break
            for a in range(m):
                full[a] = c[S[a]] - slope[a]
            solve(H, full[:m])
            first, r = 1.0, 0.0
            for a in range(m):
                j = S[a]
                r += value(parameters, x[j], cols[j])
                if zero_threshold[cols[j]] != 0.0 and (x[j] + full[a]) * x[j] < 0.0:
                    first = min(first, -x[j] / full[a])
            lower, left = False, False
            for attempt in range(len(LENGTHS) + 1):
                part = LENGTHS[attempt] if attempt < len(LENGTHS) else first
                Gd, change, left = np.zeros(k), -r, False
                for a in range(m):
                    j = S[a]
                    new[a] = x[j] + part * full[a]
                    if zero_threshold[cols[j]] != 0.0 and new[a] * x[j] < 1e-14 * x[j] * x[j]:
                        new[a], left = 0.0, True
                    change += value(parameters, new[a], cols[j])
                    subtract(Gd, G[j], x[j] - new[a])
                for a in range(m):
                    change += (new[a] - x[S[a]]) * (0.5 * Gd[S[a]] - c[S[a]])
                if change < 0.0:
                    lower = True
                    break
            if not lower:
                break
            for a in range(m):
                x[S[a]] = new[a]
            for j in range(k):
                c[j] -= Gd[j]
            taken = True
            if not left:
                break
        if settled:
            break
        if not taken:
            wait *= 2
    return done
