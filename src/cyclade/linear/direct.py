"""Least squares under a convex penalty on coordinates, on the products of all columns at once.

Where these are cheap, as for small tables, or serve many λ, as on a path over a tall X, they say
all there is to know: with weights s that sum to one, and the intercept minimised over first,

    F(x) = ½ xᵀGx − qᵀx + const + r(x),   G = Σ_i s_i (a_i − ā)(a_i − ā)ᵀ,

and q = Σ_i s_i (y_i − ȳ)(a_i − ā).

All λ are then one compiled call, without working sets. Certificates are measured on X afterwards:
of all solutions where that costs less than the products did, else of the last (the others on G,
which is the same up to rounding). A certificate that does not hold sends the whole to the engine.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.compression import column_sums, given_products, products
from cyclade.linear.kernels.gram_path import (
    bounds,
    centre_targets,
    curvatures,
    path,
    residuals,
)
from cyclade.linear.problem import Problem
from cyclade.linear.results import Certificate
from cyclade.linear.tuning import Tuning

Array = NDArray[Any]
TINY = float(np.finfo(np.float64).tiny)


class Fits(NamedTuple):
    """One row of `coefs` per λ."""

    coefs: Array
    intercepts: Array
    objectives: Array
    certificates: list[Certificate]
    passes: Array


def suits(problem: Problem, fits: int, tol: float) -> bool:
    """Whether products of all columns are possible, and cheap beside that many fits to `tol`."""
    design, penalty, tuning = problem.design, problem.penalty, problem.tuning
    if not (problem.loss.quadratic and design.is_dense and problem.offset.ndim == 1):
        return False
    if not (penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual):
        return False
    n, p = design.n, design.p
    price = tuning.cost.product * n * p * p
    if design.precompute is False or n < p:
        return False
    if not isinstance(design.precompute, str):  # asked for, or given
        return True
    if p > tuning.max_columns_kept:
        return False
    if price <= tuning.direct_price:
        return True
    if fits > 1:
        return price <= tuning.direct_per_fit * fits * n * p
    if tol < tuning.single_tol:
        price *= 1.5  # float64
    if not problem.is_very_tall:
        return not design.by_columns and price <= tuning.direct_turned * n * p
    passes = tuning.direct_passes[not design.by_columns]

    def cheap(ratio: float) -> bool:
        factors = 2.0 * math.log(ratio / tuning.direct_easy) - math.log(max(tol, 1e-16))
        return price <= passes * factors * n * p

    return cheap(1.0) or (cheap(tuning.direct_ratio) and cheap(lam_ratio(problem)))


def lam_ratio(problem: Problem) -> float:
    """λ_max/λ, roughly: the gradient at x = 0 is that of some rows."""
    penalty, tuning, n = problem.penalty.penalty, problem.tuning, problem.design.n
    X, y, g, mass = problem.design.X, targets(problem), 0.0, 0.0  # type: ignore[attr-defined]
    for first in np.linspace(0, n - tuning.sampled_run, 8).astype(np.int64).tolist():
        at = slice(first, first + tuning.sampled_run)
        w = problem.s[at]
        u = w * (y[at] - (w @ y[at]) / max(float(w.sum()), TINY) * problem.fit_intercept)
        with np.errstate(over="ignore", invalid="ignore"):  # then the fit will say so
            g, mass = g + u @ X[at], mass + float(w.sum())
    ratio = float(penalty.lam_max(g / max(mass, TINY))) / max(float(penalty.lam), TINY)
    return min(max(1.0, ratio), tuning.direct_ratio)


def solve(problem: Problem, x: Array, lams: Array, tol: float, max_passes: int) -> Fits | None:
    """The solutions for decreasing λ, each from the one before; None if one is not certified.

    The first starts from x. The penalty of the problem is taken at each λ in turn. Products of many
    rows are formed in float32 first, unless `tol` is tight: what they say of the last solution is
    compared with X, and if that is not good enough they are formed again.
    """
    penalty, tuning = problem.penalty, problem.tuning
    x = np.array(x, np.float64)
    penalty.project(x)
    n, p, asked = problem.design.n, problem.design.p, problem.design.precompute
    many = tuning.cost.product * n * p * p > tuning.direct_price
    if lams.size > 1:
        many = not measured_on_rows(problem, lams.size)
    if many and tol >= tuning.single_tol and np.ndim(asked) < 2:
        found = solve_on(moments_of(problem, np.float32), problem, x, lams, tol, max_passes)
        if found is not None:
            return found
    return solve_on(moments_of(problem), problem, x, lams, tol, max_passes)


def solve_on(
    moments: Moments, problem: Problem, x: Array, lams: Array, tol: float, max_passes: int
) -> Fits | None:
    """The same with given moments."""
    penalty = problem.penalty
    if not moments.finite:
        return None
    if lams.size == 1 and x.any():
        there = x[None].copy(), np.zeros(1, np.int64)
        known = certified(penalty, moments, lams, *there, tol, problem)
        if known is not None:
            return known
    coefs, passes = follow(penalty, moments, x.copy(), lams, tol, max_passes)
    return certified(penalty, moments, lams, coefs, passes, tol, problem)


def follow(
    penalty: Any, moments: Moments, x: Array, lams: Array, tol: float, max_passes: int
) -> tuple[Array, Array]:
    """The solution for each λ, by rows, and the cycles that each took; x is overwritten."""
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    coefs, passes = np.empty((lams.size, x.size)), np.empty(lams.size, np.int64)
    G, c = moments.G, moments.q - moments.G @ x
    path(G, c, x, moments.L, kind, unit, lams, 0.25 * tol, max_passes, coefs, passes)
    return coefs, passes


def certified(
    penalty: Any, moments: Moments, lams: Array, coefs: Array, passes: Array, tol: float,
    problem: Problem | None,
) -> Fits | None:  # fmt: skip
    """The fits with their certificates, if all of those hold; measured on X if there is a problem.

    Where that would cost more than the products did, only the last is; what it differs by from the
    gap on the products is added to all others, more of it where x is larger.
    """
    every = problem is not None and measured_on_rows(problem, lams.size)
    at = on_rows(problem, moments, coefs) if problem and every else moments.residuals(coefs)
    objectives, gaps, intercepts = judged(penalty, lams, coefs, at)
    if problem and not every:
        at = on_rows(problem, moments, coefs[-1:])
        F, gap, c = judged(penalty, lams[-1:], coefs[-1:], at)
        # Errors of G, relative to the norms of columns, count in xᵀGx: the larger x, the more.
        size = np.abs(coefs) @ np.sqrt(np.maximum(moments.G.diagonal(), 0.0))
        worse = np.maximum(size / max(float(size[-1]), TINY), 1.0) ** 2
        gaps += worse * (abs(gap[0] - gaps[-1]) + abs(F[0] - objectives[-1]))
        objectives[-1:], gaps[-1:], intercepts[-1:] = F, gap, c
    return accepted(coefs, intercepts, objectives, passes, gaps, tol * moments.null)


def accepted(
    coefs: Array, intercepts: Array, objectives: Array, passes: Array, gaps: Array, goal: float
) -> Fits | None:
    """The fits, if all gaps are within the goal, or within the rounding of F."""
    certificates = [
        Certificate("gap", gap, max(goal, 1e-15 * abs(F)))
        for gap, F in zip(gaps.tolist(), objectives.tolist(), strict=True)
    ]
    if not all(certificate.reached for certificate in certificates):
        return None
    return Fits(coefs, intercepts, objectives, certificates, passes)


class Residuals(NamedTuple):
    """What certificates are made of, for several points: residuals u = z − y and gradients."""

    squares: Array  # Σ s u²
    along: Array  # Σ s u (y − ȳ)
    g: Array  # Xᵀ(su), by rows
    intercepts: Array


def judged(penalty: Any, lams: Array, coefs: Array, at: Residuals) -> tuple[Array, Array, Array]:
    """F, the duality gap and the intercept for every λ."""
    F, gaps = np.empty(lams.size), np.empty(lams.size)
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    bounds(kind, unit, lams, coefs, at.g, at.squares, at.along, F, gaps)
    return F, gaps, at.intercepts


class Moments:
    """G and q, about the means ā and ȳ (zeros without an intercept)."""

    def __init__(
        self, G: Array, q: Array, square: float, means: Array, target_mean: float, tuning: Tuning
    ) -> None:
        """`square` is Σ s (y − ȳ)²."""
        self.G, self.q, self.square, self.null = G, q, square, 0.5 * square
        self.means, self.target_mean = means, target_mean
        self.L = np.empty(q.size)
        self.finite = math.isfinite(
            curvatures(G, q, means, tuning.least_curvature, self.L) + square
        )

    def residuals(self, coefs: Array) -> Residuals:
        """At several points, without X."""
        c = self.q - coefs @ self.G
        along = coefs @ self.q - self.square
        squares = np.maximum(self.square - np.einsum("kj,kj->k", coefs, self.q + c), 0.0)
        return Residuals(squares, along, -c, self.target_mean - coefs @ self.means)


def moments_of(problem: Problem, dtype: Any = np.float64) -> Moments:
    """The moments of all rows, from products in `dtype` or from those that were given."""
    X, s, tuning = problem.design.X, problem.s, problem.tuning  # type: ignore[attr-defined]
    sy, centred = np.empty(s.size), problem.fit_intercept
    target_mean, square = centre_targets(targets(problem), s, centred, sy)
    given = problem.design.precompute
    if isinstance(given, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            means = column_sums(X, s, tuning) if centred else np.zeros(X.shape[1])
            G, q = given_products(given, X, s, means, tuning), column_sums(X, sy, tuning)
    else:
        G, q, means = products(X, sy, s, centred, tuning, dtype)
    return Moments(G, q, square, means, target_mean, tuning)


def targets(problem: Problem) -> Array:
    """y without the offset."""
    return problem.y - problem.offset if problem.has_offset else problem.y


def measured_on_rows(problem: Problem, points: int) -> bool:
    """Whether to measure so many points on X costs no more than the products did."""
    design, most = problem.design, problem.tuning.direct_measured
    few = 8 * points <= design.p or design.entries * points <= most
    return bool(few and design.dtype == np.float64)


def on_rows(problem: Problem, moments: Moments, coefs: Array) -> Residuals:
    """The residuals and gradients at several points, from the rows of X."""
    design, count = problem.design, len(coefs)
    X = design.X  # type: ignore[attr-defined]
    U = design.predict(coefs[0])[None] if count == 1 else coefs @ X.T
    squares, along, intercepts = np.empty((3, count))
    residuals(
        U, targets(problem), problem.s, moments.target_mean, problem.fit_intercept, squares, along,
        intercepts,
    )  # fmt: skip
    g = design.correlate(U[0])[None] if count == 1 else U @ X
    return Residuals(squares, along, g, intercepts)
