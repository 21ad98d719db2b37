"""scikit-learn's saga, warm-started along paths."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "sklearn", "scikit-learn saga"
LADDER = [10.0**-k for k in range(1, 9)]


def can(problem: Problem, path: bool) -> bool:
    """The logistic loss."""
    return not problem.intercept and problem.kind == "logistic"


def prepare(problem: Problem) -> None:
    """Rows come first in stochastic methods: C order, or CSR."""
    warnings.simplefilter("ignore")
    problem.X = problem.X.tocsr() if problem.sparse else np.ascontiguousarray(problem.X)


def _model(lam: float, n: int, tol: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(
        C=1.0 / (lam * n), l1_ratio=1.0, solver="saga", fit_intercept=False, tol=tol,
        max_iter=20_000, warm_start=True, random_state=0,
    )  # fmt: skip


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    return _model(lam, problem.n, tol).fit(problem.X, problem.y).coef_[0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """Fits in turn, each from the last."""
    model, found = _model(1.0, problem.n, tol), []
    for lam in lams:
        model.set_params(C=1.0 / (lam * problem.n))
        found.append(model.fit(problem.X, problem.y).coef_[0].copy())
    return np.stack(found, axis=1)
