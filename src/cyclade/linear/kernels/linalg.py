"""Vectors, triangles and the Cholesky factorisation H = F Fᵀ, F lower triangular.

Large matrices go to LAPACK (`cholesky`, `solve`); `factor` and `substitute` do the same inside
kernels, where matrices are small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.jit import compiled, reductions

Array = NDArray[Any]


def cholesky(H: Array) -> Array | None:
    """The factor of a symmetric H, which is overwritten; None if H is not positive definite.

    Examples
    --------
    >>> F = cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> solve(F, np.array([8.0, 12.0]))
    array([1., 2.])
    >>> cholesky(-np.eye(2)) is None
    True
    """
    from scipy.linalg.lapack import dpotrf

    F, failed = dpotrf(H.T, lower=True, overwrite_a=True, clean=False)
    return None if failed else np.asarray(F)


def solve(F: Array, b: Array) -> Array:
    """(F Fᵀ)⁻¹ b for a factor from `cholesky`; b may have several columns."""
    from scipy.linalg.lapack import dpotrs

    return np.asarray(dpotrs(F, b, lower=True)[0])


@compiled
def subtract_outer(G: Any, k: int, a: Any, b: Any) -> None:
    """G ← G − a bᵀ, which is symmetric, but for the first k rows and columns."""
    for i in range(k):
        row, d = G[i], b[i]
        for j in range(k, a.shape[0]):
            row[j] -= d * a[j]
    for i in range(k, a.shape[0]):
        row, d = G[i], a[i]
        for j in range(a.shape[0]):
            row[j] -= d * b[j]


@reductions
def dot(a: Any, b: Any, m: int) -> float:
    """Σ_{i<m} a_i b_i."""
    s = 0.0
    for i in range(m):
        s += a[i] * b[i]
    return s


@reductions
def subtract(a: Any, row: Any, d: float, m: int) -> None:
    """a_i ← a_i − d row_i for i < m."""
    for i in range(m):
        a[i] -= d * row[i]


@reductions
def subtract_four(a: Any, rows: Any, at: Any, d: Any) -> None:
    """a ← a − Σ_{k<4} d_k rows[at_k]: a is read and written once."""
    r0, r1, r2, r3 = rows[at[0]], rows[at[1]], rows[at[2]], rows[at[3]]
    d0, d1, d2, d3 = d[0], d[1], d[2], d[3]
    for i in range(a.shape[0]):
        a[i] -= d0 * r0[i] + d1 * r1[i] + d2 * r2[i] + d3 * r3[i]


@reductions
def factor(H: Any) -> bool:
    """The factor of H in its lower half; whether H is positive definite."""
    for i in range(H.shape[0]):
        row = H[i]
        for j in range(i + 1):
            other, s = H[j], row[j]
            for a in range(j):
                s -= row[a] * other[a]
            if j < i:
                row[j] = s / other[j]
            elif s > 0.0:
                row[i] = np.sqrt(s)
            else:
                return False
    return True


@compiled
def substitute(F: Any, b: Any, k: int) -> None:
    """b ← (F Fᵀ)⁻¹ b on the first k entries, by rows of F."""
    for i in range(k):
        b[i] = (b[i] - dot(F[i], b, i)) / F[i, i]
    for i in range(k - 1, -1, -1):
        b[i] /= F[i, i]
        subtract(b, F[i], b[i], i)
