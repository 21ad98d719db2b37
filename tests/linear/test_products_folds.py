"""Cross-validation from one pass over X: as fold after fold has it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, PredefinedSplit, ShuffleSplit

from cyclade.linear import ElasticNetCV, LassoCV, WeightedLassoCV
from cyclade.linear.estimators import cross_validated
from cyclade.linear.estimators.cross_validated import _partition


def table(n=90, p=6, shift=0.0, order="F", dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.4) + shift
    y = X[:, :3] @ np.array([1.0, -0.5, 0.2]) + rng.standard_normal(n) + shift
    return np.asarray(X, dtype, order=order), y, rng


def fold_by_fold(model, monkeypatch, *args, **options):
    """The same model without the one pass."""
    with monkeypatch.context() as patch:
        patch.setattr(cross_validated, "_held_out_at_once", lambda *args: None)
        return model.fit(*args, **options)


def made_at_once(monkeypatch):
    """Whether each call gave an answer."""
    answers, whole = [], cross_validated._held_out_at_once

    def noted(*args):
        found = whole(*args)
        answers.append(found is not None)
        return found

    monkeypatch.setattr(cross_validated, "_held_out_at_once", noted)
    return answers


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"cv": KFold(4, shuffle=True, random_state=0)}, {"positive": True}, {"standardize": True}],
)
def test_scores_are_those_of_fold_after_fold(monkeypatch, fit_intercept, weighted, options):
    X, y, rng = table(shift=3.0)
    weights = rng.random(90) if weighted else None
    made, common = made_at_once(monkeypatch), {"fit_intercept": fit_intercept, "tol": 1e-10}
    found = LassoCV(n_alphas=25, **common, **options).fit(X, y, weights)
    assert made == [True]
    exact = fold_by_fold(LassoCV(n_alphas=25, **common, **options), monkeypatch, X, y, weights)
    np.testing.assert_allclose(found.score_path_, exact.score_path_, rtol=1e-8)
    np.testing.assert_allclose(found.mse_path_, exact.mse_path_, rtol=1e-8)
    assert found.alpha_ == exact.alpha_
    np.testing.assert_array_equal(found.coef_, exact.coef_)


@pytest.mark.parametrize(("order", "dtype"), [("C", np.float64), ("F", np.float32)])
def test_offsets_memory_orders_and_single_precision(monkeypatch, order, dtype):
    X, y, rng = table(order=order, dtype=dtype)
    offset, made = rng.standard_normal(90), made_at_once(monkeypatch)
    model = {"l1_ratio": 0.5, "n_alphas": 10, "tol": 1e-9}
    found = ElasticNetCV(**model).fit(X, y, offset=offset)
    assert made == [True]
    exact = fold_by_fold(ElasticNetCV(**model), monkeypatch, X, y, offset=offset)
    np.testing.assert_allclose(found.score_path_, exact.score_path_, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:LassoCV. columns of X differ:UserWarning")
@pytest.mark.parametrize("case", ["a column nearly all in one fold", "a perfect fit"])
def test_where_a_difference_of_moments_is_rounding_folds_are_fitted(monkeypatch, case):
    X, y, _ = table()
    made, perfect = made_at_once(monkeypatch), case == "a perfect fit"
    if perfect:
        found = LassoCV(alphas=[1e-9], tol=1e-12).fit(X, X[:, 0])
    else:
        X[:18, 2] *= 1e8
        found = LassoCV(n_alphas=5).fit(X, y)
    assert made == [False]
    assert np.isfinite(found.score_path_).all()
    assert not perfect or found.mse_path_.max() < 1e-12


def test_what_needs_the_folds_themselves(monkeypatch):
    X, y, _ = table()
    made = made_at_once(monkeypatch)
    LassoCV(n_alphas=4, scoring="r2").fit(X, y)
    LassoCV(n_alphas=4, relaxed=True).fit(X, y)
    LassoCV(n_alphas=4, cv=ShuffleSplit(3, test_size=0.5, random_state=0)).fit(X, y)
    WeightedLassoCV(n_alphas=4).fit(X, y)
    assert made == [False] * 4
    LassoCV(n_alphas=4, cv=PredefinedSplit(np.arange(90) % 3 - 1)).fit(X, y)  # a third never out
    assert made[4:] == [True]


def test_which_folds_are_disjoint_and_complete():
    rows = np.arange(6)
    assert _partition([(rows[2:], rows[:2]), (rows[:4], rows[4:])], 6)
    assert not _partition([(rows[2:], rows[:2]), (rows[2:], rows[:2])], 6)  # twice
    assert not _partition([(rows[3:], rows[:2])], 6)  # a row left out
    assert not _partition([(np.array([2, 3, 4, 5, 5]), rows[:2])], 6)  # a row twice
