"""copt: accelerated proximal gradient in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "copt", "copt"
LADDER = [10.0**-k for k in range(1, 9)]


def can(problem: Problem, path: bool) -> bool:
    """Lasso and logistic, single fits."""
    return not problem.intercept and problem.kind in ("lasso", "logistic") and not path


def prepare(problem: Problem) -> None:
    """Nothing."""


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    import copt

    def f_grad(x: Any) -> tuple[float, Any]:
        z = np.asarray(problem.X @ x)
        if problem.kind == "lasso":
            value = 0.5 * float(np.mean((z - problem.y) ** 2))
        else:
            value = float(np.logaddexp(0.0, -problem.y * z).mean())
        return value, np.asarray(problem.X.T @ problem.slopes(z)) / problem.n

    def prox(u: Any, t: float) -> Any:
        return np.sign(u) * np.maximum(np.abs(u) - lam * t, 0.0)

    return copt.minimize_proximal_gradient(
        f_grad, np.zeros(problem.p), prox, jac=True, tol=tol, max_iter=50_000, accelerated=True
    ).x
