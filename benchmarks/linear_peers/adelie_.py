"""adelie: group elastic net in C++, with screening and exact group steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers.problems import GROUP, L1_RATIO, Problem

MODULE, NAME = "adelie", "adelie"
LADDER = [10.0**-k for k in range(1, 17)]
_prepared: dict[str, Any] = {}


def can(problem: Problem, path: bool) -> bool:
    """Convex problems it has."""
    return problem.kind in ("lasso", "enet", "logistic", "group", "poisson")


def prepare(problem: Problem) -> None:
    """Its own matrix and model objects."""
    import adelie as ad

    wrap = ad.matrix.sparse if problem.sparse else ad.matrix.dense
    _prepared["X"] = wrap(problem.X, method="naive", n_threads=1)
    if problem.kind == "logistic":
        _prepared["glm"] = ad.glm.binomial(y=(problem.y > 0).astype(float))
    elif problem.kind == "poisson":
        _prepared["glm"] = ad.glm.poisson(y=problem.y)
    else:
        _prepared["glm"] = ad.glm.gaussian(y=problem.y)
    step = GROUP if problem.kind == "group" else 1
    _prepared["groups"] = np.arange(0, problem.p, step)


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    return path(problem, np.array([lam]), tol)[:, 0]


def path(problem: Problem, lams: Any, tol: float) -> Any:
    """grpnet; the Newton tolerance of curved losses follows that of the descent."""
    import adelie as ad

    state = ad.grpnet(
        _prepared["X"], _prepared["glm"], groups=_prepared["groups"], lmda_path=np.asarray(lams),
        alpha=L1_RATIO if problem.kind == "enet" else 1.0, intercept=problem.intercept,
        early_exit=False, adev_tol=1.0, tol=tol, irls_tol=tol, n_threads=1,
        progress_bar=False, max_iters=10_000_000,
    )  # fmt: skip
    coefs = state.betas.toarray().T
    return np.vstack([coefs, state.intercepts]) if problem.intercept else coefs
