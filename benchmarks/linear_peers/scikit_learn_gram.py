"""scikit-learn with the Gram matrix formed first, inside the time measured."""

from __future__ import annotations

from typing import Any

from linear_peers import scikit_learn
from linear_peers.problems import Problem

MODULE, NAME = "sklearn", "scikit-learn Gram"
LADDER = scikit_learn.LADDER
MOST = 5_000  # columns of a Gram matrix that fits in memory
prepare = scikit_learn.prepare


def can(problem: Problem, path: bool) -> bool:
    """Squared losses, dense X of few columns."""
    least_squares = problem.kind in ("lasso", "enet")
    return least_squares and not problem.sparse and problem.p <= MOST


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    return scikit_learn.fit(problem, lam, tol, precompute=True)


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """A path."""
    return scikit_learn.path(problem, lams, tol, precompute=True)
