"""The same problems solved by scikit-learn and SciPy: objectives agree to 1e-8."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from agreement import agree, problem
from estimator_cases import TIGHT, data, objective
from scipy.optimize import lsq_linear
from sklearn import linear_model as sk
from sklearn.base import clone
from sklearn.svm import LinearSVC

from cyclade import linear
from cyclade.linear.losses import Huber, Squared
from cyclade.linear.penalties import L1, Box, ElasticNet

EXACT = {"tol": 1e-13, "max_iter": 1_000_000}
NEWTON = {"alpha": 0.1, "solver": "newton-cholesky", "tol": 1e-10}
SAGA = {"C": 1 / (40 * 0.05), "solver": "saga", "tol": 1e-10, "max_iter": 100_000}
# Our estimator, theirs, and the targets. liblinear would penalise an intercept, so it has none.
PAIRS = {
    "lasso of several outputs": (linear.Lasso(0.05), sk.Lasso(0.05, **EXACT), "table"),
    "ridge": (linear.ElasticNet(0.2, l1_ratio=0.0), sk.Ridge(0.2 * 40), "real"),
    "tasks": (linear.MultiTaskLasso(0.3), sk.MultiTaskLasso(0.3, **EXACT), "table"),
    "weak tasks": (linear.MultiTaskLasso(0.02), sk.MultiTaskLasso(0.02, **EXACT), "table"),
    "poisson": (
        linear.PoissonRegressor(0.1, l1_ratio=0.0), sk.PoissonRegressor(**NEWTON), "counts",
    ),
    "gamma": (linear.GammaRegressor(0.1, l1_ratio=0.0), sk.GammaRegressor(**NEWTON), "amounts"),
    "support vectors": (
        linear.SparseSVC(0.03, fit_intercept=False),
        LinearSVC(penalty="l1", dual=False, C=1 / (0.03 * 40), fit_intercept=False, tol=1e-9,
                  max_iter=1_000_000, random_state=0), "two",
    ),
    "bounded": (
        linear.GeneralizedLinear("squared", Box(0.0)), sk.LinearRegression(positive=True), "real",
    ),
}  # fmt: skip
for ratio in (1.0, 0.5):
    ours = linear.SparseLogisticRegression(0.05, l1_ratio=ratio)
    PAIRS[f"logistic {ratio}"] = ours, sk.LogisticRegression(l1_ratio=ratio, **SAGA), "two"
for ratio in (0.5, 0.0):
    ours = linear.SparseLogisticRegression(0.05, l1_ratio=ratio)
    theirs = sk.LogisticRegression(l1_ratio=ratio, **SAGA)
    PAIRS[f"three classes {ratio}"] = ours, theirs, "three"
for options in ({}, {"positive": True}, {"fit_intercept": False}):
    for alpha in (0.3, 0.01):
        exact, ratio = options | EXACT, {"l1_ratio": 0.3} | options
        PAIRS[f"lasso {alpha} {options}"] = (
            linear.Lasso(alpha, **options),
            sk.Lasso(alpha, **exact),
            "real",
        )
        PAIRS[f"elastic net {alpha} {options}"] = (
            linear.ElasticNet(alpha, **ratio), sk.ElasticNet(alpha, **ratio, **EXACT), "real",
        )  # fmt: skip
WEIGHTED = [name for name in PAIRS if "{" in name]


def compare(ours, theirs, X, y, sample_weight=None):
    """Our F is no worse than theirs, and the same."""
    moved = copy.copy(ours)  # to their solution, so that one function measures both
    moved.coef_ = np.reshape(theirs.coef_, ours.coef_.shape)
    moved.intercept_ = np.reshape(theirs.intercept_, np.shape(ours.intercept_))
    mine, other = (objective(model, X, y, sample_weight) for model in (ours, moved))
    assert mine <= other + 1e-12 * (1 + abs(other))
    assert mine == pytest.approx(other, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "weighted"),
    [(name, False) for name in PAIRS] + [(name, True) for name in WEIGHTED],
)
def test_objectives_agree(name, weighted):
    ours, theirs, kind = PAIRS[name]
    X, y = data(kind)
    weights = {"sample_weight": np.random.default_rng(0).random(len(y))} if weighted else {}
    ours = clone(ours).set_params(**TIGHT).fit(X, y, **weights)
    theirs = clone(theirs).fit(X, y, **weights)
    if kind != "three":
        compare(ours, theirs, X, y, **weights)
    if hasattr(theirs, "predict_proba"):
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    else:
        assert ours.predict(X).shape == y.shape
        assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("shape", [(40, 8), (30, 120)])
def test_the_lasso_in_every_form(form, shape):
    X, y = problem("real", n=shape[0], p=shape[1])
    model = sk.Lasso(0.03, tol=1e-11, max_iter=1_000_000).fit(form(X), y)
    agree(form(X), y, Squared(), L1(0.03), model.coef_, model.intercept_)
    with pytest.raises(AssertionError):  # another problem is told apart
        agree(form(X), y, Squared(), L1(0.0301), model.coef_, model.intercept_)


def test_bounded_least_squares():
    X, y = problem("real")
    bounded = lsq_linear(X, y, (-0.4, 0.3), method="bvls", tol=1e-14)
    agree(X, y, Squared(), Box(-0.4, 0.3), bounded.x, atol=1e-6)


def test_paths():
    X, y = data("real")
    alphas, coefs, _ = sk.lasso_path(X - X.mean(axis=0), y - y.mean(), alphas=20, tol=1e-12)
    path = linear.Lasso(**TIGHT).path(X, y, n_alphas=20)
    np.testing.assert_allclose(path.alphas, alphas, rtol=1e-10)
    np.testing.assert_allclose(path.coefs, coefs, atol=1e-5)


def test_an_exposure_is_an_offset_of_counts_or_a_weight_of_rates():
    X, y = data("counts")
    exposure = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    ours = linear.PoissonRegressor(0.1, l1_ratio=0.0, **TIGHT).fit(X, y, offset=np.log(exposure))
    rates = linear.PoissonRegressor(0.1 * len(y) / exposure.sum(), l1_ratio=0.0, **TIGHT)
    np.testing.assert_allclose(ours.coef_, rates.fit(X, y / exposure, exposure).coef_, atol=1e-6)


def test_huber_at_the_scale_that_scikit_learn_estimates():
    X, y = data("real")
    y[:4] += 20.0
    theirs = sk.HuberRegressor(epsilon=1.5, alpha=0.5, tol=1e-9, max_iter=10_000).fit(X, y)
    scale = theirs.scale_
    # for a fixed scale σ theirs is 2/σ times ours with δ = εσ and a ridge penalty ασ/n
    ours = linear.GeneralizedLinear(
        Huber(1.5 * scale), ElasticNet(1.0, l1_ratio=0.0), alpha=0.5 * scale / len(y), **TIGHT
    ).fit(X, y)
    compare(ours, theirs, X, y)
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
