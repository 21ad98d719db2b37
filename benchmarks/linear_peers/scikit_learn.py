"""scikit-learn: coordinate descent for the Lasso and elastic net, liblinear for logistic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import L1_RATIO, Problem

MODULE, NAME = "sklearn", "scikit-learn"
LADDER = [10.0**-k for k in range(1, 13)]


def can(problem: Problem, path: bool) -> bool:
    """Neither groups nor anything nonconvex; liblinear penalises its intercept."""
    if problem.kind == "logistic":
        return not problem.intercept
    return problem.kind in ("lasso", "enet")


def prepare(problem: Problem) -> None:
    """It warns where it stops early; the accuracy is measured here anyway."""
    warnings.simplefilter("ignore")


def fit(problem: Problem, lam: float, tol: float, precompute: bool = False) -> Any:
    """One fit."""
    from sklearn.linear_model import ElasticNet, LogisticRegression

    if problem.kind in ("lasso", "enet"):
        model = ElasticNet(
            lam, l1_ratio=L1_RATIO if problem.kind == "enet" else 1.0, tol=tol, max_iter=100_000,
            fit_intercept=problem.intercept, precompute=precompute,
        )  # fmt: skip
        model.fit(problem.X, problem.y)
        return np.append(model.coef_, model.intercept_) if problem.intercept else model.coef_
    model = LogisticRegression(
        C=1.0 / (lam * problem.n), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=tol,
        max_iter=10_000,
    )  # fmt: skip
    return model.fit(problem.X, problem.y).coef_[0]


def path(problem: Problem, lams: Any, tol: float, precompute: bool = False) -> Any:
    """enet_path, or fits in turn."""
    from sklearn.linear_model import enet_path

    if problem.kind == "logistic" or (problem.intercept and problem.sparse):
        return np.stack([fit(problem, lam, tol, precompute) for lam in lams], axis=1)
    X, y = problem.X, problem.y
    if problem.intercept:
        X, y = X - X.mean(axis=0), y - y.mean()
    coefs = enet_path(
        X, y, l1_ratio=L1_RATIO if problem.kind == "enet" else 1.0, alphas=lams, tol=tol,
        max_iter=100_000, precompute=precompute,
    )[1]  # fmt: skip
    if not problem.intercept:
        return coefs
    return np.vstack([coefs, problem.y.mean() - problem.X.mean(axis=0) @ coefs])
