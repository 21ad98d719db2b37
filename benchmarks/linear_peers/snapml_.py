"""snapml: IBM's coordinate descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "snapml", "snapml"
LADDER = [10.0**-k for k in range(1, 10)]


def can(problem: Problem, path: bool) -> bool:
    """The logistic loss, single fits."""
    return not problem.intercept and problem.kind == "logistic" and not path


def prepare(problem: Problem) -> None:
    """Sparse data by columns, for the primal."""
    problem.X = problem.X if problem.sparse else np.ascontiguousarray(problem.X)


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    from snapml import LogisticRegression

    model = LogisticRegression(
        max_iter=100_000, regularizer=lam * problem.n, dual=False, penalty="l1", tol=tol,
        fit_intercept=False, n_jobs=1,
    )  # fmt: skip
    return np.ravel(model.fit(problem.X, problem.y).coef_)
