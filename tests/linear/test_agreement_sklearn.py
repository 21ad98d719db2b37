"""The same problems solved by scikit-learn and SciPy, beyond what the estimators' tests compare."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from agreement import agree, problem
from scipy.optimize import lsq_linear
from sklearn import linear_model as sk
from sklearn.svm import LinearSVC

from cyclade.linear.losses import Squared, SquaredHinge
from cyclade.linear.penalties import L1, Box


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("shape", [(40, 8), (30, 120)])
def test_lasso(form, shape):
    X, y = problem("real", n=shape[0], p=shape[1])
    model = sk.Lasso(0.03, tol=1e-11, max_iter=1_000_000).fit(form(X), y)
    agree(form(X), y, Squared(), L1(0.03), model.coef_, model.intercept_)


def test_support_vectors():
    X, y = problem("two")
    # liblinear would penalise an intercept, so there is none
    model = LinearSVC(
        penalty="l1", dual=False, C=1.0 / (0.03 * len(y)), fit_intercept=False, tol=1e-9,
        max_iter=1_000_000, random_state=0,
    ).fit(X, y)  # fmt: skip
    agree(X, y, SquaredHinge(), L1(0.03), model.coef_, atol=1e-4)


def test_nonnegative_and_bounded_least_squares():
    X, y = problem("real")
    model = sk.LinearRegression(positive=True).fit(X, y)
    agree(X, y, Squared(), Box(0.0, np.inf), model.coef_, model.intercept_, atol=1e-6)
    bounded = lsq_linear(X, y, (-0.4, 0.3), method="bvls", tol=1e-14)
    agree(X, y, Squared(), Box(-0.4, 0.3), bounded.x, atol=1e-6)


def test_another_problem_is_told_apart():
    X, y = problem("real")
    model = sk.Lasso(0.03, tol=1e-12, max_iter=1_000_000).fit(X, y)
    with pytest.raises(AssertionError):
        agree(X, y, Squared(), L1(0.0301), model.coef_, model.intercept_)
