"""Rows in samples, with losses whose second derivative has no bound: they must not run away."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import StochasticLinear
from cyclade.linear.stochastic.fit import solve_rows
from cyclade.linear.stochastic.stream import RowStream


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
        rest = model.coef_ == 0
        assert np.abs(gradient[rest]).max(initial=0.0) < 1.15 * alpha
        assert abs(gradient[~rest] + alpha * np.sign(model.coef_[~rest])).max() < 0.3 * alpha


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("scale", [1, 500])
def test_streams_of_counts_and_amounts_converge(loss, scale):
    alpha = 0.01 * (scale if loss == "poisson" else 1)
    model = StochasticLinear(loss, "l1", alpha=alpha)
    for seed in range(30):
        model.partial_fit(*table(loss, 500, scale, seed))
    np.testing.assert_allclose(model.coef_, [0.5, *np.zeros(7)], atol=0.1)
    assert abs(model.intercept_ - 1.6 - np.log(scale)) < 0.1


def test_a_stopped_run_goes_on_exactly():
    X, y = table("poisson", 300, 1, 0)
    whole = solve_rows(X, y, "poisson", lam=0.05, epochs=6, tol=0.0)
    half = solve_rows(X, y, "poisson", lam=0.05, epochs=3, tol=0.0)
    rest = solve_rows(X, y, "poisson", lam=0.05, epochs=6, tol=0.0, resume=half.state)
    np.testing.assert_array_equal(rest.state.state.x.view(), whole.state.state.x.view())


def test_how_a_stream_of_counts_is_cut_changes_nothing():
    X, y = table("poisson", 900, 1, 0)
    one, many = (RowStream("poisson", lam=0.05, b=100) for _ in range(2))
    one.partial_fit(X, y)
    for part in np.array_split(np.arange(900), 7):
        many.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(one.coef, many.coef)
