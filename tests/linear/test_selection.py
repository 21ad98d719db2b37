"""Choosing without folds: criteria, stability selection, knockoffs; against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from cyclade import linear
from cyclade.linear import (
    fixed_knockoffs,
    gaussian_knockoffs,
    knockoff_filter,
    select,
    stability_selection,
)
from cyclade.linear.statistics.knockoffs import knockoff_threshold, least_alike
from cyclade.linear.statistics.stability import error_bound, split


def draw(n=150, p=40, seed=0, k=4, size=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, size * X[:, :k].sum(axis=1) + rng.standard_normal(n)


def cases():
    _, z = draw(n=300)
    rng = np.random.default_rng(1)
    time = rng.exponential(np.exp(-z))
    return {
        "lasso": (linear.Lasso(), z),
        "relaxed": (linear.Lasso(relaxed=True), z),
        "mcp": (linear.MCPRegression(), z),
        "groups": (linear.GroupLasso(groups=2), z),
        "logistic": (linear.SparseLogisticRegression(), z > 0),
        "multinomial": (linear.SparseLogisticRegression(), np.digitize(z, [-1, 1])),
        "poisson": (linear.PoissonRegressor(), rng.poisson(np.exp(0.5 * z)).astype(float)),
        "gamma": (linear.GammaRegressor(), rng.gamma(2.0, np.exp(0.5 * z))),
        "tweedie": (linear.GeneralizedLinear("tweedie"), rng.poisson(np.exp(0.5 * z)) * 1.5),
        "cox": (linear.CoxRegression(), linear.survival(time, rng.random(300) < 0.7)),
        "standardized": (linear.Lasso(standardize=True), z),
    }


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("criterion", ["bic", "ebic"])
def test_every_model_is_chosen_by_its_criterion(name, criterion):
    model, y = cases()[name]
    X, _ = draw(n=300)
    found = select(model, X, y, criterion=criterion, alphas=20)
    assert type(found) is type(model)
    assert found.alpha_ == found.alphas_[np.argmin(found.criterion_path_)]
    on = np.atleast_2d(found.coef_).any(axis=0)
    assert set(range(4)) <= set(np.flatnonzero(on))
    assert on.sum() <= 16
    assert model.alpha == clone(model).alpha  # left alone


def test_the_criterion_of_least_squares_by_definition():
    X, y = draw()
    found = select(linear.Lasso(), X, y, criterion="bic", alphas=15)
    for alpha, value in zip(found.alphas_, found.criterion_path_, strict=True):
        fit = linear.Lasso(alpha).fit(X, y)
        rest = np.sum((y - fit.predict(X)) ** 2)
        expected = 150 * np.log(rest / 150) + np.log(150) * np.count_nonzero(fit.coef_)
        assert value == pytest.approx(expected, abs=0.5)


def test_weights_are_repetitions_for_criteria():
    X, y = draw()
    times = 1 + np.arange(150) % 2
    once = select(linear.Lasso(), X, y, times, alphas=10)
    again = select(linear.Lasso(), np.repeat(X, times, axis=0), np.repeat(y, times), alphas=10)
    np.testing.assert_allclose(once.criterion_path_, again.criterion_path_, atol=1e-2)


def test_what_cannot_be_chosen_is_named():
    X, y = draw()
    with pytest.raises(ValueError, match="has no alpha to choose"):
        select(linear.LassoCV(), X, y)
    with pytest.raises(ValueError, match="is not the loss of a distribution"):
        select(linear.RobustRegression(), X, y)
    with pytest.raises(ValueError, match="criterion"):
        select(linear.Lasso(), X, y, criterion="cp")


# Stability selection.


def test_halves_are_complementary():
    rng = np.random.default_rng(0)
    for n in (10, 11):
        for labels in (None, np.arange(n) % 3):
            first, second = split(n, labels, rng)
            assert not set(first) & set(second)
            assert len(first) == n // 2


def test_bounds_of_the_papers():
    assert error_bound(10, 1000, 0.9, 50, "none") == pytest.approx(100 / (0.8 * 1000))
    # Theorem 2 of Shah and Samworth, on both sides of 3/4
    assert error_bound(10, 1000, 0.7, 50) == pytest.approx(0.1 / (2 * (0.4 - 0.01)))
    assert error_bound(10, 1000, 0.9, 50) == pytest.approx(0.1 * 4 * (0.1 + 0.01) / 1.02)
    assert error_bound(700, 1000, 0.9, 50) == np.inf
    values = [error_bound(q, 500, 0.8, 50) for q in range(1, 100)]
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("kind", ["real", "labels"])
def test_stable_features_are_found_within_the_bound(kind):
    X, y = draw(seed=3)
    model = linear.Lasso()
    if kind == "labels":
        model, y = linear.SparseLogisticRegression(), y > 0
    one = stability_selection(model, X, y, pairs=15, false_choices=1.0, n_jobs=2)
    assert set(one.selected) == set(range(4))
    assert one.bound <= 1.0 < error_bound(one.q + 1, 40, 0.75, 15)
    again = stability_selection(model, X, y, pairs=15, q=one.q)
    np.testing.assert_array_equal(one.probabilities, again.probabilities)


def test_false_choices_stay_within_the_bound():
    wrong = []
    for seed in range(12):
        X, y = draw(seed=seed, p=60, k=3, size=0.5)
        found = stability_selection(
            linear.Lasso(), X, y, pairs=10, false_choices=1.0, n_alphas=25, seed=seed
        )
        wrong.append(sum(j >= 3 for j in found.selected))
    assert np.mean(wrong) <= 1.0


def test_arguments_of_stability_selection():
    X, y = draw()
    for options in ({"threshold": 0.5}, {"q": 0}, {"false_choices": 1e-9}, {"assumption": "some"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            stability_selection(linear.Lasso(), X, y, **options)
    with pytest.raises(ValueError, match="BestSubset has a path of sizes, not of alphas"):
        stability_selection(linear.BestSubset(), X, y)


# Knockoffs.


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), p=st.integers(2, 12), rho=st.floats(0.0, 0.9))
def test_entropy_is_largest(seed, p, rho):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((4 * p, p)) + rho * rng.standard_normal((4 * p, 1))
    sigma = np.corrcoef(A.T).reshape(p, p)
    s = least_alike(sigma)

    def entropy(s):
        return np.linalg.slogdet(2 * sigma - np.diag(s))[1] + np.log(s).sum()

    assert np.linalg.eigvalsh(2 * sigma - np.diag(s))[0] > 0
    np.testing.assert_allclose(1 / s, np.diag(np.linalg.inv(2 * sigma - np.diag(s))), rtol=1e-2)
    assert entropy(s) >= entropy(np.full(p, np.linalg.eigvalsh(sigma)[0])) - 1e-9


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), p=st.integers(2, 10))
def test_fixed_knockoffs_have_the_products(seed, p):
    X = np.random.default_rng(seed).standard_normal((3 * p, p)) + 5.0
    A, copies = fixed_knockoffs(X, seed=seed)
    np.testing.assert_allclose(copies.T @ copies, A.T @ A, atol=1e-8)
    apart = A.T @ A - A.T @ copies
    np.testing.assert_allclose(apart, np.diag(np.diag(apart)), atol=1e-8)
    assert (np.diag(apart) > 0).all()
    np.testing.assert_allclose(copies.sum(axis=0), 0.0, atol=1e-8)


def test_gaussian_knockoffs_have_the_moments():
    rng = np.random.default_rng(0)
    sigma = 0.5 ** abs(np.subtract.outer(np.arange(5), np.arange(5)))
    X = rng.multivariate_normal(np.ones(5), sigma, 100_000)
    copies = gaussian_knockoffs(X, mean=np.ones(5), covariance=sigma)
    joint = np.cov(np.c_[X, copies].T)
    np.testing.assert_allclose(joint[5:, 5:], sigma, atol=0.02)
    apart = joint[:5, 5:] - sigma
    np.testing.assert_allclose(apart - np.diag(np.diag(apart)), 0.0, atol=0.02)
    np.testing.assert_allclose(copies.mean(axis=0), 1.0, atol=0.02)


def test_the_threshold_by_definition():
    rng = np.random.default_rng(0)
    for plus in (False, True):
        for _ in range(20):
            W = rng.standard_normal(30) + 0.8
            t = knockoff_threshold(W, 0.3, plus)
            passed = [u for u in abs(W) if (plus + (-u >= W).sum()) / max((u <= W).sum(), 1) <= 0.3]
            assert t == min(passed, default=np.inf)


@pytest.mark.parametrize("kind", ["gaussian", "fixed"])
def test_the_rate_of_false_discoveries_holds(kind):
    rates, powers = [], []
    for seed in range(8):
        X, y = draw(n=200, p=50, seed=seed, k=15, size=0.8)
        model = linear.LassoCV(n_alphas=30) if kind == "gaussian" else linear.Lasso()
        found = knockoff_filter(model, X, y, rate=0.2, kind=kind, seed=seed).selected
        rates.append(np.sum(found >= 15) / max(len(found), 1))
        powers.append(np.sum(found < 15) / 15)
    assert np.mean(rates) <= 0.25
    assert np.mean(powers) >= 0.8


def test_labels_and_other_models_have_knockoffs():
    X, y = draw(n=400, k=12, size=2.0)
    model = linear.SparseLogisticRegressionCV(n_alphas=20)
    found = knockoff_filter(model, X, y > 0, rate=0.2)
    assert len(set(found.selected) & set(range(12))) >= 9


def test_knockoffs_that_cannot_be_made_are_refused():
    X, y = draw(n=60)
    with pytest.raises(ValueError, match="need more than 80 rows, got 60"):
        knockoff_filter(linear.Lasso(), X, y, kind="fixed")
    for kind in ("gaussian", "fixed"):
        with pytest.raises(ValueError, match="X: column 40 is constant"):
            knockoff_filter(linear.Lasso(), np.c_[X, np.ones(60)], y, kind=kind)
    with pytest.raises(ValueError, match="covariance is singular"):
        gaussian_knockoffs(X, covariance=np.ones((40, 40)))
    with pytest.raises(ValueError, match="covariance must have shape"):
        gaussian_knockoffs(X, covariance=np.eye(3))
