"""The graphical lasso: a sparse inverse covariance matrix, with a duality gap that holds.

    min over Θ ≻ 0 of  −log det Θ + tr SΘ + alpha Σ_{i≠j} w_ij |Θ_ij|

By Newton steps whose directions come from cyclic descent on the free entries (Hsieh et al. 2014).
Variables that no |S_ij| > alpha w_ij joins are apart in Θ: each component is a problem of its own
(Witten, Friedman and Simon 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse.csgraph import connected_components

from cyclade._checks import non_negative, positive, whole_number
from cyclade.linear.kernels.covariance import newton_direction
from cyclade.linear.losses import Array
from cyclade.linear.results import Certificate
from cyclade.linear.threads import one_thread

HALVINGS = 30


@dataclass(frozen=True)
class GraphicalSolution:
    """A sparse precision matrix Θ, its inverse, F there, and the gap."""

    precision: Array
    covariance: Array
    objective: float
    certificate: Certificate
    passes: int


def graphical_lasso(
    S: Any,
    alpha: float,
    *,
    weights: Any = None,
    start: Any = None,
    tol: float = 1e-6,
    max_iter: int = 1_000,
) -> GraphicalSolution:
    """A sparse inverse of a covariance matrix.

    Parameters
    ----------
    S : array of shape (p, p)
        The empirical covariance, with a positive diagonal; it may be singular.
    alpha : float
        λ ≥ 0 of the entries off the diagonal; zero needs an S that can be inverted.
    weights : array of shape (p, p), default=None
        Factors w ≥ 0 of alpha, symmetric. The diagonal is never penalised.
    start : array of shape (p, p), default=None
        A precision matrix to start from.
    tol : float
        Stop at a duality gap of `tol` per variable.
    max_iter : int
        The most Newton steps of a component.

    Examples
    --------
    >>> found = graphical_lasso([[2.0, 0.5], [0.5, 1.0]], alpha=0.1)
    >>> found.covariance.round(3)
    array([[2. , 0.4],
           [0.4, 1. ]])
    >>> found.certificate.reached
    True
    """
    S, alpha = np.asarray(S, np.float64), non_negative("alpha", alpha)
    tol, max_iter = positive("tol", tol), whole_number("max_iter", max_iter, 1)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or not np.isfinite(S).all():
        raise ValueError(f"S must be a square matrix of finite numbers, got shape {S.shape}")
    if not np.allclose(S, S.T, atol=1e-8 * abs(S).max()) or (np.diag(S) <= 0.0).any():
        raise ValueError("S must be symmetric with a positive diagonal: no variable is constant")
    lam = np.full(S.shape, alpha) if weights is None else alpha * np.asarray(weights, np.float64)
    if lam.shape != S.shape or (lam < 0).any() or not np.array_equal(lam, lam.T):
        raise ValueError("weights must be symmetric, of the shape of S, and nowhere negative")
    np.fill_diagonal(lam, 0.0)
    p = len(S)
    theta, W = np.diag(1.0 / np.diag(S)), np.diag(np.diag(S))
    count, label = connected_components(abs(S) > lam, directed=False)
    F, gap, passes = 0.0, 0.0, 0
    for k in range(count):
        at = np.flatnonzero(label == k)
        box = np.ix_(at, at)
        first = theta[box] if start is None else np.asarray(start, np.float64)[box]
        with one_thread(0):
            found = component(S[box], lam[box], first, tol * at.size, max_iter)
        theta[box], W[box] = found[0], found[1]
        F, gap, passes = F + found[2], gap + found[3], max(passes, found[4])
    return GraphicalSolution(theta, W, F, Certificate("gap", gap, tol * p), passes)


def component(
    S: Array, lam: Array, theta: Array, tol: float, max_iter: int
) -> tuple[Array, Array, float, float, int]:
    """Θ, its inverse, F, the gap and the Newton steps of one component."""
    W, logdet = factored(theta)
    if logdet == -np.inf:
        theta = np.diag(1.0 / np.diag(S))
        W, logdet = factored(theta)
    F = -logdet + float(np.vdot(S, theta)) + float(np.vdot(lam, abs(theta)))
    for done in range(max_iter + 1):
        g = S - W
        gap = F - dual(S, lam, W)
        if gap <= max(tol, 1e-14 * (abs(F) + len(S))) or done == max_iter:
            break
        free = (theta != 0.0) | (abs(g) > lam)
        rows, cols = (index.astype(np.int64) for index in np.nonzero(np.triu(free)))
        near = np.where(theta != 0.0, abs(g + lam * np.sign(theta)), np.maximum(abs(g) - lam, 0.0))
        D = np.zeros_like(S)
        newton_direction(S, W, theta, lam, rows, cols, D, 2 + done**3, 0.05 * float(near.max()))
        fall = float(np.vdot(g, D)) + float(np.vdot(lam, abs(theta + D) - abs(theta)))
        t = 1.0
        for _ in range(HALVINGS):
            new = theta + t * D
            inverse, logdet = factored(new)
            lower = -logdet + float(np.vdot(S, new)) + float(np.vdot(lam, abs(new)))
            if lower <= F + 1e-3 * t * fall + 1e-15 * abs(F):
                break
            t *= 0.5
        else:
            break
        theta, W, F = new, inverse, lower
    return theta, W, F, max(gap, 0.0), done


def dual(S: Array, lam: Array, W: Array) -> float:
    """log det U + p at a feasible U near W: |U − S| ≤ Λ, positive definite.

    W is clipped into the box. Where that is not positive definite, it is mixed with S drawn towards
    its diagonal as far as the box allows, which is.
    """
    U = S + np.clip(W - S, -lam, lam)
    size = np.max(abs(S) * (1.0 - np.eye(len(S))), initial=0.0)
    off = (abs(S) > 0.0) & ~np.eye(len(S), dtype=bool)
    part = min(1.0, float(np.min(lam[off] / abs(S[off]), initial=np.inf))) if size else 1.0
    inside = (1.0 - part) * S + part * np.diag(np.diag(S))
    for share in (0.0, *0.5 ** np.arange(20.0, -1.0, -1.0)):
        F, failed = dpotrf((1.0 - share) * U + share * inside, lower=True)
        if not failed:
            return 2.0 * float(np.log(np.diag(F)).sum()) + len(S)
    return -np.inf


def factored(theta: Array) -> tuple[Array, float]:
    """The inverse and the log-determinant, which is −inf if Θ is not positive definite."""
    F, failed = dpotrf(theta, lower=True)
    if failed:
        return theta, -np.inf
    logdet = 2.0 * float(np.log(np.diag(F)).sum())
    half, _ = dpotri(F, lower=True)
    half = np.tril(half)
    return half + np.tril(half, -1).T, logdet
