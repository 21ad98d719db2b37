"""Columns of a panel, whichever way it is stored, and cyclic descent over them one at a time.

The problem is  min over x of ½‖R‖² + Σ_j r_j(x_j),  R = t − Aᵀx. Dense columns are rows of A, less
their centres. Sparse ones are centred implicitly: the last entry of R is a shift, and the true
residual is R[:n] + shift·√w. So no column is ever filled in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.kernels.ahead import ask_for, places_of
from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.shipped import prox


class StoredX(NamedTuple):
    """Columns of X for kernels: of a dense X rows of A, of a sparse one the rest."""

    dense: bool
    A: Any
    data: Any  # column j is data[starts[j]:starts[j + 1]], in those rows
    rows: Any
    starts: Any


class Stored(NamedTuple):
    """Columns of a panel: those of a `StoredX`, and what cycles have to know of them."""

    dense: bool
    A: Any
    data: Any
    rows: Any
    starts: Any
    sums: Any  # sparse: a_j · √w where an intercept is profiled out, else zeros; dense: the centres
    mass: float  # Σ w
    L: Any  # ‖a_j‖²
    w: float  # of all rows where R holds √w once more, since columns do not; else 1


@reductions
def dot(X: Any, j: int, R: Any) -> float:
    """a_j · R."""
    s = R[0] * 0
    if X.dense:
        a, centre = X.A[j], X.sums[j]
        for i in range(a.shape[0]):
            s += (a[i] - centre) * R[i]
        return float(s)
    for e in range(X.starts[j], X.starts[j + 1]):
        s += X.data[e] * R[X.rows[e]]
    return float(s) + R[R.shape[0] - 1] * X.sums[j]  # type: ignore[no-any-return]


@reductions
def subtract(X: Any, j: int, d: float, R: Any) -> None:
    """R ← R − d a_j, and as R holds it."""
    step = R[0] * 0 + d * X.w
    if X.dense:
        a, centre = X.A[j], X.sums[j]
        for i in range(a.shape[0]):
            R[i] -= step * (a[i] - centre)
    else:
        for e in range(X.starts[j], X.starts[j + 1]):
            R[X.rows[e]] -= step * X.data[e]
        R[R.shape[0] - 1] += d * X.sums[j] / X.mass


@compiled
def cycles(
    X: Any, R: Any, x: Any, cols: Any, order: Any, parameters: Any, zero_threshold: Any,
    max_cycles: int, tolerance: float,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over `order` until no column moves by more than the tolerance (in |δ_j| L_j).

    Returns the number of cycles and the largest move of the last. X is a `Stored`, and `cols` maps
    its columns to coordinates. A zero with a_j · R up to its threshold, if there are any, stays.
    """
    done, largest = 0, np.inf
    stays, places = zero_threshold.shape[0] > 0, places_of(X.data, X.rows)
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in range(order.shape[0]):
            if not X.dense:
                ask_for(places, X.starts, order, k)
            j = order[k]
            g = dot(X, j, R)
            if stays and x[j] == 0 and abs(g) <= zero_threshold[cols[j]]:
                continue
            t = 1.0 / X.L[j]
            d = R[0] * 0 + (prox(parameters, x[j] + g * t, t, cols[j]) - x[j])
            if d != 0:
                x[j] += d
                largest = max(largest, abs(d) * X.L[j])
                subtract(X, j, d, R)
        done += 1
    return done, largest
