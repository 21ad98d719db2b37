"""Λ_j of linear models: the exact L_j of a block, and safe diagonals for methods that sample rows."""

from __future__ import annotations

import math

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.sweep import Columns, Rows
from cyclade.steps import power_iteration

LARGEST_GRAM = 1024
TO_SPARE = 1.02  # power iteration finds a norm from below


def exact(rows: Rows, bound: float, m: int) -> list[float]:
    """L_j = bound · λ_max(A_jᵀ diag(w) A_j) of each block, where `bound` is the supremum of φ''.

    A block on which f is flat bounds nothing; any step will do, and its L_j is 1. Blocks of more
    than 1,024 columns are measured by power iteration, with 2 % to spare.
    """
    _need_finite(bound)
    found = []
    for j in range(m):
        columns = rows.columns(j)
        squares = columns.squares(rows.weight)
        norm = (
            float(squares[0]) if len(squares) == 1 else _norm(columns, rows, np.ones_like(squares))
        )
        found.append(_or_one(bound * norm))
    return found


def diagonals(rows: Rows, bound: float, m: int, b: float, width: int = 1) -> list[Array]:
    """Diagonals Λ_j that bound, on average, the curvature of block j on samples of b of n rows.

    With D_j = diag(A_jᵀ W A_j), λ = λ_max(D_j^{−½} A_jᵀ W A_j D_j^{−½}) and
    ρ = max_i n w_i ‖D_j^{−½} a_ij‖², sampling b rows without replacement has the expected
    smoothness

        bound · (n (b − 1) λ + (n − b) ρ) / (b (n − 1))

    in the norm of D_j, and Λ_j is that number times D_j. With b = n it is the exact L_j, in the
    scale of the columns. `width` is the number of outputs of each feature.
    """
    _need_finite(bound)
    n = rows.n
    shared, single = (
        (1.0, 0.0) if n == 1 else (n * (b - 1) / (b * (n - 1)), (n - b) / (b * (n - 1)))
    )
    found = []
    for j in range(m):
        columns = rows.columns(j)
        scale = columns.squares(rows.weight)
        scale = np.where(scale > 0, scale, 1.0)  # an empty column has nothing to bound
        together = _norm(columns, rows, scale)
        alone = float((n * rows.weight * columns.row_squares(1.0 / scale)).max())
        factor = _or_one(bound * (shared * together + single * alone))
        found.append(np.repeat(factor * scale, width).astype(rows.weight.dtype))
    return found


def _norm(columns: Columns, rows: Rows, scale: Array) -> float:
    """λ_max of A_jᵀ W A_j with rows and columns divided by √scale."""
    root = np.sqrt(scale)
    if len(root) <= LARGEST_GRAM:
        gram = columns.gram(rows.weight) / np.outer(root, root)
        return float(np.linalg.eigvalsh(gram)[-1])

    def apply(v: Array) -> Array:
        z = np.zeros(rows.n, v.dtype)
        columns.move(z, v / root)
        return columns.back(rows.weight * z) / root

    start = np.random.default_rng(0).standard_normal(len(root))
    return TO_SPARE * power_iteration(apply, start, 60)[0]


def _need_finite(bound: float) -> None:
    if not math.isfinite(bound):
        raise ValueError(
            "the loss has no finite bound on its second derivative, so there is no L_j: give steps"
        )


def _or_one(value: float) -> float:
    return value if value > 0 else 1.0
