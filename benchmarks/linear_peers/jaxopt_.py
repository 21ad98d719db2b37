"""jaxopt: accelerated proximal gradient, compiled by XLA, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from linear_peers.problems import Problem

MODULE, NAME = "jaxopt", "jaxopt"
LADDER = [10.0**-k for k in range(1, 9)]
_prepared: dict[str, Any] = {}


def can(problem: Problem, path: bool) -> bool:
    """Dense Lasso and logistic, single fits."""
    return (
        not problem.intercept
        and problem.kind in ("lasso", "logistic")
        and not path
        and not problem.sparse
    )


def prepare(problem: Problem) -> None:
    """The data as JAX arrays, and f."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    X, y = jnp.asarray(problem.X), jnp.asarray(problem.y)
    if problem.kind == "lasso":
        _prepared["f"] = lambda x: 0.5 * jnp.mean((X @ x - y) ** 2)
    else:
        _prepared["f"] = lambda x: jnp.mean(jnp.logaddexp(0.0, -y * (X @ x)))
    for tol in LADDER:
        _prepared[tol] = _solver(tol)


def _solver(tol: float) -> Any:
    import jaxopt

    return jaxopt.ProximalGradient(
        _prepared["f"], jaxopt.prox.prox_lasso, maxiter=50_000, tol=tol, acceleration=True
    )


def fit(problem: Problem, lam: float, tol: float) -> Any:
    """One fit."""
    found = _prepared[tol].run(np.zeros(problem.p), hyperparams_prox=lam).params
    return np.asarray(found.block_until_ready())
