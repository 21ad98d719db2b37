"""Knockoffs: selection at a rate of false discoveries, by copies that could not have mattered.

Barber and Candès (2015) for a fixed X, Candès, Fan, Janson and Lv (2018) for a Gaussian X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array

from cyclade._checks import choice, generator
from cyclade.linear.checks import between
from cyclade.linear.losses import Array
from cyclade.linear.statistics.stability import chosen_along

SWEEPS = 20


@dataclass(frozen=True)
class KnockoffSelection:
    """What the filter chose.

    Attributes
    ----------
    selected : array of int
        Features with a statistic of at least `threshold`.
    statistics : array of shape (p,)
        W: large where a feature did better than its knockoff, negative where it did worse.
    threshold : float
        Infinite if nothing is chosen.
    """

    selected: Array
    statistics: Array
    threshold: float


def varied(X: Any) -> Array:
    """X in float64; ValueError if a column is constant."""
    X = check_array(X, dtype=np.float64)
    constant = np.flatnonzero(np.ptp(X, axis=0) == 0.0)
    if constant.size:
        raise ValueError(f"X: column {constant[0]} is constant: drop it")
    return np.asarray(X)


def stream(seed: Any) -> np.random.Generator:
    """Random numbers that are not those of a user who drew X with the same seed."""
    return generator("seed", seed).spawn(1)[0]


def least_alike(sigma: Array) -> Array:
    """s with 2Σ − diag(s) ≻ 0 by maximum entropy: max log det(2Σ − diag s) + Σ log s_j.

    Cyclic ascent, exact in each entry (Spector and Janson 2022): with c = s_j + 1/D⁻¹_jj for
    D = 2Σ − diag(s), the best s_j is c/2.
    """
    smallest = float(np.linalg.eigvalsh(sigma)[0])
    if smallest <= 1e-10 * float(np.max(np.diag(sigma))):
        raise ValueError("X: its covariance is singular; give covariance=, or drop columns")
    s = np.full(len(sigma), smallest)
    for _ in range(SWEEPS):
        before, inverse = s.copy(), np.linalg.inv(2.0 * sigma - np.diag(s))
        for j in range(len(s)):
            d = 0.5 * (s[j] + 1.0 / inverse[j, j]) - s[j]
            s[j] += d
            column = inverse[:, j].copy()
            inverse += np.outer(column, column) * (d / (1.0 - d * column[j]))
        if np.max(abs(s - before)) <= 1e-6 * np.max(s):
            break
    return s


def mixing(sigma: Array, s: Array) -> tuple[Array, Array]:
    """Σ⁻¹D for D = diag(s), and the root of 2D − DΣ⁻¹D: what is taken off X, and the noise."""
    mixed = np.linalg.solve(sigma, np.diag(s))
    rest = 2.0 * np.diag(s) - s[:, None] * mixed
    return mixed, np.linalg.cholesky(0.5 * (rest + rest.T)).T


def fixed_knockoffs(X: Any, *, seed: Any = 0) -> tuple[Array, Array]:
    """Columns of X, centred and of norm one, and knockoffs with the same products.

    X̃ᵀX̃ = XᵀX and XᵀX̃ = XᵀX − diag(s). Needs n > 2p rows.

    Examples
    --------
    >>> X, copies = fixed_knockoffs(np.random.default_rng(0).standard_normal((20, 3)))
    >>> bool(np.allclose(X.T @ X, copies.T @ copies))
    True
    """
    X = varied(X)
    n, p = X.shape
    if n <= 2 * p:
        raise ValueError(f"X: fixed knockoffs need more than {2 * p} rows, got {n}")
    A = X - X.mean(axis=0)
    A = A / np.linalg.norm(A, axis=0)
    sigma = A.T @ A
    s = least_alike(sigma)
    mixed, root = mixing(sigma, s)
    outside = stream(seed).standard_normal((n, p))
    U = np.linalg.qr(np.c_[np.ones(n), A, outside])[0][:, p + 1 :]
    return A, A - A @ mixed + U @ root


def gaussian_knockoffs(X: Any, *, mean: Any = None, covariance: Any = None, seed: Any = 0) -> Array:
    """A draw of knockoffs of rows that are normal, with this mean and covariance or those of X.

    Without a covariance, that of Ledoit and Wolf is taken.

    Examples
    --------
    >>> gaussian_knockoffs(np.random.default_rng(0).standard_normal((20, 3))).shape
    (20, 3)
    """
    from sklearn.covariance import ledoit_wolf

    X = varied(X)
    mean = X.mean(axis=0) if mean is None else np.asarray(mean, np.float64)
    sigma = ledoit_wolf(X)[0] if covariance is None else np.asarray(covariance, np.float64)
    if sigma.shape != (X.shape[1],) * 2:
        raise ValueError(f"covariance must have shape {(X.shape[1],) * 2}, got {sigma.shape}")
    size = np.sqrt(np.diag(sigma))
    s = least_alike(sigma / np.outer(size, size)) * size**2
    mixed, root = mixing(sigma, s)
    return np.asarray(X - (X - mean) @ mixed + stream(seed).standard_normal(X.shape) @ root)


def knockoff_threshold(W: Array, rate: float, plus: bool = True) -> float:
    """The least t > 0 with (1 + #{W ≤ −t}) / #{W ≥ t} ≤ rate; the 1 is left out unless `plus`."""
    for t in np.unique(abs(W[W != 0.0])):
        if (plus + np.sum(-t >= W)) <= rate * max(np.sum(t <= W), 1):
            return float(t)
    return np.inf


def knockoff_filter(
    model: Any,
    X: Any,
    y: Any,
    *,
    rate: float = 0.1,
    kind: str = "gaussian",
    statistic: str = "auto",
    plus: bool = True,
    mean: Any = None,
    covariance: Any = None,
    seed: Any = 0,
) -> KnockoffSelection:
    """Features at an expected rate of false discoveries, by fits of X beside its knockoffs.

    Parameters
    ----------
    model : estimator
        Fitted to the columns of X and their knockoffs, all of standard deviation one.
    X, y
        The rows.
    rate : float, default=0.1
        Of false discoveries.
    kind : {"gaussian", "fixed"}
        "gaussian": rows of X are normal, y given X is anything. "fixed": X is anything with n > 2p
        rows, y is linear with normal errors.
    statistic : {"auto", "coef", "entry"}
        "coef": the size of a coefficient less that of its knockoff. "entry": the larger of the
        alphas at which the two come in along ``model.path``, negative if the knockoff is first.
        "auto" is the first for "gaussian" and the second for "fixed", which may not look at rows
        one by one, as cross-validation does.
    plus : bool, default=True
        Knockoff+, which controls the rate itself.
    mean, covariance
        Of "gaussian", as in `gaussian_knockoffs`.
    seed : int or Generator

    Examples
    --------
    >>> from cyclade.linear import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 60))
    >>> y = X[:, :12] @ np.ones(12) + rng.standard_normal(200)
    >>> knockoff_filter(LassoCV(), X, y).selected
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 58])
    """
    between("rate", rate)
    choice("kind", kind, ("gaussian", "fixed"))
    choice("statistic", statistic, ("auto", "coef", "entry"))
    rng = generator("seed", seed)
    if kind == "fixed":
        A, copies = fixed_knockoffs(X, seed=rng)
    else:
        A = varied(X)
        copies = gaussian_knockoffs(A, mean=mean, covariance=covariance, seed=rng)
    p = A.shape[1]
    swapped = rng.random(p) < 0.5  # so that no solver favours the first of two
    both = np.c_[np.where(swapped, copies, A), np.where(swapped, A, copies)]
    both = both / both.std(axis=0)
    if statistic == "coef" or (statistic == "auto" and kind == "gaussian"):
        size = abs(np.atleast_2d(clone(model).fit(both, y).coef_)).max(axis=0)
        W = size[:p] - size[p:]
    else:
        alphas, on = chosen_along(model, both, y, 200)
        entry = np.where(on.any(axis=1), alphas[np.argmax(on, axis=1)], 0.0)
        W = np.maximum(entry[:p], entry[p:]) * np.sign(entry[:p] - entry[p:])
    W = np.where(swapped, -W, W)
    threshold = knockoff_threshold(W, rate, plus)
    return KnockoffSelection(np.flatnonzero(threshold <= W), W, threshold)
