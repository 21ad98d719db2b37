"""A path of least-squares fits under λ (ρ w_j |x_j| + ½ (1 − ρ) x_j²) and bounds, in one call.

With the products G of all columns a fit is cycles on p numbers. On small tables a call of NumPy
costs as much as a fit, so the loop over λ and the certificates are compiled as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.gram import extrapolate, minimise
from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.kernels.shipped import conjugate, threshold, value
from cyclade.linear.numerics import SUM


@inner
def scale_table(unit: Any, lam: float, table: Any) -> None:
    """table = unit at λ: its first two columns are multiples of λ."""
    for i in range(unit.shape[0]):
        for k in range(unit.shape[1]):
            table[i, k] = lam * unit[i, k] if k < 2 else unit[i, k]


@compiled
def path(
    model: Any, penalty: Any, lams: Any, tol: float, max_cycles: int, coefs: Any, cycles: Any
) -> None:
    """Minimise ½ xᵀGx − bᵀx + r(x) for one λ after another, from x with c = b − Gx.

    Each is brought to moves of `tol` times its largest threshold. Row k of `coefs` is the solution
    for the k-th λ.
    """
    (G, c, x, L), (kind, unit), p = model, penalty, coefs.shape[1]
    cols, zero, new, table = np.arange(p), np.empty(p), np.empty(p), np.empty_like(unit)
    for k in range(lams.shape[0]):
        scale_table(unit, lams[k], table)
        if k > 1 and lams[k - 2] > lams[k - 1] > lams[k]:
            ahead = (lams[k - 1] - lams[k]) / (lams[k - 2] - lams[k - 1])
            extrapolate(x, coefs[k - 2], ahead, cols, G, c, new)
            for j in range(p):
                x[j] = new[j]
        top = 0.0
        for j in range(p):
            zero[j] = threshold((kind, table), j)
            if zero[j] < math.inf:
                top = max(top, zero[j])
        cycles[k] = minimise(G, c, x, L, cols, (kind, table), zero, tol * top, max_cycles, False)
        for j in range(p):
            coefs[k, j] = x[j]


@inner
def excess(parameters: Any, g: Any) -> float:
    """The largest τ ≥ 1 with −g/τ not inside the domain of r*."""
    kind, table = parameters
    over = 1.0
    for j in range(g.shape[0]):
        i = j if table.shape[0] > 1 else 0
        curved = False
        if kind != 0:
            bound = table[i, 3] if g[j] < 0.0 else table[i, 2]
            curved = table[i, 1] > 0.0 or abs(bound) < math.inf
        if not curved and abs(g[j]) > over * table[i, 0]:
            over = abs(g[j]) / table[i, 0]
    return over


@inner
def feasible(parameters: Any, x: Any, g: Any) -> tuple[float, float, float]:
    """How far −g is shrunk into the domain of r*; r(x) and r* there."""
    over, r, conjugates = excess(parameters, g), 0.0, 0.0
    shrink = (1.0 - SUM) / over if over > 1.0 else 1.0
    for j in range(g.shape[0]):
        r += value(parameters, x[j], j)
        if parameters[0] != 0:
            conjugates += conjugate(parameters, -shrink * g[j], j)
    return shrink, r, conjugates


@compiled
def bounds(
    kind: int, unit: Any, lams: Any, coefs: Any, g: Any, squares: Any, along: Any,
    objectives: Any, gaps: Any,
) -> None:  # fmt: skip
    """For every λ: F and the duality gap, from g, Σ s u² and Σ s u y at x.

    The dual point is θ = shrink · u, with −g shrunk into the domain of r*, where
    φ*(y, θ) = θy + ½θ².
    """
    table = np.empty_like(unit)
    for k in range(lams.shape[0]):
        scale_table(unit, lams[k], table)
        shrink, r, conjugates = feasible((kind, table), coefs[k], g[k])
        objectives[k] = r + 0.5 * squares[k]
        dual = -shrink * (along[k] + 0.5 * shrink * squares[k]) - conjugates
        gap = objectives[k] - dual
        gaps[k] = 0.0 if gap < 0.0 else gap  # NaN stays
