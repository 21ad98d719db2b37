"""spams: LARS for the Lasso, FISTA for the logistic loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "spams", "spams"


def LADDER(problem: Problem) -> list[float]:
    """LARS is exact; FISTA has a tolerance."""
    return [0.0] if problem.kind == "lasso" else [10.0**-k for k in range(4, 11)]


def can(problem: Problem, path: bool) -> bool:
    """Dense Lasso and logistic, single fits."""
    return (
        not problem.intercept
        and problem.kind in ("lasso", "logistic")
        and not path
        and not problem.sparse
    )


def prepare(problem: Problem) -> None:
    """Nothing."""


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    import spams

    y = np.asfortranarray(problem.y[:, None])
    if problem.kind == "lasso":
        found = spams.lasso(y, D=problem.X, lambda1=lam * problem.n, mode=2, numThreads=1)
        return np.asarray(found.todense()).ravel()
    W0 = np.zeros((problem.p, 1), order="F")
    found = spams.fistaFlat(
        y, problem.X, W0, loss="logistic", regul="l1", lambda1=lam, tol=tol, max_it=100_000,
        numThreads=1,
    )  # fmt: skip
    return np.ravel(found)
