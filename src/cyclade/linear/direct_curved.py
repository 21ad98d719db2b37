"""Smooth convex losses under a convex penalty on coordinates, on small tables: one compiled call.

Where products of columns cost less than calls of NumPy, compiled code makes and minimises the
Newton models of all λ, and measures certificates on X (`kernels.curved_path`). One that does not
hold sends the whole to the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.checks import plain
from cyclade.linear.direct import Fits, accepted
from cyclade.linear.kernels.curved_path import fit
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
    problem: Problem, x: Array, c: Any, lams: Array, tol: float, max_passes: int
) -> Fits | None:
    """The solutions for decreasing λ, each from the one before; None if one is not certified.

    The first starts from (x, c). The penalty of the problem is taken at each λ in turn.
    """
    tuning, penalty, count = problem.tuning, problem.penalty, lams.size
    x = np.array(x, np.float64)
    penalty.project(x)
    coefs, passes = np.empty((count, x.size)), np.empty(count, np.int64)
    intercepts, objectives, gaps = np.empty((3, count))
    scale = fit(
        plain(problem.design.X.T), problem.y, problem.s, problem.offset,  # type: ignore[attr-defined]
        CODES[type(problem.loss)], problem.fit_intercept, x, float(c), penalty.parameters[0],
        penalty.penalty.unit, lams, tol, tuning.curved_part, tuning.lam_step[0],
        tuning.newton_precision, tuning.strong_rule_step, tuning.curved_steps, max_passes,
        coefs, intercepts, passes, objectives, gaps,
    )  # fmt: skip
    if scale < 0.0:
        return None
    return accepted(coefs, intercepts, objectives, passes, gaps, tol * scale)
