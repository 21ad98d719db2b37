"""Cyclic descent on sparse columns, and the products with X that the outer loop needs.

Centring is implicit: the last entry of R is a number `shift`, and the residual is R[:n] + shift·√w.
So profiling an intercept out costs O(1) per column and no column is ever filled in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.kernels.jit import compiled, reductions
from cyclade.linear.kernels.shipped import prox


@reductions
def correlate_all(data: Any, rows: Any, starts: Any, v: Any, out: Any) -> None:
    """out = Xᵀv: one index less to read per column than `correlate`."""
    for j in range(out.shape[0]):
        s = v[0] * 0
        for e in range(starts[j], starts[j + 1]):
            s += data[e] * v[rows[e]]
        out[j] = s


@reductions
def correlate(data: Any, rows: Any, starts: Any, columns: Any, v: Any, out: Any) -> None:
    """out_k = a_{columns[k]} · v."""
    for k in range(columns.shape[0]):
        s = v[0] * 0
        for e in range(starts[columns[k]], starts[columns[k] + 1]):
            s += data[e] * v[rows[e]]
        out[k] = s


@compiled
def add_columns(data: Any, rows: Any, starts: Any, columns: Any, x: Any, z: Any) -> None:
    """z ← z + Σ_k x_k a_{columns[k]}."""
    for k in range(columns.shape[0]):
        j = columns[k]
        for e in range(starts[j], starts[j + 1]):
            z[rows[e]] += data[e] * x[k]


@compiled
def gather(
    data: Any, rows: Any, starts: Any, columns: Any, root: Any, out: Any, out_rows: Any,
    out_starts: Any, sums: Any, L: Any, at: int,
) -> None:  # fmt: skip
    """The chosen columns times √w, one after another from `at`; √w-sums and squared norms."""
    for k in range(columns.shape[0]):
        j = columns[k]
        out_starts[k] = at
        s, q = 0.0, 0.0
        for e in range(starts[j], starts[j + 1]):
            i = rows[e]
            scaled = data[e] * root[i]
            out[at], out_rows[at] = scaled, i
            at += 1
            s += scaled * root[i]
            q += scaled * scaled
        sums[k], L[k] = s, q
    out_starts[columns.shape[0]] = at


@reductions
def moments(data: Any, starts: Any, columns: Any, sums: Any, L: Any) -> None:
    """The sum and the squared norm of each chosen column."""
    for k in range(columns.shape[0]):
        s, q = 0.0, 0.0
        for e in range(starts[columns[k]], starts[columns[k] + 1]):
            s += data[e]
            q += data[e] * data[e]
        sums[k], L[k] = s, q


@reductions
def norms(data: Any, starts: Any, out: Any) -> None:
    """out_j = ‖a_j‖."""
    for j in range(out.shape[0]):
        s = 0.0
        for e in range(starts[j], starts[j + 1]):
            s += float(data[e]) * float(data[e])
        out[j] = np.sqrt(s)


@reductions
def dot(data: Any, rows: Any, first: int, last: int, R: Any) -> float:
    """a_j · R."""
    s = R[0] * 0
    for e in range(first, last):
        s += data[e] * R[rows[e]]
    return s  # type: ignore[no-any-return]


@compiled
def cycles(
    data: Any, rows: Any, starts: Any, sums: Any, mass: float, R: Any, x: Any, L: Any, cols: Any,
    order: Any, parameters: Any, w: float, max_cycles: int, tolerance: float,
) -> tuple[int, float]:  # fmt: skip
    """Cycle over `order` until no column moves by more than the tolerance (in |δ_j| L_j).

    Returns the number of cycles and the largest move of the last. `sums` holds a_j·√w where an
    intercept is profiled out, else zeros; `mass` is Σ w. The number w is 1 for columns that hold
    √w; it is the weight of all rows for those that do not, and R then holds √w once more.
    """
    done, largest, shift = 0, np.inf, float(R[R.shape[0] - 1])
    while done < max_cycles and largest > tolerance:
        largest = 0.0
        for k in range(order.shape[0]):
            j = order[k]
            if L[j] <= 0.0:
                continue
            first, last = starts[j], starts[j + 1]
            g = dot(data, rows, first, last, R) + shift * sums[j]
            t = 1.0 / L[j]
            d = R[0] * 0 + (prox(parameters, x[j] + g * t, t, cols[j]) - x[j])
            if d != 0:
                x[j] += d
                shift += d * sums[j] / mass
                largest = max(largest, abs(d) * L[j])
                d *= w
                for e in range(first, last):
                    R[rows[e]] -= d * data[e]
        done += 1
    R[R.shape[0] - 1] = shift
    return done, largest
