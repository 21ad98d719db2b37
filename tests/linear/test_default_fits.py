"""Default fits of badly made tables: certified, or one warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from cyclade.linear import ElasticNet, Lasso, MCPRegression, SparseLogisticRegression


def table(rng):
    """Columns of all scales, twice, constant, with large means, nearly the same, in float32."""
    n, p = int(rng.integers(10, 300)), int(rng.integers(3, 200))
    X = rng.standard_normal((n, p))
    if rng.random() < 0.3:
        X *= np.exp(rng.uniform(-9.0, 9.0, p))
    if rng.random() < 0.3:
        X[:, rng.integers(p, size=p // 3)] = X[:, rng.integers(p, size=p // 3)]
    if rng.random() < 0.3:
        X[:, rng.integers(p)] = rng.standard_normal() * 10 ** rng.uniform(-3, 5)
    if rng.random() < 0.3:
        X += rng.standard_normal(p) * 10 ** rng.uniform(0, 4)
    if rng.random() < 0.3:
        X += 5.0 * rng.random() * rng.standard_normal((n, 1))
    y = X[:, :3] @ rng.standard_normal(3)
    y = y / max(float(y.std()), 1e-12) + rng.random() * rng.standard_normal(n)
    dtype = np.float32 if rng.random() < 0.3 else np.float64
    return np.asarray(X, dtype, order="F" if rng.random() < 0.5 else "C"), y


@pytest.mark.parametrize("kind", [Lasso, ElasticNet, MCPRegression, SparseLogisticRegression])
@pytest.mark.parametrize("seed", range(3))
def test_default_fits_are_certified_or_warn_once(kind, seed):
    rng = np.random.default_rng(seed)
    certified = 0
    for _ in range(15):
        X, y = table(rng)
        fit_intercept, part = bool(rng.random() < 0.8), rng.choice([0.1, 0.01, 0.001])
        alpha = part * float(np.abs(X.T.astype(float) @ (y - y.mean() * fit_intercept)).max())
        target = y > np.median(y) if kind is SparseLogisticRegression else y
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = kind(alpha / len(y), fit_intercept=fit_intercept).fit(X, target)
        assert all(issubclass(one.category, ConvergenceWarning) for one in said)
        assert len(said) == (0 if model.certificate_.reached else 1)
        certified += model.certificate_.reached
    assert certified >= 12
