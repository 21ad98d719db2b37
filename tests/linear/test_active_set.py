"""Newton's steps for nonconvex losses: their products, what they end at, and when they are made."""

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, path, solve
from cyclade.linear.losses import Cauchy
from cyclade.linear.penalties import L1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem, as_design
from cyclade.linear.quadratic import curvatures
from cyclade.linear.state import begin
from cyclade.linear.subproblem.active_set import QuadraticModel, candidates, convex_part
from cyclade.linear.tuning import DEFAULT

ROBUST = ("cauchy", "welsch", "geman_mcclure", "tukey")


def data(seed=0, n=80, p=60, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[rng.random((n, p)) < 0.7 * sparse] = 0.0
    y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(n)
    y[: n // 10] += 10.0 * rng.standard_t(1, size=n // 10)
    return (sp.csc_matrix(X) if sparse else np.asfortranarray(X)), X, y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_products_under_weights_of_either_sign(sparse, few):
    given, X, _ = data(sparse=sparse)
    rng = np.random.default_rng(1)
    columns = as_design(given).unweighted(np.arange(3, 50), False)
    w, chosen = rng.standard_normal(80), np.arange(4, 40, 3)
    if few:
        w[rng.random(80) < 0.8] = 0.0
    A = X[:, columns.cols[chosen]]
    np.testing.assert_allclose(columns.products(chosen, w), (A.T * w) @ A, atol=1e-12)


def test_columns_of_a_float32_table_are_precise_if_asked_for():
    given = np.asfortranarray(data()[1].astype(np.float32))
    columns = as_design(given).unweighted(np.arange(5), True)
    assert columns.products(np.arange(5), np.ones(80)).dtype == np.float64


def hessian(X, w, cols, fit_intercept):
    """Of the loss in the coordinates, once the best intercept has been put in."""
    A = X[:, cols]
    G, sums = (A.T * w) @ A, A.T @ w
    return G - np.outer(sums, sums) / w.sum() if fit_intercept else G


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_products_are_of_the_weights(sparse, fit_intercept):
    given, X, y = data(sparse=sparse)
    design, s = as_design(given), np.full(80, 1 / 80)
    penalty = bind(L1(0.02), design.p)
    problem = Problem(design, y, s, np.zeros(80), Cauchy(1.0), penalty, fit_intercept)
    x = np.zeros(design.p)
    x[:6] = 0.5
    state = begin(problem, x, 0.0)
    for true_hessian in (True, False):
        model = QuadraticModel(problem, state, candidates(problem, state), true_hessian)
        assert (np.diff(model.V) > 0).all()
        w = problem.s * state.loss_at.second
        if not model.true_hessian:
            w = problem.s * curvatures(problem.loss, DEFAULT, state.loss_at, 1.0, state.trust)
        expected = hessian(X, w, model.V, fit_intercept)
        np.testing.assert_allclose(model.G, expected, rtol=1e-9, atol=1e-11)


def test_columns_along_which_a_model_bends_down_are_left_out():
    rng = np.random.default_rng(2)
    A, w = rng.standard_normal((30, 45)), np.where(rng.random(45) < 0.2, -0.8, 1.0)
    G, rank = (A * w) @ A.T / 45, rng.permutation(30)
    assert np.linalg.eigvalsh(G).min() < 0
    some = convex_part(G, rank, 3)
    assert set(rank[:3]) <= set(some)
    assert np.linalg.eigvalsh(G[np.ix_(some, some)]).min() > 0
    for j in np.setdiff1d(rank, some):  # those that came before it left no room
        before = [k for k in rank[: np.flatnonzero(rank == j)[0]] if k in some]
        assert np.linalg.eigvalsh(G[np.ix_([*before, j], [*before, j])]).min() < 0
    assert convex_part(-G, rank, 3) is None


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_steps_end_at_a_stationary_point(name, sparse, fit_intercept, monkeypatch):
    made, inner = [], QuadraticModel.step
    monkeypatch.setattr(QuadraticModel, "step", lambda *a: made.append(inner(*a)) or made[-1])
    given, X, y = data(2, sparse=sparse)
    loss, lam = losses.get(name, scale=2.0), 0.01
    found = solve(given, y, loss, L1(lam), fit_intercept=fit_intercept, tol=1e-8)
    assert found.certificate.reached
    assert any(made)
    u = loss.gradient(y, X @ found.coef + found.intercept) / 80
    g, at = X.T @ u, found.coef != 0
    assert 0 < at.sum() < 60
    np.testing.assert_allclose(g[at], -lam * np.sign(found.coef[at]), atol=2e-8 * lam)
    assert (np.abs(g[~at]) <= lam * (1 + 2e-8)).all()
    assert abs(u.sum()) <= 2e-8 * lam or not fit_intercept


def test_on_the_support_the_objective_is_bent_up_at_the_end():
    given, X, y = data(3)
    found = solve(given, y, Cauchy(2.0), L1(0.01), fit_intercept=False, tol=1e-8)
    second = Cauchy(2.0).second_derivative(y, X @ found.coef)
    assert second.min() < 0
    A = X[:, found.coef != 0]
    assert np.linalg.eigvalsh((A.T * second) @ A).min() > 0


def test_few_steps_are_made_along_a_path(monkeypatch):
    steps, step = [], QuadraticModel.step
    monkeypatch.setattr(QuadraticModel, "step", lambda *a: steps.append(1) or step(*a))
    given, _, y = data(4, n=200, p=120)
    found = path(
        given, y, Cauchy(2.0), n_alphas=40, alpha_ratio=0.02, fit_intercept=False, tol=1e-6
    )
    assert found.reached
    assert 40 <= len(steps) <= 3 * 40


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_no_tolerance_ends_too():
    given, _, y = data(5)
    found = solve(given, y, Cauchy(2.0), L1(0.02), tol=0.0)
    assert found.certificate.value <= 1e-12


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_nearly_as_many_columns_as_rows_with_outliers(fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 400))
    X[:, 1:] += 1.5 * X[:, :-1]
    y = X[:, ::40].sum(axis=1) / 5.0 + 0.05 * rng.standard_normal(120)
    y[:12] += 20.0 * rng.standard_t(1, size=12)
    fit = solve(X, y, Cauchy(1.0), L1(2e-4), fit_intercept=fit_intercept, tol=1e-5)
    assert fit.certificate.reached
    u = X @ fit.coef + fit.intercept - y
    g = X.T @ (u / (1.0 + u * u)) / 120
    at = fit.coef != 0
    assert np.abs(g[at] + 2e-4 * np.sign(fit.coef[at])).max() <= 1.1e-5 * 2e-4
    assert (np.abs(g[~at]) <= 2e-4 * (1 + 1.1e-5)).all()
