"""Cross-validated least squares from one pass over X: moments add up over rows.

The moments of the rows outside a fold are those of all rows less those of the fold, and the mean
squared error on the fold is a quadratic form of its own. So each row is multiplied once for all
folds, no fold is copied, and paths are those of `direct`. All moments are about one point, the
means of all rows; what is left of a column or an error after a subtraction must be more than
rounding, else there is no answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.compression import column_sums
from cyclade.linear.direct import Fits, Moments, certified, follow, targets
from cyclade.linear.problem import Problem

Array = NDArray[Any]


class Sums(NamedTuple):
    """Sums of s, s(a − a₀), s(y − y₀), s(a − a₀)(a − a₀)ᵀ, s(y − y₀)(a − a₀), s(y − y₀)²."""

    mass: float
    a: Array
    y: float
    aa: Array
    ay: Array
    yy: float

    def minus(self, other: Sums) -> Sums:
        """Over the rows that are not in `other`."""
        pairs: Any = zip(self, other, strict=True)
        return Sums(*(mine - theirs for mine, theirs in pairs))


class Fold(NamedTuple):
    """The path on the rows outside a fold, and the mean squared error of each λ on the fold."""

    fits: Fits
    errors: Array


def cross_validate(
    problem: Problem, tests: list[Array], lams: Array, tol: float, max_passes: int
) -> list[Fold] | None:
    """One fold for each of the sets of rows `tests`; None if rounding leaves one uncertain.

    The sets must be disjoint; each path is fitted on all rows outside its set.
    """
    X, s, y = problem.design.X, problem.s, targets(problem)  # type: ignore[attr-defined]
    a0, y0 = np.zeros(X.shape[1]), 0.0
    if problem.fit_intercept:
        a0, y0 = column_sums(X, s, problem.tuning), float(s @ y)
    chunk = max(problem.tuning.block_entries // X.shape[1], 64)
    inside = np.zeros(len(s), bool)
    for test in tests:
        inside[test] = True
    rest = np.flatnonzero(~inside)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [sums(X, y - y0, s, a0, rows, chunk) for rows in (*tests, rest)]
        whole = Sums(*(sum(each) for each in zip(*parts, strict=True)))
        if not np.isfinite([whole.aa.sum(), whole.ay.sum(), whole.yy]).all():
            return None
    found = [fold(problem, whole, part, a0, y0, lams, tol, max_passes) for part in parts[:-1]]
    return None if any(each is None for each in found) else found  # type: ignore[return-value]


def sums(X: Array, y: Array, s: Array, a0: Array, rows: Array, chunk: int) -> Sums:
    """Over some rows, a few at a time."""
    p = X.shape[1]
    a, aa, ay = np.zeros(p), np.zeros((p, p)), np.zeros(p)
    for first in range(0, rows.size, chunk):
        at = rows[first : first + chunk]
        neighbours = at[-1] - at[0] == at.size - 1 and bool((np.diff(at) == 1).all())
        some: Any = slice(at[0], at[-1] + 1) if neighbours else at
        root = np.sqrt(s[some])
        A = (X[some] - a0) * root[:, None]
        a += root @ A
        aa += A.T @ A
        ay += (root * y[some]) @ A
    w, t = s[rows], y[rows]
    return Sums(float(w.sum()), a, float(w @ t), aa, ay, float(w @ (t * t)))


def fold(
    problem: Problem, whole: Sums, part: Sums, a0: Array, y0: float, lams: Array, tol: float,
    max_passes: int,
) -> Fold | None:  # fmt: skip
    """The path without the rows of `part`, and the errors on them."""
    tuning, train = problem.tuning, whole.minus(part)
    if not train.mass > 0:
        return None
    G, q, square = train.aa / train.mass, train.ay / train.mass, train.yy / train.mass
    means, target_mean = a0, y0
    if problem.fit_intercept:
        d, e = train.a / train.mass, train.y / train.mass
        G, q, square = G - np.outer(d, d), q - e * d, square - e * e
        means, target_mean = a0 + d, y0 + e
    rest = tuning.fold_rest / train.mass
    if (G.diagonal() < rest * whole.aa.diagonal()).any() or square < rest * whole.yy:
        return None
    moments = Moments(G, q, square, means, target_mean, tuning)
    x = np.zeros(q.size)
    problem.penalty.project(x)
    coefs, passes = follow(problem.penalty, moments, x, lams, tol, max_passes)
    fits = certified(problem.penalty, moments, lams, coefs, passes, tol, None)
    if fits is None:
        return None
    b = (y0 - coefs @ a0 - fits.intercepts) if problem.fit_intercept else np.zeros(lams.size)
    errors = np.einsum("kj,kj->k", coefs @ part.aa - 2.0 * part.ay, coefs)
    errors += part.yy + part.mass * b * b + 2.0 * b * (part.y - coefs @ part.a)
    if not (errors > tuning.fold_rest * part.yy).all():
        return None
    return Fold(fits, errors / part.mass)
