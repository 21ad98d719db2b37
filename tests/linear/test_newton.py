"""Sparse columns, curved losses: Newton models, cycled over roughly; starts they must leave."""

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, solve, starts, working_set
from cyclade.linear.kernels import newton as kernels
from cyclade.linear.penalties import L1, ElasticNet
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import as_design, as_problems
from cyclade.linear.state import begin
from cyclade.linear.working_set import STRATEGIES, products_are_dear


def words(n=300, p=1500, seed=0):
    """A text-like table, rare words by far the most, and noisy classes."""
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, p + 1) ** 1.05
    rows, cols = [], []
    for i in range(n):
        cols.append(np.unique(rng.choice(p, 12, p=often / often.sum())))
        rows.append(np.full(cols[-1].size, i))
    rows, cols = np.concatenate(rows), np.concatenate(cols)
    X = sp.csc_matrix((1 + rng.random(rows.size), (rows, cols)), shape=(n, p))
    z = X @ rng.standard_normal(p)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0)


def largest_lam(X, y):
    return float(np.abs(X.T @ y).max()) / 2 / y.size


@pytest.fixture
def always(monkeypatch):
    """As if products of so few columns were dear."""

    def sparse(problem, state):
        return not problem.design.is_dense

    rows = [row._replace(suits=sparse) if row.name == "newton" else row for row in STRATEGIES]
    monkeypatch.setattr(working_set, "STRATEGIES", tuple(rows))
    monkeypatch.setattr(starts, "products_are_dear", sparse)  # who starts asks too


@pytest.mark.parametrize("storage", [sp.csc_matrix, np.asfortranarray])
@pytest.mark.parametrize("size", [30.0, 300.0])
def test_a_start_far_off_is_left(storage, size):
    # Rows at z = −100 have no curvature: models went on for ever, and no step lowered F.
    X, y = words()
    start = size * np.random.default_rng(1).standard_normal(X.shape[1])
    penalty = L1(largest_lam(X, y) / 100)
    X = storage(X.toarray())
    usual = solve(X, y, "logistic", penalty)
    fit = solve(X, y, "logistic", penalty, coef=start)
    assert fit.certificate.reached
    assert fit.objective == pytest.approx(usual.objective, rel=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("divisor", [10, 100, 1000])
@pytest.mark.parametrize("penalty", [L1, lambda lam: ElasticNet(lam, 0.7)])
def test_newton_models_end_where_dense_fits_do(always, penalty, divisor, intercept):
    X, y = words()
    r = penalty(largest_lam(X, y) / divisor)
    fit = solve(X, y, "logistic", r, fit_intercept=intercept, tol=1e-9)
    dense = solve(X.toarray(), y, "logistic", r, fit_intercept=intercept, tol=1e-9)
    assert fit.certificate.reached
    assert fit.objective == pytest.approx(dense.objective, rel=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_newton_models_of_counts(always, intercept):
    X, _ = words()
    y = np.random.default_rng(2).poisson(2.0, X.shape[0]).astype(float)
    fit = solve(X, y, "poisson", L1(1e-3), fit_intercept=intercept, tol=1e-8)
    dense = solve(X.toarray(), y, "poisson", L1(1e-3), fit_intercept=intercept, tol=1e-8)
    assert fit.certificate.reached
    assert fit.objective == pytest.approx(dense.objective, rel=1e-7)


def test_they_are_made_where_products_are_dear():
    X, y = words(2_000, 6_000)
    largest, data = largest_lam(X, y), (None, None, False)

    def suits(divisor):
        penalty = L1(largest / divisor)
        problem = as_problems(as_design(X), y, losses.Logistic(), penalty, data)[0]
        return products_are_dear(problem, begin(problem, np.zeros(6_000), 0.0))

    assert suits(300)
    assert not suits(3)


def literal_cycles(A, v, w, mass, cols, x, lam, many):
    """Cycles over all columns, each to its minimum on the model, in plain NumPy."""
    total = v.sum()
    for _ in range(many):
        for j in cols:
            sums = A[:, j] @ w
            L = A[:, j] ** 2 @ w - sums**2 / mass
            g = A[:, j] @ v - sums * total / mass
            u = x[j] - g / L
            d = np.sign(u) * max(abs(u) - lam / L, 0.0) - x[j]
            x[j] += d
            v += d * A[:, j] * w
            total += d * sums
    return x


@pytest.mark.parametrize("intercept", [False, True])
def test_cycles_are_those_of_the_literal_twin(intercept):
    rng = np.random.default_rng(0)
    X = sp.random(40, 15, 0.3, random_state=0, format="csc")
    A, w, v = X.toarray(), rng.random(40), rng.standard_normal(40)
    mass = float(w.sum()) if intercept else np.inf
    cols = np.sort(rng.choice(15, 9, replace=False))
    bound = bind(L1(0.05), 15)
    design = as_design(X).storage
    model = kernels.ModelAt(v.copy(), w, mass, cols, np.empty(9), np.empty(9))
    kernels.weigh(design, model, 1e-12)
    x = np.zeros(15)
    made, _ = bound.functions["newton_cycles"](
        design, model, x, bound.parameters, bound.zero_threshold, 1e-12, 0.1, 200
    )
    assert 2 < made < 200
    expected = literal_cycles(A, v.copy(), w, mass, cols, np.zeros(15), 0.05, 200)
    np.testing.assert_allclose(x, expected, atol=1e-11)
    first = np.zeros(15)
    model = kernels.ModelAt(v.copy(), w, mass, cols, model.sums, model.L)
    bound.functions["newton_cycles"](
        design, model, first, bound.parameters, bound.zero_threshold, 0.0, 0.1, 1
    )
    np.testing.assert_allclose(
        first, literal_cycles(A, v.copy(), w, mass, cols, np.zeros(15), 0.05, 1), atol=1e-13
    )
