"""glmnet's Fortran, by python-glmnet."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "glmnet", "glmnet"
LADDER = [10.0**-k for k in range(1, 17)]


def can(problem: Problem, path: bool) -> bool:
    """Lasso and logistic."""
    return not problem.intercept and problem.kind in ("lasso", "logistic")


def prepare(problem: Problem) -> None:
    """It warns where it stops early; the accuracy is measured here anyway."""
    warnings.simplefilter("ignore")


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    return path(problem, np.array([lam]), tol)[:, 0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """Its own path; no cross-validation."""
    from glmnet import ElasticNet, LogitNet

    kind = ElasticNet if problem.kind == "lasso" else LogitNet
    model = kind(
        alpha=1, lambda_path=np.asarray(lams), standardize=False, fit_intercept=False, n_splits=0,
        tol=tol, max_iter=10_000_000,
    )  # fmt: skip
    model.fit(problem.X, problem.y)
    return np.squeeze(model.coef_path_).reshape(problem.p, len(lams))
