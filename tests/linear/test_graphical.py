"""The graphical lasso against scikit-learn, its optimality conditions and its gap."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import GraphicalLasso as Theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from cyclade.linear import GraphicalLasso, GraphicalLassoCV, graphical_lasso
from cyclade.linear.estimators.covariance import component
from cyclade.linear.kernels.covariance import newton_direction


def draw(n: int = 60, p: int = 8, rho: float = 0.6, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho * rho) * X[:, j]
    return X


def objective(S: np.ndarray, theta: np.ndarray, alpha: float) -> float:
    off = abs(theta).sum() - np.trace(abs(theta))
    return float(-np.linalg.slogdet(theta)[1] + np.vdot(S, theta) + alpha * off)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999), p=st.integers(2, 15), n=st.integers(5, 60),
    rho=st.floats(0.0, 0.95), share=st.floats(0.02, 1.1),
)  # fmt: skip
def test_solutions_meet_their_optimality_conditions(seed, p, n, rho, share):
    S = np.cov(draw(n, p, rho, seed).T, bias=True)
    alpha = share * abs(S - np.diag(np.diag(S))).max()
    found = graphical_lasso(S, alpha, tol=1e-11)
    theta, W = found.precision, found.covariance
    assert found.certificate.reached
    assert found.certificate.value >= 0.0
    assert found.objective == pytest.approx(objective(S, theta, alpha), rel=1e-12)
    np.testing.assert_allclose(W @ theta, np.eye(p), atol=1e-8)
    np.testing.assert_array_equal(theta, theta.T)
    size = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    np.testing.assert_allclose(np.diag(W), np.diag(S), rtol=1e-4)
    off = ~np.eye(p, dtype=bool)
    assert (abs(W - S)[off] <= alpha + 1e-4 * size[off]).all()
    on = off & (theta != 0.0)
    np.testing.assert_allclose((W - S)[on], alpha * np.sign(theta[on]), atol=1e-4 * size.max())


def test_fits_are_those_of_scikit_learn():
    X = draw()
    ours, theirs = GraphicalLasso(0.1).fit(X), Theirs(0.1, tol=1e-9, enet_tol=1e-9).fit(X)
    np.testing.assert_allclose(ours.precision_, theirs.precision_, atol=1e-3)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, atol=1e-3)
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=1e-4)


@pytest.mark.parametrize(("n", "p", "rho"), [(40, 60, 0.9), (60, 100, 0.5)])
def test_the_gap_holds_where_that_of_scikit_learn_is_negative(n, p, rho):
    X = draw(n, p, rho)
    S = np.cov(X.T, bias=True)
    exact = graphical_lasso(S, 0.1, tol=1e-12).objective
    for tol in (1e-2, 1e-4, 1e-6):
        found = graphical_lasso(S, 0.1, tol=tol)
        assert found.objective >= exact - 1e-9
        assert found.objective - exact <= found.certificate.value + 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may not end
        theirs = Theirs(0.1).fit(X)
    assert min(gap for _, gap in theirs.costs_) < 0.0


def literal_direction(S, W, theta, lam, cycles):
    """The direction by its quadratic model, an entry and its mirror at a time."""
    p, D = len(S), np.zeros_like(S)
    for _ in range(cycles):
        for i in range(p):
            for j in range(i, p):
                E = np.zeros((p, p))
                E[i, j] = E[j, i] = 1.0
                a = np.trace(W @ E @ W @ E)
                b = np.trace((S - W) @ E) + np.trace(W @ D @ W @ E)
                t = lam[i, j] * (1 if i == j else 2)
                u = theta[i, j] + D[i, j] - b / a
                D += (np.sign(u) * max(abs(u) - t / a, 0.0) - theta[i, j] - D[i, j]) * E
    return D


def test_the_kernel_is_the_literal_descent():
    S = np.cov(draw(p=5).T, bias=True)
    theta = np.diag(1 / np.diag(S)) + 0.05
    W, lam = np.linalg.inv(theta), np.full((5, 5), 0.1)
    np.fill_diagonal(lam, 0.0)
    rows, cols = np.triu_indices(5)
    D = np.zeros((5, 5))
    newton_direction(S, W, theta, lam, rows, cols, D, 3, 0.0)
    np.testing.assert_allclose(D, literal_direction(S, W, theta, lam, 3), atol=1e-12)


def test_components_apart_are_fitted_apart():
    S = np.cov(draw(p=12, rho=0.5).T, bias=True)
    lam = np.full(S.shape, 0.3)
    np.fill_diagonal(lam, 0.0)
    whole = component(S, lam, np.diag(1 / np.diag(S)), 1e-10, 1000)
    np.testing.assert_allclose(graphical_lasso(S, 0.3, tol=1e-11).precision, whole[0], atol=1e-5)


def test_weights_are_repetitions_and_paths_are_fits():
    X, times = draw(), 1 + np.arange(60) % 3
    once = GraphicalLasso(0.1).fit(X, sample_weight=times)
    again = GraphicalLasso(0.1).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(once.precision_, again.precision_, atol=1e-8)
    for alpha, found in zip([0.3, 0.1, 0.03], GraphicalLasso().path(X, [0.03, 0.1, 0.3]),
                            strict=True):  # fmt: skip
        alone = GraphicalLasso(alpha).fit(X)
        assert alone.objective_ == pytest.approx(found.objective, abs=2e-5)


def test_entries_can_be_left_unpenalised():
    S = np.cov(draw().T, bias=True)
    weights = np.ones(S.shape)
    weights[0, 5] = weights[5, 0] = 0.0
    found = graphical_lasso(S, 0.2, weights=weights, tol=1e-10)
    assert found.covariance[0, 5] == pytest.approx(S[0, 5], abs=1e-4)


def test_cross_validation_chooses_an_alpha_between():
    X = draw(120, 10)
    model = GraphicalLassoCV(n_jobs=2).fit(X)
    assert model.alphas_[-1] < model.alpha_ < model.alphas_[0]
    assert model.score_path_.shape == (20, 5)
    assert GraphicalLassoCV(alphas=[model.alpha_]).fit(X).alpha_ == model.alpha_


def test_what_cannot_be_fitted_is_named():
    with pytest.raises(ValueError, match="positive diagonal"):
        graphical_lasso(np.zeros((2, 2)), 0.1)
    with pytest.raises(ValueError, match="drop constant columns"):
        GraphicalLasso(0.1).fit(np.c_[draw(50, 3), np.full(50, 0.1)])
    with pytest.raises(ValueError, match="square matrix"):
        graphical_lasso(np.ones((2, 3)), 0.1)
    with pytest.raises(ValueError, match="weights must be symmetric"):
        graphical_lasso(np.eye(2), 0.1, weights=-np.ones((2, 2)))
    with pytest.warns(ConvergenceWarning, match="GraphicalLasso stopped"):
        GraphicalLasso(0.01, max_iter=1).fit(draw(40, 30, 0.9))


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([GraphicalLasso(), GraphicalLassoCV(alphas=3, cv=2)])
def test_they_keep_the_manners_of_scikit_learn(estimator, check):
    check(estimator)
