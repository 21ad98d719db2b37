"""Cycles on a quadratic model of the loss, over sparse columns of X where they lie.

With slopes u and weights w by rows, the model is  uᵀdz + ½ Σ_i w_i dz_i² + r(x),  dz = A dx + dc.
`v` is its gradient in z for dc = 0. With an intercept c, the model is minimised over dc at every
step: then column j has the gradient  a_j·v − (a_j·w) Σv / Σw.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.kernels.ahead import ask_for, places_of
from cyclade.linear.kernels.jit import compiled
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.kernels.sparse import dot


class ModelAt(NamedTuple):
    """A quadratic model, and the columns that it is minimised over."""

    v: Any  # its gradient in z, which moves with x
    w: Any  # weights of rows
    mass: float  # Σ w with an intercept; infinite without
    columns: Any
    sums: Any  # a_j · w, by columns
    L: Any  # curvature of the columns


@compiled
def weigh(X: Any, model: Any, least: float) -> None:
    """Fill in the sums and curvatures of the columns."""
    w = model.w
    for k in range(model.columns.shape[0]):
        j, sums, squares = model.columns[k], 0.0, 0.0
        for e in range(X.starts[j], X.starts[j + 1]):
            weighted = X.data[e] * w[X.rows[e]]
            sums += weighted
            squares += X.data[e] * weighted
        model.sums[k] = sums
        model.L[k] = max(squares - sums * sums / model.mass, least * squares, 1e-38)


@compiled
def cycles(
    X: Any, model: Any, x: Any, parameters: Any, zero_threshold: Any, target: float, part: float,
    most: int,
) -> tuple[int, float]:  # fmt: skip
    """Cycle until a cycle over all columns moves slopes by no more than `target`, in sum.

    Columns that rest at zero, by more than the largest move of the cycle before, are left out until
    the others have come to the target. Where the
    first cycle has come to it, a `part` of what that moved is the target. Returns the cycles made
    and the target. x is by columns of X.
    """
    v, places, every = model.v, places_of(X.data, X.rows), model.columns.shape[0]
    cols, at = model.columns.copy(), np.arange(every)  # the first `many` are active
    many, made, total, far = every, 0, v.sum(), np.inf
    while made < most:
        moved, largest, k = 0.0, 0.0, 0
        while k < many:
            ask_for(places, X.starts, cols[:many], k)
            j, i = cols[k], at[k]
            first, last = X.starts[j], X.starts[j + 1]
            g = dot(X.data, X.rows, first, last, v) - model.sums[i] * total / model.mass
            if x[j] == 0.0 and abs(g) <= zero_threshold[j]:
                if abs(g) <= zero_threshold[j] - far:
                    many -= 1
                    cols[k], at[k], cols[many], at[many] = cols[many], at[many], j, i
                else:
                    k += 1
                continue
            d = prox(parameters, x[j] - g / model.L[i], 1.0 / model.L[i], j) - x[j]
            if d != 0.0:
                x[j] += d
                total += d * model.sums[i]
                moved += abs(d) * model.L[i]
                largest = max(largest, abs(d) * model.L[i])
                for e in range(first, last):
                    v[X.rows[e]] += d * X.data[e] * model.w[X.rows[e]]
            k += 1
        made, far = made + 1, largest
        if made == 1 and moved <= target:
            target = part * moved
        if moved <= target:
            if many == every:
                break
            many, far = every, np.inf
    return made, target
