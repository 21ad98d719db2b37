"""Columns of a panel, whichever way it is stored: rows of a dense A, or sparse columns.

Kernels whose loop is the same for both take `dense, A, data, rows, at, sums, mass`: of a dense
panel A is used, of a sparse one column j is data[at[j]:at[j + 1]] in those rows. Dense columns are
centred. Sparse ones are centred implicitly: the last entry of R is a shift, the true residual is
R[:n] + shift·√w, `sums` holds a_j · √w and `mass` is Σ w.
"""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import reductions


@reductions
def dot(dense: bool, A: Any, data: Any, rows: Any, at: Any, sums: Any, j: int, R: Any) -> float:
    """a_j · R."""
    s = R[0] * 0
    if dense:
        a = A[j]
        for i in range(a.shape[0]):
            s += a[i] * R[i]
        return float(s)
    for e in range(at[j], at[j + 1]):
        s += data[e] * R[rows[e]]
    return float(s) + R[R.shape[0] - 1] * sums[j]  # type: ignore[no-any-return]


@reductions
def subtract(
    dense: bool, A: Any, data: Any, rows: Any, at: Any, sums: Any, mass: float, j: int, d: float,
    R: Any,
) -> None:  # fmt: skip
    """R ← R − d a_j."""
    step = R[0] * 0 + d
    if dense:
        a = A[j]
        for i in range(a.shape[0]):
            R[i] -= step * a[i]
    else:
        for e in range(at[j], at[j + 1]):
            R[rows[e]] -= step * data[e]
        R[R.shape[0] - 1] += d * sums[j] / mass
