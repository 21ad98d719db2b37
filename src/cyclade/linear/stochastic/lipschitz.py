"""Λ_j of linear models: the exact L_j of a block, and diagonals for methods that sample rows."""

from __future__ import annotations

import math

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.stochastic.columns import Columns
from cyclade.linear.stochastic.sweep import Rows
from cyclade.linear.stochastic.tuning import TUNING
from cyclade.steps import power_iteration


def exact(rows: Rows, bound: float, m: int) -> list[float]:
    """L_j = bound · λ_max(A_jᵀ diag(w) A_j) of each block, where `bound` is the supremum of φ''.

    Where f is flat in a block, L_j is 1: any step will do. Blocks of more than 1,024 columns are
    measured by power iteration, with a margin of 2 %.
    """
    _need_finite(bound)
    return [bound * norm or 1.0 for norm in norms(rows, m)]


def norms(rows: Rows, m: int) -> list[float]:
    """λ_max(A_jᵀ diag(w) A_j) of each block."""
    blocks = [rows.columns(j) for j in range(m)]
    return [_norm(columns, rows, np.ones(columns.size)) for columns in blocks]


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
    columns, weight = rows.columns(j), rows.weight
    squared = columns.squared()
    squares = squared.back(weight)
    sigma = 0.0 if n == 1 else (1.0 / b if math.isinf(n) else (n - b) / (b * (n - 1)))
    if even:
        scale = np.ones_like(squares)
    else:
        squares = np.where(squares > 0, squares, 1.0)  # an empty column has nothing to bound
        scale = squares + sigma * squared.squared().back(weight) / squares
    row_norms = np.zeros(rows.n, scale.dtype)
    squared.move(row_norms, 1.0 / scale)
    of_a_row = float((rows.n * weight * row_norms).max())
    factor = bound * ((1.0 - sigma) * _norm(columns, rows, scale) + sigma * of_a_row) or 1.0
    return np.repeat(factor * scale, width).astype(weight.dtype)


def _norm(columns: Columns, rows: Rows, scale: Array) -> float:
    """λ_max of A_jᵀ W A_j with rows and columns divided by √scale."""
    root, weight = np.sqrt(scale), rows.weight
    if columns.size <= TUNING.gram_columns:
        gram = columns.gram(weight) / np.outer(root, root)
        return max(float(np.linalg.eigvalsh(gram)[-1]), 0.0)

    def apply(v: Array) -> Array:
        z = np.zeros(rows.n, v.dtype)
        columns.move(z, v / root)
        return columns.back(weight * z) / root

    start = np.random.default_rng(0).standard_normal(columns.size)
    return TUNING.power_margin * power_iteration(apply, start, TUNING.power_iterations)[0]


def _need_finite(bound: float) -> None:
    if not math.isfinite(bound):
        raise ValueError(
            "the loss has no finite bound on its second derivative, so there is no L_j: give steps"
        )
