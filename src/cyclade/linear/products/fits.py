"""Fits on products of all columns: whole paths in one compiled call, certified on X.

Of least squares under a convex penalty on coordinates the moments of X say all there is to know,
so F(x) = ½ xᵀGx − qᵀx + const + r(x) is minimised for one λ after another, without working sets.
On small tables compiled code does the same for logistic, Poisson and gamma losses, by Newton models
(`kernels.curved_path`).

Certificates are measured on X: of all solutions where that costs less than the products did, else
of the last (the others on G, which is the same up to rounding). One that does not hold sends the
whole to the engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits
from cyclade.linear.checks import plain
from cyclade.linear.kernels.curved_path import Found, Limits, Rows, fit, largest_lam, stages
from cyclade.linear.kernels.forecast import forecast
from cyclade.linear.kernels.gram_path import bounds, path, residuals
from cyclade.linear.problem import CODES, Problem
from cyclade.linear.products.moments import Moments, Residuals, moments_of, targets
from cyclade.linear.results import Certificate, PathResult

Array = NDArray[Any]
TINY = float(np.finfo(np.float64).tiny)


def solve(
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """The solutions for decreasing λ, each from the one before, where products are the cheaper way.

    The first starts from (x, c). The penalty of the problem is taken at each λ in turn. None where
    another way is cheaper, or one of them is not certified.
    """
    if not suits(problem, lams.size, tol):
        return None
    if problem.loss.quadratic:
        found = solve_squares(problem, x, lams, tol, max_passes)
    else:
        found = solve_curved(problem, x, c, lams, tol, max_passes)
    if found is not None:
        found.coefs = found.coefs.astype(problem.design.given, copy=False)
    return found


def suits(problem: Problem, fits: int, tol: float) -> bool:
    """Whether products of all columns are possible, and cheaper than that many fits to `tol`."""
    penalty = problem.penalty
    if not (problem.loss.convex and problem.design.is_dense and problem.offset.ndim == 1):
        return False
    if not (penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual):
        return False
    design, tuning = problem.design, problem.tuning
    price = tuning.cost.product * design.entries * min(design.n, design.p)
    if not problem.loss.quadratic:
        known = type(problem.loss) in CODES and design.dtype == np.float64
        return known and price <= tuning.curved_calls[fits > 1]
    if design.precompute is False or design.n < design.p:
        return False
    if price <= tuning.calls or not isinstance(design.precompute, str):  # asked for, or given
        return True
    if design.p > tuning.max_columns_kept:
        return False
    if tol < tuning.single_tol or design.n < 2 * design.p:
        price *= 1.8  # float64
    return price <= price_of_cycles(problem, fits)


def price_of_cycles(problem: Problem, fits: int) -> float:
    """About what working sets will cost, in entries of X; of a path calls and passes for each λ.

    A single fit checks all columns and cycles on some: how often and on how many tells a rough fit
    of a few rows, at a λ as far above the noise of these as λ is above that of all.
    """
    design, tuning, s = problem.design, problem.tuning, problem.s
    if fits > 1:
        return tuning.calls * (1 + fits / 4) + tuning.path_passes * fits * design.entries
    X, y, n = design.X, targets(problem), design.n  # type: ignore[attr-defined]
    run = max(min(n // 8, tuning.sample) // 8, 1)
    A, u, w = np.empty((design.p, 8 * run)), np.empty(8 * run), np.empty(8 * run)
    for k, first in enumerate(np.linspace(0, n - run, 8).astype(np.int64).tolist()):
        at, there = slice(first, first + run), slice(k * run, (k + 1) * run)
        A[:, there], u[there], w[there] = X[at].T, y[at], s[at]
    w /= max(float(w.sum()), TINY)
    kind, unit = problem.penalty.parameters[0], problem.penalty.penalty.unit
    lam = float(problem.penalty.penalty.lam) * math.sqrt(n / w.size)
    with np.errstate(over="ignore", invalid="ignore"):  # then the fit will say so
        columns, ratio, alike = forecast(A, u, w, kind, unit, lam)
    checks, more, turned, cycled = tuning.forecast_passes
    passes = checks + more * math.log(ratio * math.sqrt(n / w.size)) * math.log(alike)
    passes += turned * (not design.by_columns)
    # On products cycles read columns of p entries.
    return tuning.calls + passes * design.entries + cycled * (n - design.p) * columns


def solve_squares(
    problem: Problem, x: Array, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """Least squares, on products in float32 unless `tol` is tight or the table small.

    What these say of the last solution is compared with X. If it is not good enough, products are
    formed again in float64. With few rows more than columns rounding of float32 would count.
    """
    penalty, tuning = problem.penalty, problem.tuning
    x = np.array(x, np.float64)
    penalty.project(x)
    start = x.copy()
    n, p, asked = problem.design.n, problem.design.p, problem.design.precompute
    many = n >= 2 * p and tuning.cost.product * n * p * p > tuning.calls
    if lams.size > 1:
        many = not measured_on_rows(problem, lams.size)
    if many and tol >= tuning.single_tol and np.ndim(asked) < 2:
        found = solve_on(moments_of(problem, np.float32), problem, x, lams, tol, max_passes)
        if found is not None:
            return found
        if not np.isfinite(x).all():
            x[:] = start
    return solve_on(moments_of(problem), problem, x, lams, tol, max_passes)


def solve_on(
    moments: Moments, problem: Problem, x: Array, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """The same with given moments; x is moved to the last solution."""
    penalty = problem.penalty
    if not moments.finite:
        return None
    if lams.size == 1 and x.any():
        there = x[None].copy(), np.zeros(1, np.int64)
        known = certified(penalty, moments, lams, *there, tol, problem)
        if known is not None:
            return known
    coefs, passes = follow(penalty, moments, x, lams, tol, max_passes)
    return certified(penalty, moments, lams, coefs, passes, tol, problem)


def follow(
    penalty: Any, moments: Moments, x: Array, lams: Array, tol: float, max_passes: int
) -> tuple[Array, Array]:
    """The solution for each λ, by rows, and the cycles that each took; x is overwritten.

    A single fit comes down through larger λ, if it starts at zero, and then to smaller distances
    until the gap is small: on the way few columns come in at a time.
    """
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    at = moments.G, moments.q - moments.G @ x, x, moments.L, kind, unit
    if lams.size > 1:
        return followed(at, lams, 0.25 * tol, max_passes)
    step, near = moments.tuning.lam_step
    above = np.empty(0)
    if not x.any():
        above = stages(largest_lam(kind, unit, moments.q), float(lams[0]), step)
    passes = int(followed(at, above, near, max_passes)[1].sum())
    goal = 0.5 * tol * moments.null
    while True:
        coefs, made = followed(at, lams, near, max_passes - passes)
        passes += int(made[0])
        gap = float(judged(penalty, lams, coefs, moments.residuals(coefs))[1][0])
        if not gap > goal or near <= 0.25 * tol or passes >= max_passes:
            return coefs, np.array([passes])
        near = max(near * min(0.5 * goal / gap, 0.1), 0.25 * tol)


def followed(
    at: tuple[Array, Array, Array, Array, int, Array], lams: Array, tol: float, max_passes: int
) -> tuple[Array, Array]:
    """One compiled call; it moves c and x."""
    coefs, made = np.empty((lams.size, at[2].size)), np.empty(lams.size, np.int64)
    path(*at, lams, tol, max_passes, coefs, made)
    return coefs, made


def certified(
    penalty: Any, moments: Moments, lams: Array, coefs: Array, passes: Array, tol: float,
    problem: Problem | None,
) -> PathResult | None:  # fmt: skip
    """The fits with their certificates, if all of those hold; measured on X if there is a problem.

    Where that would cost more than the products did, only the last is; what it differs by from the
    gap on the products is added to all others, more of it where x is larger.
    """
    every = problem is not None and measured_on_rows(problem, lams.size)
    at = on_rows(problem, moments, coefs) if problem and every else moments.residuals(coefs)
    objectives, gaps = judged(penalty, lams, coefs, at)
    intercepts = at.intercepts
    if problem and not every:
        at = on_rows(problem, moments, coefs[-1:])
        F, gap = judged(penalty, lams[-1:], coefs[-1:], at)
        # Errors of G, relative to the norms of columns, count in xᵀGx: the larger x, the more.
        size = np.abs(coefs) @ np.sqrt(np.maximum(moments.G.diagonal(), 0.0))
        worse = np.maximum(size / max(float(size[-1]), TINY), 1.0) ** 2
        gaps += worse * (abs(gap[0] - gaps[-1]) + abs(F[0] - objectives[-1]))
        objectives[-1:], gaps[-1:], intercepts[-1:] = F, gap, at.intercepts
    if problem and problem.design.given != np.float64:  # of what is returned; dual points stay
        before = judged(penalty, lams, coefs, moments.residuals(coefs))[0]
        coefs = coefs.astype(problem.design.given).astype(np.float64)
        rise = judged(penalty, lams, coefs, moments.residuals(coefs))[0] - before
        objectives, gaps = objectives + rise, np.maximum(gaps + rise, 0.0)
        intercepts = moments.intercepts(coefs)
    return accepted(lams, coefs, intercepts, objectives, passes, gaps, tol * moments.null)


def accepted(
    lams: Array, coefs: Array, intercepts: Array, objectives: Array, passes: Array, gaps: Array,
    goal: float,
) -> PathResult | None:  # fmt: skip
    """The fits, if all gaps are within the goal, or within the rounding of F."""
    certificates = [
        Certificate("gap", gap, max(goal, 1e-15 * abs(F)))
        for gap, F in zip(gaps.tolist(), objectives.tolist(), strict=True)
    ]
    if not all(certificate.reached for certificate in certificates):
        return None
    return PathResult(lams, coefs.T, intercepts, objectives, certificates, passes)


def judged(penalty: Any, lams: Array, coefs: Array, at: Residuals) -> tuple[Array, Array]:
    """F and the duality gap for every λ."""
    F, gaps = np.empty(lams.size), np.empty(lams.size)
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    bounds(kind, unit, lams, coefs, at.g, at.squares, at.along, F, gaps)
    return F, gaps


def measured_on_rows(problem: Problem, points: int) -> bool:
    """Whether to measure so many points on X costs no more than the products did."""
    design, most = problem.design, problem.tuning.most_measured
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


def solve_curved(
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int
) -> PathResult | None:
    """The same for smooth losses, by Newton models on a small table."""
    tuning, penalty, count = problem.tuning, problem.penalty, lams.size
    x = np.array(x, np.float64)
    penalty.project(x)
    coefs, passes = np.empty((count, x.size)), np.empty(count, np.int64)
    intercepts, objectives, gaps = np.empty((3, count))
    rows = Rows(
        plain(problem.design.X.T), problem.y, problem.s, problem.offset,  # type: ignore[attr-defined]
        CODES[type(problem.loss)], problem.fit_intercept,
    )  # fmt: skip
    most = Limits(
        tuning.curved_part, tuning.lam_step[0], tuning.newton_precision, tuning.strong_rule_step,
        limits.STEPS, max_passes,
    )  # fmt: skip
    shape, found = (penalty.parameters[0], penalty.penalty.unit), Found(coefs, intercepts, passes)
    scale = fit(rows, x, float(c), shape, lams, tol, most, found, objectives, gaps)
    if scale < 0.0:
        return None
    return accepted(lams, coefs, intercepts, objectives, passes, gaps, tol * scale)
