"""Smooth convex losses under a convex penalty on coordinates, on small tables: one compiled call.

Where products of columns cost less than calls of NumPy, compiled code makes and minimises the
Newton models of all λ (`kernels.curved_path`). Certificates are measured on X afterwards. One that
does not hold sends the whole to the engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.compression import column_sums
from cyclade.linear.direct import Fits, accepted
from cyclade.linear.kernels.curved_path import path
from cyclade.linear.kernels.gram_path import bounds
from cyclade.linear.loss_at import losses_at
from cyclade.linear.problem import CODES, Problem

Array = NDArray[Any]


def suits(problem: Problem, fits: int) -> bool:
    """Whether the loss is known to the kernel, and products of all columns are cheap enough.

    Of several fits few need those of all columns.
    """
    design, penalty, tuning = problem.design, problem.penalty, problem.tuning
    if not (type(problem.loss) in CODES and design.is_dense and problem.offset.ndim == 1):
        return False
    if not (penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual):
        return False
    price = tuning.cost.product * design.entries * min(design.n, design.p)
    limit = tuning.curved_price if fits == 1 else tuning.curved_path_price
    return bool(design.dtype == np.float64 and price <= limit)


def solve(
    problem: Problem, x: Array, c: float, lams: Array, tol: float, max_passes: int
) -> Fits | None:
    """The solutions for decreasing λ, each from the one before; None if one is not certified.

    The first starts from (x, c). The penalty of the problem is taken at each λ in turn.
    """
    tuning, penalty = problem.tuning, problem.penalty
    X, s, code = problem.design.X, problem.s, CODES[type(problem.loss)]  # type: ignore[attr-defined]
    A, means = X.T, np.zeros(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if problem.fit_intercept:
            means = column_sums(X, s, tuning)
            A = A - means[:, None]
        A = np.ascontiguousarray(A)
        x = np.array(x, np.float64)
        penalty.project(x)
        moved, asked = bool(x.any()), lams.size
        if moved and asked == 1:
            there = x[None].copy(), np.array([float(c)]), np.zeros(1, np.int64)
            known = certified(problem, lams, *there, tol)
            if known is not None:
                return known
        c = float(c + means @ x) if moved else float(problem.null.c)
    if asked == 1 and not moved:
        lams = np.concatenate((stages(problem, float(lams[0])), lams))
    coefs, intercepts = np.empty((lams.size, x.size)), np.empty(lams.size)
    passes, goals = np.empty(lams.size, np.int64), np.full(lams.size, np.inf)
    goals[-asked:] = max(tuning.curved_part * tol, 1e-15) * problem.null.scale
    done = path(
        A, problem.y, s, problem.offset, code, problem.fit_intercept, x, c, penalty.parameters[0],
        penalty.penalty.unit, lams, goals, tuning.newton_precision,
        tuning.strong_rule_step, tuning.curved_steps, max_passes,
        coefs, intercepts, passes,
    )  # fmt: skip
    if not done:
        return None
    intercepts -= coefs @ means
    passes[-asked] = passes[: lams.size - asked + 1].sum()
    last = slice(lams.size - asked, None)
    return certified(problem, lams[last], coefs[last], intercepts[last], passes[last], tol)


def stages(problem: Problem, lam: float) -> Array:
    """Larger λ on the way from zero to λ, with one model each: few columns come in at a time."""
    penalty, step = problem.penalty.penalty, problem.tuning.lam_step[0]
    first = penalty.lam_max(problem.null.gradient)
    if not 0.0 < lam < step * first < np.inf:
        return np.empty(0)
    count = math.ceil(math.log(lam / first) / math.log(step))  # in equal steps
    return np.asarray(first * (lam / first) ** (np.arange(1, count) / count))


def certified(
    problem: Problem, lams: Array, coefs: Array, intercepts: Array, passes: Array, tol: float
) -> Fits | None:
    """The fits with their certificates, measured on X, if all of those hold."""
    objectives, gaps = np.empty((2, lams.size))
    many = max(int(problem.tuning.block_entries // problem.design.n), 1)
    for first in range(0, lams.size, many):
        at = slice(first, first + many)
        objectives[at], gaps[at] = judged(problem, lams[at], coefs[at], intercepts[at])
    return accepted(coefs, intercepts, objectives, passes, gaps, tol * problem.null.scale)


def judged(problem: Problem, lams: Array, coefs: Array, intercepts: Array) -> tuple[Array, Array]:
    """F and the duality gap for every λ, as `certificate.dual_value`."""
    X, s, penalty = problem.design.X, problem.s, problem.penalty  # type: ignore[attr-defined]
    Z = coefs @ X.T
    if problem.fit_intercept:
        Z += intercepts[:, None]
    if problem.has_offset:
        Z += problem.offset
    at = losses_at(problem.loss, problem.y, s, Z, problem.fit_intercept)
    F, shrink, conjugates = np.empty((3, lams.size))
    kind, unit = penalty.parameters[0], penalty.penalty.unit
    bounds(kind, unit, lams, coefs, at.slopes @ X, F, shrink, conjugates)
    F += at.value
    dual = at.dual(shrink) - conjugates
    if problem.has_offset:
        dual += shrink * (at.slopes @ problem.offset)
    return F, np.maximum(F - dual, 0.0)
