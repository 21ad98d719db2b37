"""skglm: working sets and Anderson acceleration; prox-Newton for the logistic loss.

Its kernels are compiled before the clock starts (the first-call time shows them). It has no Cauchy
loss: one is written here, as its manual says, and solved with AndersonCD.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

from linear_peers.problems import GAMMA, L1_RATIO, Problem

MODULE, NAME = "skglm", "skglm"


def LADDER(problem: Problem) -> list[float]:
    """Its tolerance is on the violation of the optimality conditions, so it scales with λ."""
    if problem.convex:
        return [10.0**-k for k in range(1, 9)]
    return [1e-3, 3e-4, 1e-4, 3e-5]


def can(problem: Problem, path: bool) -> bool:
    """All kinds; the Cauchy loss for dense X only."""
    return problem.kind != "cauchy" or not problem.sparse


def prepare(problem: Problem) -> None:
    """It warns where it stops early; the accuracy is measured here anyway."""
    warnings.simplefilter("ignore")


@cache
def parts(kind: str, p: int) -> tuple[Any, Any]:
    """Datafit and penalty, compiled."""
    from skglm.datafits import Huber, Logistic, Poisson, Quadratic, QuadraticGroup
    from skglm.penalties import L1, L1_plus_L2, MCPenalty, WeightedGroupL2
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    if kind == "group":
        groups = [list(range(s, min(s + 10, p))) for s in range(0, p, 10)]
        indices, ends = grp_converter(groups, p)
        weights = np.sqrt([float(len(g)) for g in groups])
        return (
            compiled_clone(QuadraticGroup(ends, indices)),
            compiled_clone(WeightedGroupL2(1.0, weights, ends, indices)),
        )
    makers = {"logistic": Logistic, "cauchy": _cauchy, "poisson": Poisson}
    datafit = Huber(1.0) if kind == "huber" else makers.get(kind, Quadratic)()
    penalty = {"mcp": MCPenalty(1.0, GAMMA), "enet": L1_plus_L2(1.0, L1_RATIO)}.get(kind, L1(1.0))
    return compiled_clone(datafit), compiled_clone(penalty)


def _solver(problem: Problem, tol: float) -> Any:
    from skglm.solvers import AndersonCD, GroupBCD, ProxNewton

    kind, with_c = problem.kind, problem.intercept
    if kind == "group":
        return GroupBCD(tol=tol, max_iter=1_000, fit_intercept=with_c)
    if kind in ("logistic", "poisson"):
        return ProxNewton(tol=tol, max_iter=200, max_pn_iter=2_000, fit_intercept=with_c)
    return AndersonCD(tol=tol, max_iter=1_000, max_epochs=100_000, fit_intercept=with_c)


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    return _solve(problem, lam, tol, None)


def _solve(problem: Problem, lam: float, tol: float, start: Any) -> Any:
    datafit, penalty = parts(problem.kind, problem.p)
    penalty.alpha = lam
    solver = _solver(problem, tol * lam)
    if start is None:
        return solver.solve(problem.X, problem.y, datafit, penalty)[0]
    Xw = problem.predict(start)
    return solver.solve(problem.X, problem.y, datafit, penalty, start.copy(), Xw)[0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """Fits in turn, each from the last."""
    found, x = [], None
    for lam in lams:
        x = _solve(problem, lam, tol, x)
        found.append(x)
    return np.stack(found, axis=1)


def _cauchy() -> Any:
    from numba import float64
    from skglm.datafits.base import BaseDatafit

    class Cauchy(BaseDatafit):  # type: ignore[misc]
        """(1/n) Σ ½ log(1 + (z − y)²)."""

        def __init__(self) -> None:
            pass

        def get_spec(self) -> Any:
            return (("unused", float64),)

        def params_to_dict(self) -> dict[str, Any]:
            return {}

        def get_lipschitz(self, X: Any, y: Any) -> Any:
            found = np.zeros(X.shape[1])
            for j in range(X.shape[1]):
                found[j] = (X[:, j] ** 2).sum() / len(y)
            return found

        def initialize(self, X: Any, y: Any) -> None:
            pass

        def value(self, y: Any, w: Any, Xw: Any) -> float:
            return np.log(1.0 + (Xw - y) ** 2).sum() / (2.0 * len(y))

        def gradient_scalar(self, X: Any, y: Any, w: Any, Xw: Any, j: int) -> float:
            u = Xw - y
            return X[:, j] @ (u / (1.0 + u * u)) / len(y)

    return Cauchy()
