"""Rows in samples, with losses whose second derivative has no bound: they must not run away."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import StochasticLinear


def table(loss, size, scale, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((size, 8))
    mean = scale * np.exp(0.5 * X[:, 0] + 1.6)
    return X, rng.poisson(mean) if loss == "poisson" else mean * rng.gamma(2.0, 0.5, size)


@pytest.mark.parametrize(("loss", "alpha"), [("poisson", 0.05), ("gamma", 0.05)])
@pytest.mark.parametrize(("size", "scale"), [(80, 1), (2_000, 1), (2_000, 500)])
def test_counts_and_amounts_converge(loss, alpha, size, scale):
    alpha *= scale if loss == "poisson" else 1.0
    for seed in range(3):
        X, y = table(loss, size, scale, seed)
        model = StochasticLinear(loss, "l1", alpha=alpha).fit(X, y)  # a warning is an error
        mean = np.exp(X @ model.coef_ + model.intercept_)
        slope = mean - y if loss == "poisson" else 1.0 - y / mean
        gradient = X.T @ slope / size
        zero = model.coef_ == 0
        assert np.abs(gradient[zero]).max(initial=0.0) < 1.15 * alpha
        assert abs(gradient[~zero] + alpha * np.sign(model.coef_[~zero])).max() < 0.3 * alpha


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("scale", [1, 500])
def test_streams_of_counts_and_amounts_converge(loss, scale):
    alpha = 0.01 * (scale if loss == "poisson" else 1)
    model = StochasticLinear(loss, "l1", alpha=alpha)
    for seed in range(30):
        model.partial_fit(*table(loss, 500, scale, seed))
    np.testing.assert_allclose(model.coef_, [0.5, *np.zeros(7)], atol=0.1)
    assert abs(model.intercept_ - 1.6 - np.log(scale)) < 0.1
