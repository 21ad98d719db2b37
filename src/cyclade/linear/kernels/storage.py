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


@reductions
def subtract_block(A: Any, first: int, m: int, d: Any, R: Any) -> None:
    """R ← R − Σ_i d_i a_i for m dense columns from `first`, four at a time."""
    n = A.shape[1]
    for k in range(0, m - m % 4, 4):
        a0, a1, a2, a3 = A[first + k], A[first + k + 1], A[first + k + 2], A[first + k + 3]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for i in range(n):
            R[i] -= (a0[i] * d0 + a1[i] * d1) + (a2[i] * d2 + a3[i] * d3)
    for k in range(m - m % 4, m):
        a0, d0 = A[first + k], d[k]
        for i in range(n):
            R[i] -= a0[i] * d0
