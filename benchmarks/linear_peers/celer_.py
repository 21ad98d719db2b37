"""celer: working sets, dual extrapolation, gap-safe screening."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "celer", "celer"
LADDER = [10.0**-k for k in range(3, 13)]


def can(problem: Problem, path: bool) -> bool:
    """Convex problems."""
    return problem.convex


def prepare(problem: Problem) -> None:
    """It warns where it stops early; the accuracy is measured here anyway."""
    warnings.simplefilter("ignore")


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    return path(problem, np.array([lam]), tol)[:, 0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """celer_path. Its logistic objective is a sum over rows, so λ becomes nλ."""
    from celer import celer_path

    if problem.kind == "lasso":
        return celer_path(problem.X, problem.y, "lasso", alphas=lams, tol=tol, max_iter=1_000)[1]
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
