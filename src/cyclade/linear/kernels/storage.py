"""Columns of a panel, whichever way it is stored, and cyclic descent over them one at a time.

The problem is  min over x of ½‖R‖² + Σ_j r_j(x_j),  R = t − Aᵀx. Dense columns are rows of A, less
their centres. Sparse ones are centred implicitly: the last entry of R is a shift, and the true
residual is R[:n] + shift·√w. So no column is ever filled in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.kernels.ahead import ask_for, places_of
from cyclade.linear.kernels.jit import compiled, pasted, reductions
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.kernels.sparse import dot as sparse_dot


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
def centred_dot(a: Any, centre: float, R: Any) -> float:
    """(a − centre) · R."""
    s = R.dtype.type(0)
    for i in range(a.shape[0]):
        s += (a[i] - centre) * R[i]
    return s  # type: ignore[no-any-return]


@reductions
def centred_subtract(a: Any, centre: float, d: float, R: Any) -> None:
    """R ← R − d (a − centre)."""
    for i in range(a.shape[0]):
        R[i] -= d * (a[i] - centre)


@pasted
def dot(X: Any, j: int, R: Any) -> float:
    """a_j · R."""
    if X.dense:
        return float(centred_dot(X.A[j], X.sums[j], R))
    g = sparse_dot(X.data, X.rows, X.starts[j], X.starts[j + 1], R)
    return float(g) + R[R.shape[0] - 1] * X.sums[j]  # type: ignore[no-any-return]


@pasted
def subtract(X: Any, j: int, d: float, R: Any) -> None:
    """R ← R − d a_j, and as R holds it."""
    step = R.dtype.type(d * X.w)
    if X.dense:
        centred_subtract(X.A[j], X.sums[j], step, R)
    else:
        for e in range(X.starts[j], X.starts[j + 1]):
            R[X.rows[e]] -= step * X.data[e]
        R[R.shape[0] - 1] += d * X.sums[j] / X.mass


@reductions
def dense_dots(a: Any, centre: float, R: Any, out: Any) -> None:
    """out_t = (a − centre) · R_t."""
    for t in range(R.shape[0]):
        s, r = R.dtype.type(0), R[t]
        for i in range(a.shape[0]):
            s += (a[i] - centre) * r[i]
        out[t] = s


@reductions
def dense_subtract_all(a: Any, centre: float, d: Any, R: Any) -> None:
    """R_t ← R_t − d_t (a − centre)."""
    for t in range(R.shape[0]):
        step, r = R.dtype.type(d[t]), R[t]
        for i in range(a.shape[0]):
            r[i] -= step * (a[i] - centre)


@pasted
def dots(X: Any, j: int, R: Any, out: Any) -> None:
    """out_t = a_j · R_t."""
    if X.dense:
        dense_dots(X.A[j], X.sums[j], R, out)
    else:
        for t in range(R.shape[0]):
            out[t] = dot(X, j, R[t])


@pasted
def subtract_all(X: Any, j: int, d: Any, R: Any) -> None:
    """R_t ← R_t − d_t a_j, for columns with weights."""
    if X.dense:
        dense_subtract_all(X.A[j], X.sums[j], d, R)
    else:
        for t in range(R.shape[0]):
            subtract(X, j, d[t], R[t])


@compiled
def cycles(
    X: Any, R: Any, x: Any, cols: Any, order: Any, parameters: Any, zero_threshold: Any,
    max_cycles: int, tolerance: float,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over `order` until no column moves by more than the tolerance (in |δ_j| L_j).

    Returns the number of cycles and the largest move of the last. X is a `Stored`, and `cols` maps
    its columns to coordinates. A zero with a_j · R up to its threshold, if there are any, stays.
    """
    A, data, rows, starts, sums, L = X.A, X.data, X.rows, X.starts, X.sums, X.L
    done, largest, shift = 0, np.inf, 0.0 if X.dense else float(R[-1])
    stays, places = zero_threshold.shape[0] > 0, places_of(data, rows)
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in range(order.shape[0]):
            j = order[k]
            if X.dense:
                g = float(centred_dot(A[j], sums[j], R))
            else:
                ask_for(places, starts, order, k)
                g = float(sparse_dot(data, rows, starts[j], starts[j + 1], R)) + shift * sums[j]
            if stays and x[j] == 0 and abs(g) <= zero_threshold[cols[j]]:
                continue
            t = 1.0 / L[j]
            d = x.dtype.type(prox(parameters, x[j] + g * t, t, cols[j]) - x[j])
            if d != 0:
                x[j] += d
                largest = max(largest, abs(d) * L[j])
                step = R.dtype.type(d * X.w)
                if X.dense:
                    centred_subtract(A[j], sums[j], step, R)
                else:
                    for e in range(starts[j], starts[j + 1]):
                        R[rows[e]] -= step * data[e]
                    shift += d * sums[j] / X.mass
        done += 1
    if not X.dense:
        R[-1] = shift
    return done, largest
