"""Stability selection: features that are chosen again and again on halves of the rows.

Meinshausen and Bühlmann (2010); with complementary pairs of halves and the bounds of Shah and
Samworth (2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, indexable

from cyclade._checks import choice, generator, positive, require, whole_number
from cyclade.linear.losses import Array


@dataclass(frozen=True)
class StabilitySelection:
    """How often each feature was chosen, and a bound on false choices.

    Attributes
    ----------
    probabilities : array of shape (p,)
        The share of halves in which the feature was among the first `q`.
    selected : array of int
        Features with at least the probability `threshold`.
    threshold : float
    q : int
        The most features that a half may choose.
    bound : float
        The expected number of chosen features that a half chooses no more often than chance, q/p,
        is at most this.
    """

    probabilities: Array
    selected: Array
    threshold: float
    q: int
    bound: float


def error_bound(
    q: int, p: int, threshold: float, pairs: int, assumption: str = "unimodal"
) -> float:
    """The bound on the expected number of false choices.

    "none": q²/((2τ − 1) p) for the threshold τ. "unimodal": Theorem 2 of Shah and Samworth, for
    probabilities whose distribution has one mode; infinite where its conditions do not hold.
    """
    if assumption == "none":
        return q * q / ((2.0 * threshold - 1.0) * p)
    share, half = q / p, 0.5 / pairs
    least = min(0.5 + share**2, 0.5 + half + 0.75 * share**2)
    if share > 1.0 / np.sqrt(3.0) or threshold <= least:
        return np.inf
    if threshold <= 0.75:
        factor = 0.5 / (2.0 * threshold - 1.0 - half)
    else:
        factor = 4.0 * (1.0 - threshold + half) / (1.0 + 2.0 * half)
    return float(factor * q * q / p)


def stability_selection(
    model: Any,
    X: Any,
    y: Any,
    *,
    false_choices: float = 1.0,
    threshold: float = 0.75,
    q: int | None = None,
    pairs: int = 50,
    assumption: str = "unimodal",
    n_alphas: int = 50,
    seed: Any = 0,
    n_jobs: int | None = None,
) -> StabilitySelection:
    """Features that a path chooses early on most halves of the rows.

    Parameters
    ----------
    model : estimator
        One with `path`; it is left alone.
    X, y
        The rows.
    false_choices : float, default=1.0
        How many false choices are expected at most; it sets `q` where that is None.
    threshold : float, default=0.75
        τ, above ½: the share of halves that must choose a feature.
    q : int, default=None
        The most features of a half. The path goes down to the last alpha with no more.
    pairs : int, default=50
        B: rows are split in two halves so often.
    assumption : {"unimodal", "none"}
        What the bound assumes; see `error_bound`.
    n_alphas : int, default=50
        Of each path.
    seed : int or Generator
        Of the splits; classes are split evenly.
    n_jobs : int, default=None
        Halves at once, in threads.

    Examples
    --------
    >>> from cyclade.linear import Lasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 200))
    >>> y = 2 * X[:, 3] - 2 * X[:, 5] + rng.standard_normal(100)
    >>> found = stability_selection(Lasso(), X, y, pairs=10)
    >>> found.selected, found.bound <= 1.0
    (array([3, 5]), True)
    """
    choice("assumption", assumption, ("unimodal", "none"))
    require(0.5 < threshold <= 1.0, "threshold", threshold, "above 0.5 and at most 1")
    whole_number("pairs", pairs, 1)
    X, y = indexable(X, y)
    n, p = np.shape(X)
    if q is None:
        positive("false_choices", false_choices)
        bounds = [error_bound(k, p, threshold, pairs, assumption) for k in range(1, p + 1)]
        q = int(np.sum(np.array(bounds) <= false_choices))
        if q == 0:
            raise ValueError(f"false_choices must be at least {bounds[0]:.3g}, got {false_choices}")
    whole_number("q", q, 1, p)
    rng = generator("seed", seed)
    labels = np.unique(np.asarray(y), return_inverse=True)[1] if is_classifier(model) else None
    halves = [half for _ in range(pairs) for half in split(n, labels, rng)]

    def chosen(rows: Array) -> Array:
        part = _safe_indexing(X, rows), _safe_indexing(y, rows)
        _, on = chosen_along(model, *part, n_alphas)
        last = int(np.flatnonzero(on.sum(axis=0) <= q)[-1])  # the first alpha chooses nothing
        return np.asarray(on[:, last])

    counts = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(chosen)(half) for half in halves)
    probabilities = np.mean(counts, axis=0)
    bound = error_bound(q, p, threshold, pairs, assumption)
    selected = np.flatnonzero(probabilities >= threshold)
    return StabilitySelection(probabilities, selected, threshold, q, bound)


def chosen_along(model: Any, X: Any, y: Any, n_alphas: int) -> tuple[Array, Array]:
    """The alphas of a path, and which features are chosen at each."""
    path = clone(model).path(X, y, n_alphas=n_alphas)
    if path.alphas[-1] == 0.0:
        raise ValueError(f"model: {type(model).__name__} has a path of sizes, not of alphas")
    coefs = np.asarray(path.coefs)
    return path.alphas, np.any(coefs.reshape(-1, *coefs.shape[-2:]) != 0.0, axis=0)


def split(n: int, labels: Array | None, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two halves of the rows that share none, each label halved."""
    order = rng.permutation(n)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
        return np.sort(order[::2][: n // 2]), np.sort(order[1::2])
    return np.sort(order[: n // 2]), np.sort(order[n // 2 : 2 * (n // 2)])
