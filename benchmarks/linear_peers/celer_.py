"""celer: working sets, dual extrapolation, gap-safe screening."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import L1_RATIO, Problem

MODULE, NAME = "celer", "celer"
LADDER = [10.0**-k for k in range(1, 13)]


def can(problem: Problem, path: bool) -> bool:
    """Convex problems it has; an intercept for least squares only."""
    if problem.intercept:
        return problem.kind in ("lasso", "enet")
    return problem.kind in ("lasso", "enet", "logistic", "group")


def prepare(problem: Problem) -> None:
    """It warns where it stops early; the accuracy is measured here anyway."""
    warnings.simplefilter("ignore")


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    if problem.intercept:
        from celer import ElasticNet

        ratio = L1_RATIO if problem.kind == "enet" else 1.0
        model = ElasticNet(lam, l1_ratio=ratio, tol=tol, max_iter=1_000).fit(problem.X, problem.y)
        return np.append(model.coef_, model.intercept_)
    return path(problem, np.array([lam]), tol)[:, 0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """celer_path. Its logistic objective is a sum over rows, so λ becomes nλ."""
    from celer import celer_path

    if problem.intercept:
        return np.stack([fit(problem, lam, tol) for lam in lams], axis=1)
    if problem.kind in ("lasso", "enet"):
        ratio = L1_RATIO if problem.kind == "enet" else 1.0
        return celer_path(
            problem.X, problem.y, "lasso", alphas=lams, tol=tol, max_iter=1_000, l1_ratio=ratio
        )[1]
    if problem.kind == "logistic":
        alphas = np.asarray(lams) * problem.n
        return celer_path(
            problem.X, problem.y, "logreg", alphas=alphas, tol=tol, max_iter=1_000, use_PN=True
        )[1]
    weights = np.sqrt([float(len(g)) for g in problem.groups])
    return celer_path(
        problem.X, problem.y, "grouplasso", alphas=lams, tol=tol, max_iter=1_000,
        groups=problem.groups, weights=weights,
    )[1]  # fmt: skip
