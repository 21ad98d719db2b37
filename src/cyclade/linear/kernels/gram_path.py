"""A path of least-squares fits under λ (ρ w_j |x_j| + ½ (1 − ρ) x_j²) and bounds, in one call.

With the products G of all columns a fit is cycles on p numbers. On small tables a call of NumPy
costs as much as a fit, so the loop over λ and the certificates are compiled as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.kernels.gram import minimise
from cyclade.linear.kernels.jit import compiled, inner
from cyclade.linear.kernels.shipped import conjugate, threshold, value


@inner
def scale_table(unit: Any, lam: float, table: Any) -> None:
    """table = unit at λ: its first two columns are multiples of λ."""
    for i in range(unit.shape[0]):
        for k in range(unit.shape[1]):
            table[i, k] = lam * unit[i, k] if k < 2 else unit[i, k]


@compiled
def path(
    G: Any, c: Any, x: Any, L: Any, kind: int, unit: Any, lams: Any, tol: float, max_cycles: int,
    coefs: Any, cycles: Any,
) -> None:  # fmt: skip
    """Minimise ½ xᵀGx − bᵀx + r(x) for one λ after another, from x with c = b − Gx.

    Each is brought to moves of `tol` times its largest threshold. Row k of `coefs` is the solution
    for the k-th λ.
    """
    p = x.shape[0]
    cols, zero, table = np.arange(p), np.empty(p), np.empty_like(unit)
    for k in range(lams.shape[0]):
        scale_table(unit, lams[k], table)
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


@compiled
def bounds(
    kind: int, unit: Any, lams: Any, coefs: Any, g: Any, r: Any, shrink: Any, conjugates: Any
) -> None:
    """For every λ: r(x), the factor that shrinks −g into the domain of r*, and r* there."""
    table = np.empty_like(unit)
    for k in range(lams.shape[0]):
        scale_table(unit, lams[k], table)
        over = excess((kind, table), g[k])
        shrink[k] = (1.0 - 1e-15) / over if over > 1.0 else 1.0
        r[k], conjugates[k] = 0.0, 0.0
        for j in range(g.shape[1]):
            r[k] += value((kind, table), coefs[k, j], j)
            if kind != 0:
                conjugates[k] += conjugate((kind, table), -shrink[k] * g[k, j], j)
