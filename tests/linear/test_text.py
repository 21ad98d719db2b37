"""Text-like tables: many rare columns, where most of a path is fitted closely."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold

from cyclade.linear import path


def text_like(n, p, length, seed, noise):
    """Words of Zipf's law in two topics, as sublinear tf-idf, and labels with mistakes."""
    rng = np.random.default_rng(seed)
    words = 1 / np.arange(1, p + 1) ** 1.05
    words /= words.sum()
    topic = rng.integers(0, 2, n)
    other = words * np.exp(0.8 * rng.standard_normal(p))
    other /= other.sum()
    rows, cols = [], []
    for i in range(n):
        k = max(3, rng.poisson(length))
        cols.append(rng.choice(p, k, p=other if topic[i] else words))
        rows.append(np.full(k, i))
    rows, cols = np.concatenate(rows), np.concatenate(cols)
    counts = sp.csr_matrix((np.ones(rows.size), (rows, cols)), shape=(n, p))
    counts = counts[:, np.asarray(counts.sum(0)).ravel() > 0]
    y = np.where(topic ^ (rng.random(n) < noise), 1.0, -1.0)
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts).tocsc(), y


def test_the_default_path_of_a_fold_of_text_is_certified():
    """It gave up at six λ, where the working set was done before the certificate was."""
    X, y = text_like(1000, 8000, 22, 0, 0.05)
    train, _ = next(StratifiedKFold(5).split(X, y))
    assert path(X[train], y[train], "logistic").reached
