"""The same problems solved by celer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from agreement import agree, problem

from cyclade.linear.losses import Logistic, Squared
from cyclade.linear.penalties import L1, ElasticNet, GroupL2, Rows, WeightedL1

celer = pytest.importorskip("celer")
EXACT = {"tol": 1e-13, "max_iter": 1_000}


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("form", [np.asfortranarray, sp.csc_array])
def test_lasso(intercept, positive, form):
    X, y = problem("real")
    model = celer.Lasso(0.05, fit_intercept=intercept, positive=positive, **EXACT).fit(form(X), y)
    agree(
        form(X), y, Squared(), L1(0.05, positive=positive), model.coef_,
        model.intercept_ if intercept else None, atol=1e-6,
    )  # fmt: skip


def test_more_columns_than_rows():
    X, y = problem("real", n=30, p=120)
    model = celer.Lasso(0.02, **EXACT).fit(X, y)
    agree(X, y, Squared(), L1(0.02), model.coef_, model.intercept_)


def test_weighted_lasso():
    X, y = problem("real")
    weights = np.linspace(0.2, 2.0, X.shape[1])
    model = celer.Lasso(0.05, weights=weights, **EXACT).fit(X, y)
    agree(X, y, Squared(), WeightedL1(0.05, weights), model.coef_, model.intercept_, atol=1e-6)


def test_elastic_net():
    X, y = problem("real")
    model = celer.ElasticNet(0.05, l1_ratio=0.4, **EXACT).fit(X, y)
    agree(X, y, Squared(), ElasticNet(0.05, 0.4), model.coef_, model.intercept_, atol=1e-6)


@pytest.mark.parametrize("weights", [np.ones(4), np.array([0.5, 1.0, 1.5, 2.0])])
def test_group_lasso(weights):
    X, y = problem("real")
    model = celer.GroupLasso(groups=2, alpha=0.05, weights=weights, **EXACT).fit(X, y)
    penalty = GroupL2(0.05, 2, weights=weights)
    agree(X, y, Squared(), penalty, model.coef_, model.intercept_, atol=1e-6)


def test_multi_task_lasso():
    X, y = problem("table")
    # by its function: its estimator does not run with a recent scikit-learn
    columns = np.asfortranarray(X), np.asfortranarray(y)
    _, coefs, _ = celer.homotopy.mtl_path(*columns, alphas=np.array([0.05]), tol=1e-13)
    agree(X, y, Squared(), Rows(0.05), coefs[..., 0].T, atol=1e-6)


def test_logistic_regression():
    X, y = problem("two")
    model = celer.LogisticRegression(C=1.0 / (0.03 * len(y)), **EXACT).fit(X, y)
    agree(X, y, Logistic(), L1(0.03), model.coef_, atol=1e-5)
