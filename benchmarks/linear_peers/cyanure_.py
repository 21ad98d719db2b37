"""cyanure: variance-reduced and quasi-Newton methods in C++."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "cyanure", "cyanure"
LADDER = [10.0**-k for k in range(1, 10)]


def can(problem: Problem, path: bool) -> bool:
    """Lasso and logistic, single fits."""
    return not problem.intercept and problem.kind in ("lasso", "logistic") and not path


def prepare(problem: Problem) -> None:
    """Rows first."""
    warnings.simplefilter("ignore")
    problem.X = problem.X.tocsr() if problem.sparse else np.ascontiguousarray(problem.X)


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    from cyanure.estimators import Classifier, Regression

    options = {
        "penalty": "l1", "lambda_1": lam, "fit_intercept": False, "tol": tol, "max_iter": 100_000,
        "verbose": False, "n_threads": 1, "safe": False,
    }  # fmt: skip
    if problem.kind == "lasso":
        model = Regression(**options)
    else:
        model = Classifier(loss="logistic", **options)
    return np.ravel(model.fit(problem.X, problem.y).coef_)
