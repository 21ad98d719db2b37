"""cyclade.linear."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers.problems import GAMMA, L1_RATIO, Problem

MODULE, NAME = "cyclade", "cyclade"
LADDER = [10.0**-k for k in range(1, 13)]


def can(problem: Problem, path: bool) -> bool:
    """Everything."""
    return True


def prepare(problem: Problem) -> None:
    """Nothing."""


def penalty(problem: Problem, lam: float) -> Any:
    """The penalty of this kind of problem at λ."""
    from cyclade.linear import penalties

    if problem.kind == "enet":
        return penalties.ElasticNet(lam, L1_RATIO)
    if problem.kind == "group":
        return penalties.GroupL2(lam, problem.groups)
    return penalties.MCP(lam, GAMMA) if problem.kind == "mcp" else penalties.L1(lam)


def loss(problem: Problem) -> Any:
    """The loss of this kind of problem."""
    from cyclade.linear import losses

    known = {"cauchy": losses.Cauchy(1.0), "huber": losses.Huber(1.0)}
    name = problem.kind if problem.kind in ("logistic", "poisson") else "squared"
    return known.get(problem.kind) or losses.get(name)


def solution(problem: Problem, lam: float, tol: float) -> Any:
    """One fit, with all that comes with it."""
    from cyclade.linear import solve

    r = penalty(problem, lam)
    return solve(problem.X, problem.y, loss(problem), r, fit_intercept=problem.intercept, tol=tol)


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    found = solution(problem, lam, tol)
    return np.append(found.coef, found.intercept) if problem.intercept else found.coef


def followed(problem: Problem, lams: Any, tol: float) -> Any:
    """A path, with all that comes with it."""
    from cyclade.linear import path as follow

    r, phi = penalty(problem, float(lams[-1])), loss(problem)
    return follow(
        problem.X, problem.y, phi, r, alphas=lams, fit_intercept=problem.intercept, tol=tol
    )


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """A path."""
    found = followed(problem, lams, tol)
    return np.vstack([found.coefs, found.intercepts]) if problem.intercept else found.coefs


def traffic(problem: Problem, lams: Any, tol: float) -> float:
    """Bytes of X that the passes read: whole checks, and cycles over working sets.

    Of a path only the least is known: one check for every λ, and cycles over the support.
    """
    whole = problem.X.nbytes if not problem.sparse else 12.0 * problem.X.nnz
    if len(lams) > 1:
        done = followed(problem, lams, tol)
        support = np.count_nonzero(done.coefs.reshape(problem.p, -1, len(lams)).any(1), axis=0)
        return float(whole * (len(lams) + (done.passes * support).sum() / problem.p))
    done = solution(problem, float(lams[0]), tol)
    cycles, before = 0.0, 0.0
    for row in done.history:
        cycles += (row["passes"] - before) * row["working"] / problem.p
        before = row["passes"]
    return float(whole * (len(done.history) + cycles))


def as_numpy(x: Any) -> Any:
    """Coefficients as a flat array."""
    return np.asarray(x)
