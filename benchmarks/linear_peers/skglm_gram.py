"""skglm's GramCD: cycles on the Gram matrix, formed inside the time measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers import skglm_
from linear_peers.problems import Problem

MODULE, NAME = "skglm", "skglm Gram"
LADDER = skglm_.LADDER
MOST = 5_000  # columns of a Gram matrix that fits in memory
prepare = skglm_.prepare


def can(problem: Problem, path: bool) -> bool:
    """Squared losses without intercept, which it does not take."""
    least_squares = problem.kind in ("lasso", "enet", "mcp")
    return least_squares and not problem.intercept and problem.p <= MOST


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit: the better of its cyclic and its greedy order was the cyclic one."""
    return _solve(problem, lam, tol, None)


def _solve(problem: Problem, lam: float, tol: float, start: Any) -> Any:
    from skglm.solvers import GramCD

    _, penalty = skglm_.parts(problem.kind, problem.p)
    penalty.alpha = lam
    solver = GramCD(
        tol=tol * lam, max_iter=100_000, fit_intercept=False, greedy_cd=False, use_acc=True,
        warm_start=start is not None,
    )  # fmt: skip
    return solver.solve(problem.X, problem.y, None, penalty, start, None)[0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """Fits in turn, each from the last."""
    found, x = [], None
    for lam in lams:
        x = _solve(problem, lam, tol, x)
        found.append(x.copy())
    return np.stack(found, axis=1)
