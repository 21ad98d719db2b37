"""scikit-learn: coordinate descent for the Lasso, liblinear for the logistic loss."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "sklearn", "scikit-learn"
LADDER = [10.0**-k for k in range(2, 13)]


def can(problem: Problem, path: bool) -> bool:
    """Neither groups nor anything nonconvex."""
    return problem.kind in ("lasso", "logistic")


def prepare(problem: Problem) -> None:
    """It warns where it stops early; the accuracy is measured here anyway."""
    warnings.simplefilter("ignore")


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    from sklearn.linear_model import Lasso, LogisticRegression

    if problem.kind == "lasso":
        model = Lasso(lam, fit_intercept=False, tol=tol, max_iter=100_000)
        return model.fit(problem.X, problem.y).coef_
    model = LogisticRegression(
        C=1.0 / (lam * problem.n), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=tol,
        max_iter=10_000,
    )  # fmt: skip
    return model.fit(problem.X, problem.y).coef_[0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """lasso_path, or fits in turn."""
    from sklearn.linear_model import lasso_path

    if problem.kind == "logistic":
        return np.stack([fit(problem, lam, tol) for lam in lams], axis=1)
    X, y = problem.X, problem.y
    return lasso_path(X, y, alphas=lams, tol=tol, max_iter=100_000)[1]
