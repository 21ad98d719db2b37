"""Least squares on a tall X: as many rows as columns say the same, under any penalty.

    ½ Σ_i s_i (y_i − c − a_i·x)² = ½ ‖t − R x‖² + κ,   RᵀR = G,   Rᵀt = q,

with the moments of X, and κ the loss of the least squares fit. R has at most p rows, from a
Cholesky factorisation of G with pivots; every λ of a path and every working set then works on R
instead of X. A dual point of the small problem is one of the large problem with the residual of the
least squares fit added, so a duality gap of one is a gap of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.problem import Problem, as_design
from cyclade.linear.products.fits import Moments, moments_of

Array = NDArray[Any]


def shortened(problem: Problem, fits: int) -> tuple[Problem, Moments, float] | None:
    """The problem on √r R with weights 1/r, moments, κ; None where R costs more than rows saved."""
    design, tuning = problem.design, problem.tuning
    if not (problem.loss.quadratic and design.is_dense and problem.offset.ndim == 1):
        return None
    if design.precompute is False:
        return None
    entries, p = design.entries, design.p
    if design.n < 2 * p or tuning.cost.product * entries * p > fits * (entries - p * p):
        return None
    moments = moments_of(problem)
    if not moments.finite:
        return None
    R, t = root_of(moments)
    r = t.size
    small = Problem(
        as_design(np.sqrt(r) * R, tuning=tuning), np.sqrt(r) * t, np.full(r, 1.0 / r), np.zeros(r),
        problem.loss, problem.penalty, False, tuning,
    )  # fmt: skip
    small.null.scale = moments.null  # gaps are measured by the loss of all rows
    return small, moments, max(moments.null - 0.5 * float(t @ t), 0.0)


def root_of(moments: Moments) -> tuple[Array, Array]:
    """R in Fortran order, and t."""
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dpstrf

    G = moments.G
    scale = np.sqrt(np.maximum(G.diagonal(), numerics.TINY))
    factor, pivots, rank, _ = dpstrf(G / np.outer(scale, scale), lower=0)
    order = pivots - 1
    rank = max(int(rank), 1)
    U = np.triu(factor)[:rank]
    q = (moments.q / scale)[order[:rank]]
    R = np.empty((rank, G.shape[0]), order="F")
    R[:, order] = U
    return R * scale, solve_triangular(U[:, :rank], q, trans="T", check_finite=False)
