"""Columns of a panel, whichever way it is stored: rows of a dense A, or sparse columns.

Dense columns are centred. Sparse ones are centred implicitly: the last entry of R is a shift, and
the true residual is R[:n] + shift·√w.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cyclade.linear.kernels.jit import reductions


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
    sums: Any  # a_j · √w where an intercept is profiled out, else zeros
    mass: float  # Σ w
    L: Any  # ‖a_j‖²
    w: float  # of all rows where R holds √w once more, since columns do not; else 1


@reductions
def dot(X: Any, j: int, R: Any) -> float:
    """a_j · R."""
    s = R[0] * 0
    if X.dense:
        a = X.A[j]
        for i in range(a.shape[0]):
            s += a[i] * R[i]
        return float(s)
    for e in range(X.starts[j], X.starts[j + 1]):
        s += X.data[e] * R[X.rows[e]]
    return float(s) + R[R.shape[0] - 1] * X.sums[j]  # type: ignore[no-any-return]


@reductions
def subtract(X: Any, j: int, d: float, R: Any) -> None:
    """R ← R − d a_j."""
    step = R[0] * 0 + d
    if X.dense:
        a = X.A[j]
        for i in range(a.shape[0]):
            R[i] -= step * a[i]
    else:
        for e in range(X.starts[j], X.starts[j + 1]):
            R[X.rows[e]] -= step * X.data[e]
        R[R.shape[0] - 1] += d * X.sums[j] / X.mass
