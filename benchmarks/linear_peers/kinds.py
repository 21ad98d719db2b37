"""Kinds of data, each in two halves: one to tune on, one to be run once at the end.

Both halves come from seeded generators or from tables that ship with scikit-learn; the halves
differ in seed, shape and real set. Names end in the half: ``tall-tuned``, ``tall-held``. Text needs
``--data-dir`` (its counts become tf-idf). Results of a held half say where to work next, so it is
drawn anew before it is run again.
"""

from __future__ import annotations

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
TEXT = {"tuned": "news20_counts", "held": "relathe"}


def lines(half: str, with_data: bool) -> list[tuple[str, str, str]]:
    """(kind, data set, place) of every line of that half."""
    return [
        (kind, f"{data}-{half}", place)
        for kind, data, places in LINES
        for place in places
        if with_data or data not in ("tfidf", "counts")
    ]


def generate(name: str, folder: Path | None) -> tuple[Any, Any]:
    """(X, y) of one data set."""
    data, half = name.split("-")
    held = half == "held"
    rng = np.random.default_rng(2_000 if held else 100)
    if data == "tall":
        n, p = (80_000, 150) if held else (100_000, 200)
        X = correlated(n, p, 0.3 if held else 0.5, rng)
        return X, signal(X, p // 8, 1.0, rng)
    if data == "square":
        n, p = (15_000, 2_500) if held else (20_000, 2_000)
        X = correlated(n, p, 0.45 if held else 0.6, rng)
        return X, signal(X, p // 20, 2.0, rng)
    if data in ("small", "smalllabels"):
        return _small(data == "smalllabels", held)
    if data in ("tfidf", "counts"):
        assert folder is not None
        X, y = table(TEXT[half], folder)
        return (tfidf(X) if data == "tfidf" else X), y
    if data in ("onehot", "events"):
        return _onehot(data == "events", held, rng)
    if data == "large":
        n, p = (150_000, 30_000) if held else (200_000, 50_000)
        X = sp.random(
            n, p, 3e-4 if held else 2e-4, format="csc", random_state=rng,
            data_rvs=lambda size: rng.standard_normal(size),
        )  # fmt: skip
        return X, signal(X, 400, 3.0, rng)
    if data == "near":
        n, p = (600, 4_000) if held else (500, 5_000)
        X = correlated(n, p, 0.995 if held else 0.99, rng)
        return X, signal(X, 50, 3.0, rng)
    if data == "genes":
        n, p = (200, 9_000) if held else (100, 7_000)
        factors = rng.standard_normal((n, 12))
        X = factors @ rng.standard_normal((12, p)) + rng.standard_normal((n, p))
        X = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0))
        return X, signal(X, 15, 2.0, rng)
    raise ValueError(f"there is no data set {name!r}")


def tfidf(X: Any) -> Any:
    """Counts times the logarithm of inverse frequency, rows of norm one."""
    n = X.shape[0]
    weights = np.log(n / np.maximum(np.diff(X.tocsc().indptr), 1)) + 1.0
    X = (X @ sp.diags(weights)).tocsr()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    return (sp.diags(1.0 / np.maximum(norms, 1e-300)) @ X).tocsc()


def _small(labels: bool, held: bool) -> tuple[Any, Any]:
    """Tables of scikit-learn, standardised."""
    from sklearn import datasets

    if labels:
        found = datasets.load_digits() if held else datasets.load_breast_cancer()
        y = np.where(found.target > (4 if held else 0), 1.0, -1.0)
    elif held:
        found = datasets.load_digits()  # one pixel from the others
        y = found.data[:, 36] / found.data[:, 36].std()
        found.data = np.delete(found.data, 36, axis=1)
    else:
        found = datasets.load_diabetes()
        y = found.target / found.target.std()
    spread = found.data.std(axis=0)
    X = ((found.data - found.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    return np.asfortranarray(X), y.astype(float)


def _onehot(counts: bool, held: bool, rng: np.random.Generator) -> tuple[Any, Any]:
    """Categorical variables with few frequent and many rare levels, one column per level."""
    n = 40_000 if held else 50_000
    levels = [2, 4, 12, 40, 100, 250, 600, 1200] if held else [2, 5, 5, 10, 30, 60, 200, 500, 900]
    blocks = []
    for size in levels:
        weights = 1.0 / np.arange(1, size + 1)
        chosen = rng.choice(size, n, p=weights / weights.sum())
        blocks.append(sp.csr_matrix((np.ones(n), chosen, np.arange(n + 1)), shape=(n, size)))
    X = sp.hstack(blocks).tocsc()
    X = X[:, np.diff(X.indptr) > 0]
    x = np.where(rng.random(X.shape[1]) < 0.1, rng.standard_normal(X.shape[1]), 0.0)
    z = np.asarray(X @ x)
    z = (z - z.mean()) / z.std()
    if counts:
        return X, rng.poisson(np.exp(0.5 * z)).astype(float)
    return X, np.where(z + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
