"""The square-root lasso against cvxpy, its optimality conditions and the lasso it is."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_cases import weighs_and_reads
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from cyclade.linear import Lasso, SqrtLasso, SqrtLassoCV


def draw(n=80, p=30, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    return X, 1.0 + X[:, 0] - 2.0 * X[:, 1] + noise * rng.standard_normal(n)


def least(X, y, alpha, intercept=True, positive=False):
    """F at the minimum, by cvxpy."""
    cp = pytest.importorskip("cvxpy")
    n, p = X.shape
    x, c = cp.Variable(p, nonneg=positive), cp.Variable()
    root = cp.norm(y - X @ x - (c if intercept else 0.0)) / np.sqrt(n)
    return cp.Problem(cp.Minimize(root + alpha * cp.norm1(x))).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "p", "alpha"), [(80, 30, 0.15), (80, 30, 0.4), (40, 90, 0.4)])
def test_objectives_are_those_of_cvxpy(n, p, alpha, intercept, positive):
    X, y = draw(n, p)
    model = SqrtLasso(alpha, fit_intercept=intercept, positive=positive).fit(X, y)
    value = least(X, y, alpha, intercept, positive)
    assert model.objective_ == pytest.approx(value, abs=1e-5)
    assert model.certificate_.reached
    assert model.objective_ - value <= model.certificate_.value + 1e-6


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0.2, 0.9), noise=st.floats(0.1, 10.0))
def test_solutions_meet_their_optimality_conditions(seed, share, noise):
    X, y = draw(seed=seed, noise=noise)
    residual = y - y.mean()
    alpha = share * abs(X.T @ residual).max() / np.linalg.norm(residual) / np.sqrt(len(y))
    model = SqrtLasso(alpha, tol=1e-7).fit(X, y)
    residual = y - model.predict(X)
    g = X.T @ residual / np.linalg.norm(residual) / np.sqrt(len(y))
    on = model.coef_ != 0
    assert on.any()
    np.testing.assert_allclose(g[on], alpha * np.sign(model.coef_[on]), rtol=1e-4)
    assert (abs(g) <= alpha * (1 + 1e-6)).all()
    assert residual.mean() == pytest.approx(0.0, abs=1e-9 * noise)
    lasso = Lasso(alpha * np.sqrt(np.mean(residual**2)), tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, lasso.coef_, atol=1e-3 * noise)


def test_its_alpha_does_not_depend_on_the_errors():
    X, y = draw()
    small, large = SqrtLasso().fit(X, y), SqrtLasso().fit(X, 1e3 * y)
    assert small.alpha_ == large.alpha_
    np.testing.assert_allclose(large.coef_, 1e3 * small.coef_, atol=1e-2)


def test_weights_are_repetitions_and_sparse_is_dense():
    weighs_and_reads(SqrtLasso(0.2), *draw(), atol=1e-6)


def test_paths_are_fits_and_start_at_zero():
    X, y = draw()
    path = SqrtLasso().path(X, y, n_alphas=8)
    assert all(certificate.reached for certificate in path.certificates)
    assert abs(path.coefs[:, 0]).max() < 1e-12 < abs(path.coefs[:, 1]).max()
    for alpha, coef in zip(path.alphas, path.coefs.T, strict=True):
        np.testing.assert_allclose(SqrtLasso(alpha).fit(X, y).coef_, coef, atol=1e-5)


def test_penalty_weights_leave_features_free():
    X, y = draw()
    model = SqrtLasso(0.3, penalty_weights=np.r_[0.0, np.ones(29)]).fit(X, y)
    residual = y - model.predict(X)
    assert X[:, 0] @ residual == pytest.approx(0.0, abs=1e-4)
    assert model.certificate_.reached


def test_cross_validation_chooses_an_alpha():
    X, y = draw()
    model = SqrtLassoCV(n_alphas=15).fit(X, y)
    assert {0, 1} <= set(np.flatnonzero(model.coef_))
    assert model.mse_path_.shape == (15, 5)


def test_an_alpha_that_fits_y_exactly_warns_with_a_gap_that_holds():
    X, y = draw(40, 90)
    with pytest.warns(ConvergenceWarning, match="its gap is"):
        model = SqrtLasso(0.15).fit(X, y)
    assert -1e-6 <= model.objective_ - least(X, y, 0.15) <= model.certificate_.value


def test_a_perfect_fit_and_a_constant_target_end():
    X, _ = draw()
    assert not SqrtLasso(0.1).fit(X, np.ones(80)).coef_.any()
    free = SqrtLasso(0.0).fit(X, X[:, 0])
    np.testing.assert_allclose(free.coef_[0], 1.0, atol=1e-6)
