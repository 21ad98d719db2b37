"""Least squares on a tall X: as many rows as columns say the same.

With weights s that sum to one, and the intercept minimised over first,

    ½ Σ_i s_i (y_i − c − a_i·x)² = ½ ‖t − R x‖² + κ,   RᵀR = G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ,

where Rᵀt = Σ_i s_i (y_i − ȳ)(a_i − ā) and κ is the loss of the least squares fit. R has at most p
rows, from a Cholesky factorisation of G with pivots. It costs one pass over X, np²/2 multiply-adds;
every penalty, every λ of a path and every working set then works on R instead of X. A dual point of
the small problem is one of the large problem with the residual of the least squares fit added, so a
duality gap of one is a gap of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import threads
from cyclade.linear.checks import plain
from cyclade.linear.designs import as_design
from cyclade.linear.kernels.products import add_products, centre_products, room, spread_means
from cyclade.linear.problem import Problem
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


@dataclass(frozen=True)
class Compressed:
    """R and t in the form of a problem with equal weights 1/r and no intercept."""

    X: Array  # √r R, (r, p), in Fortran order
    y: Array  # √r t
    constant: float  # κ
    column_means: Array  # ā, or zeros without an intercept
    target_mean: float  # ȳ, or zero
    null: float  # the loss of x = 0 with the best intercept

    def intercept(self, x: Array) -> float:
        """The c that is best at x."""
        return self.target_mean - float(self.column_means @ x)


def compressed(problem: Problem, fits: int) -> tuple[Problem, Compressed] | None:
    """The problem on R, where R costs less than a pass over X for each of the fits; else None."""
    design, tuning = problem.design, problem.tuning
    n, p, price = design.n, design.p, tuning.cost.product * design.p
    if not (problem.loss.quadratic and design.is_dense and problem.offset.ndim == 1):
        return None
    if design.precompute is False:
        return None
    if n < tuning.compressed_tall * p or price > tuning.direct_per_fit * fits:
        return None
    y = problem.y - problem.offset if problem.has_offset else problem.y
    small = compress(design.X, y, problem.s, problem.fit_intercept, tuning)  # type: ignore[attr-defined]
    if small is None:
        return None
    r = small.y.size
    found = Problem(
        as_design(small.X, tuning=tuning), small.y, np.full(r, 1.0 / r), np.zeros(r), problem.loss,
        problem.penalty, False, tuning,
    )  # fmt: skip
    found.null.scale = small.null  # gaps are measured by the loss of all rows
    return found, small


def compress(
    X: Array, y: Array, s: Array, fit_intercept: bool, tuning: Tuning = DEFAULT
) -> Compressed | None:
    """The compressed problem for a dense X; None if X or y hold numbers that are not finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y, s = rng.standard_normal((50, 3)), rng.standard_normal(50), np.full(50, 0.02)
    >>> small = compress(X, y, s, fit_intercept=False)
    >>> x = np.array([1.0, 0.0, -2.0])
    >>> loss = 0.5 * np.mean((small.y - small.X @ x) ** 2) + small.constant
    >>> bool(np.isclose(loss, 0.5 * np.mean((y - X @ x) ** 2)))
    True
    """
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dpstrf

    p, target_mean = X.shape[1], float(s @ y) if fit_intercept else 0.0
    centred = y - target_mean
    square = float(s @ centred**2)
    G, q, means = products(X, s * centred, s, fit_intercept, tuning)
    if not (np.isfinite(G).all() and np.isfinite(q).all()):
        return None
    scale = np.sqrt(np.maximum(G.diagonal(), np.finfo(np.float64).tiny))
    factor, pivots, rank, _ = dpstrf(G / np.outer(scale, scale), lower=0)
    order = pivots - 1
    rank = max(int(rank), 1)
    U = np.triu(factor)[:rank]
    t = solve_triangular(U[:, :rank], (q / scale)[order[:rank]], trans="T", check_finite=False)
    R = np.empty((rank, p), order="F")
    R[:, order] = U
    R *= scale
    constant = max(0.5 * (square - float(t @ t)), 0.0)
    root = np.sqrt(rank)
    return Compressed(root * R, root * t, constant, means, target_mean, 0.5 * square)


def products(
    X: Array, sy: Array, s: Array, centred: bool, tuning: Tuning = DEFAULT, dtype: Any = np.float64
) -> tuple[Array, Array, Array]:
    """G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ, q = Σ_i s_i y_i (a_i − ā), and ā, in one reading of X.

    ā is zero unless `centred`, and then Σ_i s_i y_i must be zero. Products are formed in `dtype`,
    of a few rows at a time about a point near their mean, and added up in float64; all other sums
    are in float64.
    """
    p = X.shape[1]
    centres = np.zeros(p)
    if centred:
        spread_means(X.T, tuning.centre_rows, centres)
    ranks = threads.number(X.size * (1 + p // 32), tuning)

    def summed(rank: int) -> Array:
        sums = np.zeros((p + 2, p))
        add_products(X.T, rank, ranks, centres, s, sy, room(p, dtype), sums)
        return sums

    found, *others = threads.together(summed, ranks)
    for other in others:
        with np.errstate(over="ignore", invalid="ignore"):
            found += other
    centre_products(found, centred, centres)
    return found[:p], found[p + 1], centres


def given_products(given: Array, X: Array, s: Array, means: Array, tuning: Tuning) -> Array:
    """Σ_i s_i (a_i − ā)(a_i − ā)ᵀ from a matrix n Σ_i s_i a_i a_iᵀ, or the same of centred columns.

    It is compared with X on a few columns; ValueError if it is neither.
    """
    n, p = X.shape
    some = np.unique(np.linspace(0, p - 1, tuning.gram_checked).astype(np.int64))
    A = X[:, some].astype(np.float64)
    raw, m = (A * s[:, None]).T @ A, means[some]
    # A matrix in single precision is rounded like that, whatever X was turned into.
    eps = max(np.finfo(kind).eps for kind in (X.dtype, np.result_type(given, np.float32)))
    G = np.asarray(given, np.float64) / n
    found, size = G[np.ix_(some, some)], np.sqrt(np.outer(raw.diagonal(), raw.diagonal()))
    rounding = np.sqrt(eps) * size
    if (np.abs(found - raw) <= rounding).all():
        return plain(G - np.outer(means, means))
    if (np.abs(found - raw + np.outer(m, m)) <= rounding).all():
        return plain(G)
    raise ValueError(
        "precompute: the matrix given is not that of X: it must be X.T @ X, of X as it is or of "
        "its centred columns (with sample_weight, X.T @ diag(w) @ X for weights that sum to the "
        "number of rows)"
    )


def column_sums(X: Array, v: Array, tuning: Tuning = DEFAULT) -> Array:
    """Xᵀv in float64, whatever X is, without a copy of all of it."""
    p = X.shape[1]
    if X.dtype == np.float64:
        out, ranks = np.empty(p), threads.number(X.size, tuning)
        threads.split(lambda some: np.matmul(v, X[:, some], out=out[some]), p, ranks)
        return out
    rows, out = max(tuning.block_entries // p, 64), np.zeros(p)
    for first in range(0, len(X), rows):
        out += v[first : first + rows] @ X[first : first + rows].astype(np.float64)
    return out
