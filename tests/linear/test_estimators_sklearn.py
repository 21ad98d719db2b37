"""The same problems solved by scikit-learn: objectives agree to 1e-8."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from estimator_cases import TIGHT, data, objective
from sklearn import linear_model as sk

from cyclade import linear
from cyclade.linear.losses import Huber
from cyclade.linear.penalties import L1, ElasticNet

EXACT = {"tol": 1e-13, "max_iter": 1_000_000}


def at(ours, theirs):
    """Our estimator, moved to their solution, so that one function measures both."""
    moved = copy.copy(ours)
    moved.coef_ = np.reshape(theirs.coef_, ours.coef_.shape)
    moved.intercept_ = np.reshape(theirs.intercept_, np.shape(ours.intercept_))
    return moved


def agree(ours, theirs, X, y, sample_weight=None):
    mine = objective(ours, X, y, sample_weight)
    other = objective(at(ours, theirs), X, y, sample_weight)
    assert mine <= other + 1e-12 * (1 + abs(other))  # never worse
    assert mine == pytest.approx(other, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("options", [{}, {"positive": True}, {"fit_intercept": False}])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.3, 0.01])
def test_lasso_and_elastic_net(options, weighted, alpha):
    X, y = data("real")
    weights = np.random.default_rng(0).random(len(y)) if weighted else None
    ours = linear.Lasso(alpha, **options, **TIGHT).fit(X, y, weights)
    agree(ours, sk.Lasso(alpha, **options, **EXACT).fit(X, y, weights), X, y, weights)
    ours = linear.ElasticNet(alpha, l1_ratio=0.3, **options, **TIGHT).fit(X, y, weights)
    theirs = sk.ElasticNet(alpha, l1_ratio=0.3, **options, **EXACT).fit(X, y, weights)
    agree(ours, theirs, X, y, weights)


def test_lasso_of_several_outputs():
    X, y = data("table")
    ours = linear.Lasso(0.05, **TIGHT).fit(X, y)
    agree(ours, sk.Lasso(0.05, **EXACT).fit(X, y), X, y)
    np.testing.assert_allclose(ours.predict(X).shape, y.shape)


def test_ridge():
    X, y = data("real")
    ours = linear.ElasticNet(0.2, l1_ratio=0.0, **TIGHT).fit(X, y)
    agree(ours, sk.Ridge(0.2 * len(y)).fit(X, y), X, y)


def test_paths():
    X, y = data("real")
    alphas, coefs, _ = sk.lasso_path(X - X.mean(axis=0), y - y.mean(), alphas=20, tol=1e-12)
    path = linear.Lasso(**TIGHT).path(X, y, n_alphas=20)
    np.testing.assert_allclose(path.alphas, alphas, rtol=1e-10)
    np.testing.assert_allclose(path.coefs, coefs, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.3, 0.02])
def test_multi_task_lasso(alpha):
    X, y = data("table")
    ours = linear.MultiTaskLasso(alpha, **TIGHT).fit(X, y)
    agree(ours, sk.MultiTaskLasso(alpha, **EXACT).fit(X, y), X, y)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_logistic_regression(l1_ratio):
    X, y = data("two")
    alpha = 0.05
    ours = linear.SparseLogisticRegression(alpha, l1_ratio=l1_ratio, **TIGHT).fit(X, y)
    theirs = sk.LogisticRegression(
        C=1.0 / (len(y) * alpha), l1_ratio=l1_ratio, solver="saga", tol=1e-10, max_iter=100_000
    ).fit(X, y)
    agree(ours, theirs, X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("offset_as_exposure", [False, True])
def test_counts_and_amounts(offset_as_exposure):
    for kind, mine, other in [
        ("counts", linear.PoissonRegressor, sk.PoissonRegressor),
        ("amounts", linear.GammaRegressor, sk.GammaRegressor),
    ]:
        X, y = data(kind)
        if offset_as_exposure and kind == "counts":
            # an exposure e is an offset log e on y, or a weight e on the rate y/e
            exposure = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
            ours = mine(0.1, l1_ratio=0.0, **TIGHT).fit(X, y, offset=np.log(exposure))
            rates = mine(0.1 * len(y) / exposure.sum(), l1_ratio=0.0, **TIGHT)
            rates.fit(X, y / exposure, exposure)
            np.testing.assert_allclose(ours.coef_, rates.coef_, atol=1e-6)
            continue
        ours = mine(0.1, l1_ratio=0.0, **TIGHT).fit(X, y)
        theirs = other(alpha=0.1, solver="newton-cholesky", tol=1e-10).fit(X, y)
        agree(ours, theirs, X, y)
        assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-6)


def test_huber_at_the_scale_that_scikit_learn_estimates():
    X, y = data("real")
    y[:4] += 20.0
    theirs = sk.HuberRegressor(epsilon=1.5, alpha=0.5, tol=1e-9, max_iter=10_000).fit(X, y)
    scale = theirs.scale_
    # for a fixed scale σ theirs is 2/σ times ours with δ = εσ and a ridge penalty ασ/n
    ours = linear.GeneralizedLinear(
        Huber(1.5 * scale), ElasticNet(1.0, l1_ratio=0.0), alpha=0.5 * scale / len(y), **TIGHT
    ).fit(X, y)
    agree(ours, theirs, X, y)
    robust = linear.RobustRegression(0.05, loss="huber", scale=2.0, **TIGHT).fit(X, y)
    pair = linear.GeneralizedLinear(Huber(2.0), L1(0.05), **TIGHT).fit(X, y)
    np.testing.assert_array_equal(robust.coef_, pair.coef_)


@pytest.mark.parametrize("quantile", [0.5, 0.8])
def test_quantiles_as_the_smoothing_vanishes(quantile):
    X, y = data("real")
    theirs = sk.QuantileRegressor(quantile=quantile, alpha=0.05).fit(X, y)

    def check_loss(model):
        v = y - model.predict(X)
        mean = np.maximum(quantile * v, (quantile - 1) * v).mean()
        return mean + 0.05 * abs(model.coef_).sum()

    for smoothing in (0.1, 0.01, 0.001):
        ours = linear.QuantileRegression(
            0.05, quantile=quantile, smoothing=smoothing, tol=1e-7
        ).fit(X, y)
        excess = check_loss(ours) - check_loss(theirs)
        assert -1e-9 <= excess <= smoothing / 4 + 1e-7
