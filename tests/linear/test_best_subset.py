"""Best subsets against all subsets, least squares and rules of exchange by definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from estimator_cases import weighs_and_reads
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade.linear import BestSubset, BestSubsetCV, select
from cyclade.linear.estimators.subset import Support
from cyclade.linear.statistics.criteria import cost_of_features


def draw(n=60, p=12, seed=0, rho=0.7, k=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rho * rng.standard_normal((n, 1))
    X[:, 1:] += rho * X[:, :-1]
    return X, 2.0 + X[:, :k] @ np.resize([1.0, -1.0], k) + rng.standard_normal(n)


def rest(X, y, members):
    """½ mean squared residual of least squares on some columns."""
    D = np.c_[np.ones(len(y)), X[:, list(members)]]
    u = y - D @ np.linalg.lstsq(D, y, rcond=None)[0]
    return 0.5 * np.mean(u**2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), size=st.integers(1, 5), rho=st.floats(0.0, 0.9))
def test_no_exchange_lowers_F(seed, size, rho):
    X, y = draw(seed=seed, rho=rho)
    model = BestSubset(size).fit(X, y)
    on = np.flatnonzero(model.coef_)
    assert len(on) == size == model.size_
    assert model.objective_ == pytest.approx(rest(X, y, on), rel=1e-9)
    assert np.mean((y - model.predict(X)) ** 2) / 2 == pytest.approx(model.objective_, rel=1e-9)
    for out in on:
        for j in set(range(12)) - set(on):
            assert rest(X, y, (set(on) - {out}) | {j}) >= model.objective_ * (1 - 1e-6)


def test_most_are_the_best_of_all_subsets():
    missed = 0
    for seed in range(20):
        X, y = draw(seed=seed, p=9)
        fits = BestSubset(5).fit(X, y).objective_path_
        for k in range(6):
            least = min(rest(X, y, some) for some in combinations(range(9), k))
            assert fits[k] >= least * (1 - 1e-9)
            missed += fits[k] > least * (1 + 1e-9)
    assert missed <= 6  # of 120


def test_updates_are_least_squares_anew():
    X, y = draw()
    X, y = X - X.mean(axis=0), y - y.mean()
    G, q = X.T @ X, X.T @ y
    support = Support(lambda j: G[j], q, np.diag(G).copy(), float(y @ y), 5)
    for j in (3, 0, 7, 5):
        support.add(j)
    support.remove(1)
    support.add(9)
    A = support.members
    assert sorted(A) == [3, 5, 7, 9]
    M = np.linalg.inv(G[np.ix_(A, A)])
    np.testing.assert_allclose(support.M[:4, :4], M, rtol=1e-9)
    np.testing.assert_allclose(support.beta, M @ q[A], rtol=1e-9)
    np.testing.assert_allclose(support.B[:4], M @ G[A], atol=1e-9)
    np.testing.assert_allclose(support.c, q - G[:, A] @ (M @ q[A]), atol=1e-8)
    left = np.diag(G) - np.einsum("kj,kj->j", G[A], M @ G[A])
    np.testing.assert_allclose(support.left, left, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_weights_are_repetitions_and_sparse_is_dense(intercept):
    weighs_and_reads(BestSubset(3, fit_intercept=intercept), *draw(), atol=1e-10)


@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
def test_the_criterion_chooses_the_size(criterion):
    X, y = draw(n=200)
    model = BestSubset(max_size=8, criterion=criterion).fit(X, y)
    values = [
        200 * np.log(2 * rest(X, y, model.supports_[k])) + cost_of_features(criterion, k, 200, 12)
        for k in range(9)
    ]
    np.testing.assert_allclose(model.criterion_path_, values)
    assert model.size_ == np.argmin(values)
    if criterion != "aic":
        assert set(np.flatnonzero(model.coef_)) == {0, 1, 2, 3}


def test_paths_hold_every_size():
    X, y = draw()
    path = BestSubset(5).path(X, y)
    np.testing.assert_array_equal(np.count_nonzero(path.coefs, axis=0), path.alphas)
    np.testing.assert_allclose(path.coefs[:, 0], BestSubset(5).fit(X, y).coef_)


def test_the_twin_scores_every_size_on_the_folds():
    X, y = draw()
    folds = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    model = BestSubsetCV(max_size=6, cv=folds).fit(X, y)
    np.testing.assert_array_equal(model.alphas_, np.arange(7))
    for k, (train, test) in enumerate(folds):
        path = BestSubset(max_size=6).path(X[train], y[train])
        errors = (y[test, None] - X[test] @ path.coefs - path.intercepts) ** 2
        np.testing.assert_allclose(model.mse_path_[:, k], errors.mean(axis=0)[::-1])
    assert model.size_ == np.argmax(model.mean_score_) == len(np.flatnonzero(model.coef_))
    assert model.objective_ == pytest.approx(rest(X, y, np.flatnonzero(model.coef_)), rel=1e-9)
    assert BestSubsetCV(max_size=6, cv=folds, rule="1se").fit(X, y).size_ <= model.size_
    assert BestSubsetCV(cv=[(np.arange(5), np.arange(5, 60))]).fit(X, y).size_ < 5  # few rows


def test_odd_tables_end():
    X, y = draw(n=8, p=12)
    assert BestSubset(12).fit(X, y).size_ <= 6  # no more than the rows tell
    twice = np.c_[X, X]
    assert np.isfinite(BestSubset(5).fit(twice, y).coef_).all()
    assert BestSubset().fit(X, np.ones(8)).size_ == 0
    assert BestSubset(0).fit(X, y).intercept_ == pytest.approx(y.mean())
    with pytest.raises(ValueError, match="size"):
        BestSubset(13).fit(X, y)
    with pytest.raises(ValueError, match="has no alpha to choose"):
        select(BestSubset(), X, y)
