"""Cyclic descent in the space of the coefficients, with the products G = A Aᵀ of all columns.

The problem is  min over x of ½ xᵀGx − bᵀx + r(x).  The correlations c = b − Gx follow the
coefficients without a residual: a column that moves costs one row of G instead of two passes over
its entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.kernels.linalg import factor, substitute, subtract, subtract_four
from cyclade.linear.kernels.shipped import distance, prox, value
from cyclade.linear.limits import LENGTHS, TRIES
from cyclade.linear.numerics import EPS, SOLVED


@compiled
def cycles(
    G: Any, c: Any, x: Any, L: Any, cols: Any, parameters: Any, max_cycles: int, tolerance: float
) -> tuple[int, float]:
    """Cycle over all columns of G until no |δ_j| L_j exceeds the tolerance; cycles, last move.

    The last (up to four) moves are subtracted from c together, so that c is read and written once
    for four rows of G; until then each c_j is corrected for them when it is needed.
    """
    done, largest, k = 0, np.inf, x.shape[0]
    at, moves = np.zeros(4, np.int64), np.zeros(4)
    while done < max_cycles and largest > tolerance:
        largest, pending = 0.0, 0
        for j in range(k):
            g, t = c[j], 1.0 / L[j]
            for a in range(pending):
                g -= moves[a] * G[at[a], j]
            new = prox(parameters, x[j] + g * t, t, cols[j])
            d = new - x[j]
            if d != 0.0:
                x[j] = new
                largest = max(largest, abs(d) * L[j])
                at[pending], moves[pending] = j, d
                pending += 1
                if pending == 4:
                    subtract_four(c, G, at, moves)
                    pending = 0
        for a in range(pending):
            subtract(c, G[at[a]], moves[a], k)
        done += 1
    return done, largest


@compiled
def minimise(
    G: Any, c: Any, x: Any, L: Any, cols: Any, parameters: Any, zero_threshold: Any,
    tolerance: float, max_cycles: int, polish: bool,
) -> int:  # fmt: skip
    """Cycles and Newton steps until no |δ_j| L_j exceeds the tolerance; the number of cycles.

    The method of `Gram.minimise` in `cyclade.linear.subproblem.gram` in one call: a model of a
    hundred columns takes less time than ten calls of NumPy. Newton steps follow whenever the cycles
    have cost as much as one, and with `polish` at the end. While coordinates leave the support
    they are made in a row: cycles would only bring those back.
    """
    done, wait, steps, k = 0, 8, TRIES, x.shape[0]
    for j in range(x.shape[0]):
        tolerance = max(tolerance, EPS * (abs(c[j]) + L[j] * abs(x[j])))
    while done < max_cycles:
        m = np.count_nonzero(x)
        made, largest = cycles(
            G, c, x, L, cols, parameters, min(wait + m * m // (4 * k), max_cycles - done), tolerance
        )
        done += made
        converged = largest <= tolerance
        if done >= max_cycles or (converged and not polish):
            break
        taken = False
        for _ in range(steps):
            step, left = newton_step(G, c, x, L, cols, parameters, zero_threshold)
            taken = taken or step
            if not (step and left):
                break
        else:
            steps *= 2
        if converged:
            break
        if not taken:
            wait *= 2
    return done


@inner
def newton_step(
    G: Any, c: Any, x: Any, L: Any, cols: Any, parameters: Any, zero_threshold: Any
) -> tuple[bool, bool]:
    """A Newton step on the support, as `Gram.newton_step`: was it taken, did a coordinate leave."""
    k, m = x.shape[0], 0
    full, slope = np.empty(k), np.empty(k)
    S = np.flatnonzero(x)
    for a in range(S.shape[0]):  # r' and r'' where r is smooth; see BoundPenalty.derivatives
        j = S[a]
        h = 1e-6 * abs(x[j])
        ahead = distance(parameters, x[j] + h, 0.0, cols[j])
        behind = distance(parameters, x[j] - h, 0.0, cols[j])
        bend = np.copysign((ahead - behind) / (2.0 * h), x[j] * (ahead - behind))
        if np.isfinite(bend) and (behind != 0.0 or ahead == 0.0):
            S[m], full[m] = j, bend
            slope[m] = np.copysign(distance(parameters, x[j], 0.0, cols[j]), x[j])
            m += 1
    H = np.empty((m, m))
    for a in range(m):
        for b in range(a + 1):
            H[a, b] = G[S[a], S[b]]
        H[a, a] += full[a] + SOLVED * L[S[a]]
    if m == 0 or not factor(H):
        return False, False
    for a in range(m):
        full[a] = c[S[a]] - slope[a]
    substitute(H, full, m)
    return step((G, c, x, L, cols), S[:m], full[:m], parameters, zero_threshold)


@compiled
def step(model: Any, S: Any, full: Any, parameters: Any, zero_threshold: Any) -> tuple[bool, bool]:
    """Move x on S towards x + full, and c: does the model fall, and does a coordinate leave.

    Coordinates that change sign stop at zero, if r has a kink there. Shorter steps are tried while
    the model does not fall, finally the one on which only the first coordinate gets to zero.
    """
    G, c, x, _, cols = model
    k, m = x.shape[0], S.shape[0]
    new, first, r = np.empty(m), 1.0, 0.0
    for a in range(m):
        j = S[a]
        r += value(parameters, x[j], cols[j])
        if zero_threshold[cols[j]] != 0.0 and (x[j] + full[a]) * x[j] < 0.0:
            first = min(first, -x[j] / full[a])
    for attempt in range(len(LENGTHS) + 1):
        t = LENGTHS[attempt] if attempt < len(LENGTHS) else first
        Gd, change, left = np.zeros(k), -r, False
        for a in range(m):
            j = S[a]
            new[a] = x[j] + t * full[a]
            if zero_threshold[cols[j]] != 0.0 and new[a] * x[j] < SOLVED * x[j] * x[j]:
                new[a], left = 0.0, True
            change += value(parameters, new[a], cols[j])
            subtract(Gd, G[j], x[j] - new[a], k)
        for a in range(m):
            change += (new[a] - x[S[a]]) * (0.5 * Gd[S[a]] - c[S[a]])
        if change < 0.0:
            for a in range(m):
                x[S[a]] = new[a]
            subtract(c, Gd, 1.0, k)
            return True, left
    return False, False


@compiled
def extrapolate(x: Any, before: Any, times: float, cols: Any, G: Any, c: Any, new: Any) -> None:
    """new = x + times (x − before) on `cols`, and c ← c − G (new − x); zero is not crossed.

    Along a path coefficients go on about as they went: a better start than where they are.
    """
    for k in range(cols.shape[0]):
        j = cols[k]
        new[k] = x[j]
        if x[j] != 0.0 and x[j] != before[j]:
            there = x[j] + times * (x[j] - before[j])
            new[k] = there if there * x[j] > 0.0 else 0.0
            subtract(c, G[k], new[k] - x[j], c.shape[0])


@compiled
def submatrix(G: Any, chosen: Any, out: Any) -> None:
    """out = G on the chosen rows and columns."""
    for a in range(chosen.shape[0]):
        row, put = G[chosen[a]], out[a]
        for b in range(chosen.shape[0]):
            put[b] = row[chosen[b]]
