"""Λ_j of linear models: the exact L_j of a block, and diagonals for methods that sample rows."""

from __future__ import annotations

import math

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.stochastic.sweep import Columns, Rows
from cyclade.steps import power_iteration

LARGEST_GRAM = 1024
TO_SPARE = 1.02  # power iteration finds a norm from below


def exact(rows: Rows, bound: float, m: int) -> list[float]:
    """L_j = bound · λ_max(A_jᵀ diag(w) A_j) of each block, where `bound` is the supremum of φ''.

    A block on which f is flat bounds nothing; any step will do, and its L_j is 1. Blocks of more
    than 1,024 columns are measured by power iteration, with 2 % to spare.
    """
    _need_finite(bound)
    return [_or_one(bound * norm) for norm in norms(rows, m)]


def norms(rows: Rows, m: int) -> list[float]:
    """λ_max(A_jᵀ diag(w) A_j) of each block."""
    found = []
    for j in range(m):
        columns = rows.columns(j)
        squares = columns.moments(rows.weight, 2)
        one = len(squares) == 1
        found.append(float(squares[0]) if one else _norm(columns, rows, np.ones_like(squares)))
    return found


def diagonal(
    rows: Rows, j: int, bound: float, b: float, *, n: float, width: int = 1, even: bool = False
) -> Array:
    """A diagonal Λ_j that bounds, on average, the curvature of block j on samples of b of n rows.

    Let w sum to one over the rows, σ = (n − b) / (b (n − 1)), and D the diagonal of

        d_k = Σ_i w_i a_ik² + σ Σ_i w_i a_ik⁴ / Σ_i w_i a_ik²,

    the curvature along a column and how much a sample's may differ from it: a column that few rows
    have is rarely met in a sample, and then weighs much. With λ = λ_max(D^{−½} A_jᵀ W A_j D^{−½})
    and ρ = max_i n w_i ‖D^{−½} a_ij‖², sampling b of n rows without replacement has the expected
    smoothness bound · ((1 − σ) λ + σ ρ) in the norm of D, and Λ_j is that number times D. With
    b = n it is the exact L_j, in the scale of the columns.

    λ and ρ are measured on `rows`; `n` may be infinite, for a stream. `width` is the number of
    outputs of each feature; with `even`, D = I (penalties on groups need that).
    """
    _need_finite(bound)
    columns = rows.columns(j)
    sigma = 0.0 if n == 1 else (1.0 / b if math.isinf(n) else (n - b) / (b * (n - 1)))
    squares = columns.moments(rows.weight, 2)
    if even:
        scale = np.ones_like(squares)
    else:
        squares = np.where(squares > 0, squares, 1.0)  # an empty column has nothing to bound
        scale = squares + sigma * columns.moments(rows.weight, 4) / squares
    together = _norm(columns, rows, scale)
    alone = float((rows.n * rows.weight * columns.row_squares(1.0 / scale)).max())
    factor = _or_one(bound * ((1.0 - sigma) * together + sigma * alone))
    return np.repeat(factor * scale, width).astype(rows.weight.dtype)


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
