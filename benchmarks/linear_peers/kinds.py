"""Kinds of data in two halves: one to tune on, one drawn by a number when it is to be run.

The tuned half is fixed. Of the held-out half the shapes, correlations, categories, real tables and
seeds are all drawn at random from the number given as ``--draw``, so nobody has looked at it
before; its results say where to work next, so the next run takes another number. Names end in the
half, and in the number: ``tall-tuned``, ``tall-held7``. Text needs ``--data-dir``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from linear_peers.problems import correlated, signal, table

# (kind of problem, data, places); a "+1" has an intercept.
LINES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("lasso", "tall", ("10", "100", "1000", "path")),
    ("enet", "tall", ("100",)),
    ("mcp", "tall", ("10",)),
    ("huber", "tall", ("10",)),
    ("lasso+1", "square", ("10", "100")),
    ("lasso+1", "small", ("10", "100", "path")),
    ("logistic+1", "smalllabels", ("10", "100", "path")),
    ("logistic", "tfidf", ("10", "100")),
    ("logistic", "counts", ("100", "1000")),
    ("logistic+1", "onehot", ("10", "100")),
    ("lasso+1", "onehot", ("100", "path")),
    ("poisson+1", "events", ("10", "100")),
    ("lasso", "large", ("10", "100")),
    ("enet", "near", ("10", "100")),
    ("lasso", "genes", ("10", "100", "path")),
)
HALVES = ("tuned", "held")


def lines(half: str, with_data: bool) -> list[tuple[str, str, str]]:
    """(kind, data set, place) of every line of that half: ``tuned``, or ``held`` and a number."""
    return [
        (kind, f"{data}-{half}", place)
        for kind, data, places in LINES
        for place in places
        if with_data or data not in ("tfidf", "counts")
    ]


def generate(name: str, folder: Path | None) -> tuple[Any, Any]:
    """(X, y) of one data set."""
    data, half = name.split("-")
    if half == "tuned":
        rng, drawn = np.random.default_rng(100), TUNED[data]
    else:
        family = {"events": "onehot", "counts": "tfidf"}.get(data, data)
        rng = np.random.default_rng([int(half.removeprefix("held")), sorted(DRAWN).index(family)])
        drawn = DRAWN[family](rng)
    if data not in ("tfidf", "counts"):
        return MAKERS[data](rng, *drawn)
    assert folder is not None
    X, y = table(drawn[0], folder, drawn[1])
    return (tfidf(X) if data == "tfidf" else X), y


def _between(rng: np.random.Generator, low: float, high: float) -> int:
    """A whole number, its logarithm uniform."""
    return int(np.exp(rng.uniform(np.log(low), np.log(high))))


TUNED: dict[str, Any] = {
    "tall": (100_000, 200, 0.5),
    "square": (20_000, 2_000, 0.6),
    "small": ("diabetes", None),
    "smalllabels": ("breast_cancer", 1),
    "tfidf": ("news20_counts", None),
    "counts": ("news20_counts", None),
    "onehot": (50_000, [2, 5, 5, 10, 30, 60, 200, 500, 900]),
    "events": (50_000, [2, 5, 5, 10, 30, 60, 200, 500, 900]),
    "large": (200_000, 50_000, 2e-4),
    "near": (500, 5_000, 0.99),
    "genes": (100, 7_000, 12),
}
# What the held-out half is drawn from.
DRAWN: dict[str, Callable[[np.random.Generator], Any]] = {
    "tall": lambda rng: (
        _between(rng, 50_000, 150_000), _between(rng, 80, 300), rng.uniform(0.0, 0.8)
    ),
    "square": lambda rng: (
        _between(rng, 8_000, 20_000), _between(rng, 1_500, 3_000), rng.uniform(0.2, 0.8)
    ),
    # One column of a table from the others.
    "small": lambda rng: (str(rng.choice(["digits", "breast_cancer", "wine"])), rng.integers(13)),
    "smalllabels": lambda rng: (str(rng.choice(["digits", "wine"])), rng.integers(3)),
    # Two of twenty newsgroups.
    "tfidf": lambda rng: ("news20_counts", rng.choice(20, 2, replace=False)),
    "onehot": lambda rng: (
        _between(rng, 25_000, 70_000),
        sorted(_between(rng, 2, 1_500) for _ in range(rng.integers(5, 11))),
    ),
    "large": lambda rng: (
        _between(rng, 80_000, 250_000), _between(rng, 20_000, 60_000), rng.uniform(1e-4, 4e-4)
    ),
    "near": lambda rng: (
        _between(rng, 300, 800), _between(rng, 3_000, 7_000), rng.uniform(0.98, 0.997)
    ),
    "genes": lambda rng: (
        _between(rng, 60, 300), _between(rng, 4_000, 12_000), int(rng.integers(5, 21))
    ),
}  # fmt: skip
Made = tuple[Any, Any]


def _correlated(
    rng: np.random.Generator, n: int, p: int, rho: float, support: int, snr: float
) -> Made:
    """`support` columns matter, or one in −`support`."""
    X = correlated(n, p, rho, rng)
    return X, signal(X, support if support > 0 else p // -support, snr, rng)


def _genes(rng: np.random.Generator, n: int, p: int, hidden: int) -> Made:
    X = rng.standard_normal((n, hidden)) @ rng.standard_normal((hidden, p))
    X += rng.standard_normal((n, p))
    X = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0))
    return X, signal(X, 15, 2.0, rng)


def _large(rng: np.random.Generator, n: int, p: int, density: float) -> Made:
    X = sp.random(n, p, density, "csc", random_state=rng, data_rvs=rng.standard_normal)
    return X[:, np.diff(X.indptr) > 0], signal(X, 400, 3.0, rng)


def _small(rng: np.random.Generator, name: str, column: int | None) -> Made:
    """A table of scikit-learn, standardised; y is its target or one of its columns."""
    found = _shipped(name)
    X, y = found.data, found.target
    if column is not None:
        moving = np.flatnonzero(X.std(axis=0) > 0)
        j = moving[column % len(moving)]
        X, y = np.delete(X, j, axis=1), X[:, j]
    return _standardised(X), (y / y.std()).astype(float)


def _small_labels(rng: np.random.Generator, name: str, positive: int) -> Made:
    """A table of scikit-learn, standardised; one class against the others."""
    found = _shipped(name)
    return _standardised(found.data), np.where(found.target == positive, 1.0, -1.0)


def _shipped(name: str) -> Any:
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")()


def _standardised(X: Any) -> Any:
    spread = X.std(axis=0)
    return np.asfortranarray(
        ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1))[:, spread > 0]
    )


def tfidf(X: Any) -> Any:
    """Counts times the logarithm of inverse frequency, rows of norm one."""
    n = X.shape[0]
    weights = np.log(n / np.maximum(np.diff(X.tocsc().indptr), 1)) + 1.0
    X = (X @ sp.diags(weights)).tocsr()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    return (sp.diags(1.0 / np.maximum(norms, 1e-300)) @ X).tocsc()


def _categories(rng: np.random.Generator, n: int, levels: list[int]) -> Made:
    """Categorical variables with few frequent and many rare levels, and z = Xx of unit spread."""
    blocks = []
    for size in levels:
        weights = 1.0 / np.arange(1, size + 1)
        chosen = rng.choice(size, n, p=weights / weights.sum())
        blocks.append(sp.csr_matrix((np.ones(n), chosen, np.arange(n + 1)), shape=(n, size)))
    X = sp.hstack(blocks).tocsc()
    X = X[:, np.diff(X.indptr) > 0]
    x = np.where(rng.random(X.shape[1]) < 0.1, rng.standard_normal(X.shape[1]), 0.0)
    z = np.asarray(X @ x)
    return X, (z - z.mean()) / z.std()


def _onehot(rng: np.random.Generator, n: int, levels: list[int]) -> Made:
    X, z = _categories(rng, n, levels)
    return X, np.where(z + 0.7 * rng.standard_normal(len(z)) > 0, 1.0, -1.0)


def _events(rng: np.random.Generator, n: int, levels: list[int]) -> Made:
    X, z = _categories(rng, n, levels)
    return X, rng.poisson(np.exp(0.5 * z)).astype(float)


MAKERS: dict[str, Callable[..., Made]] = {
    "tall": partial(_correlated, support=-8, snr=1.0),
    "square": partial(_correlated, support=-20, snr=2.0),
    "near": partial(_correlated, support=50, snr=3.0),
    "genes": _genes, "large": _large, "small": _small, "smalllabels": _small_labels,
    "onehot": _onehot, "events": _events,
}  # fmt: skip
