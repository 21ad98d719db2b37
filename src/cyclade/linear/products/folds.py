"""Cross-validated least squares from one pass over X: moments add up over rows.

The moments of the rows outside a fold are those of all rows less those of the fold, and the mean
squared error on the fold is a quadratic form of its own. So each row is multiplied once for all
folds, and no fold is copied. What is left of a column or an error after a subtraction must be more
than rounding, else there is no answer.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.problem import Problem
from cyclade.linear.products.fits import Moments, certified, follow, moments_of_rows
from cyclade.linear.results import PathResult

Array = NDArray[Any]
LEFT = float(np.cbrt(numerics.EPS))  # of a sum over all rows: less after a subtraction is rounding


def cross_validate(
    problem: Problem, tests: list[Array], lams: Array, tol: float, max_passes: int
) -> list[tuple[PathResult, Array]] | None:
    """For each of the disjoint sets of rows: the path on all others, and its errors."""
    left = np.ones(problem.design.n, bool)
    for test in tests:
        left[test] = False
    with np.errstate(over="ignore", invalid="ignore"):
        folds = [moments_of_rows(problem, rows) for rows in tests]
        rest = moments_of_rows(problem, np.flatnonzero(left))
        parts = [part for part in (*folds, rest) if part is not None]
        if not parts or None in folds:
            return None
        whole = reduce(Moments.joined, parts)
        if not whole.finite:
            return None
    found = []
    for part in folds:
        assert part is not None
        one = held_out(problem, whole, part, lams, tol, max_passes)
        if one is None:
            return None
        found.append(one)
    return found


def held_out(
    problem: Problem, whole: Moments, part: Moments, lams: Array, tol: float, max_passes: int
) -> tuple[PathResult, Array] | None:
    """The path without the rows of `part`, and the errors on them."""
    penalty = problem.penalty
    if not whole.mass - part.mass > LEFT * whole.mass:
        return None
    train = whole.joined(part, -1.0)
    rest = LEFT * whole.mass / train.mass
    if (train.G.diagonal() < rest * whole.G.diagonal()).any() or train.square < rest * whole.square:
        return None
    x = np.zeros(train.q.size)
    penalty.project(x)
    coefs, passes = follow(penalty, train, x, lams, tol, max_passes)
    found = certified(penalty, train, lams, coefs, passes, tol, None)
    if found is None:
        return None
    errors = part.errors(coefs, found.intercepts)
    apart = part.target_mean - whole.target_mean
    if not (errors > LEFT * (part.square + apart**2)).all():
        return None
    return found, errors
