"""Solutions: optimality conditions, equalities between formulations, certificates, warm starts."""

from __future__ import annotations

import literal_ccd as reference
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import Lasso, LogisticRegression

from cyclade.linear import solve
from cyclade.linear.losses import (
    Cauchy,
    Gamma,
    GemanMcClure,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    Tukey,
    Welsch,
)
from cyclade.linear.penalties import L1, MCP, SCAD, Box, ElasticNet, LogSum, WeightedL1

STORAGES = [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix, sp.csr_matrix]
LOSSES = [
    Squared(), Logistic(), Poisson(), Gamma(), Huber(0.5), Quantile(0.3, 0.2), SquaredHinge(),
    Cauchy(1.0), Welsch(2.0), GemanMcClure(2.0), Tukey(4.0),
]  # fmt: skip
PENALTIES = [
    L1(0.04), L1(0.04, positive=True), ElasticNet(0.08, 0.5),
    WeightedL1(0.04, np.linspace(0, 2, 60)), Box(-0.1, 0.2, 0.02),
    MCP(0.12, 3.0), SCAD(0.12, 3.7), LogSum(0.03, 0.5),
]  # fmt: skip


def data(loss, n=80, p=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.7 * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.4] = 0.0
    z = X[:, :4] @ np.array([1.0, -0.7, 0.5, 0.4])
    if isinstance(loss, (Logistic, SquaredHinge)):
        return X, np.where(z + 3.0 * rng.standard_normal(n) > 0.2, 1.0, -1.0)
    if isinstance(loss, Poisson):
        return X, rng.poisson(np.exp(0.5 * z)).astype(float)
    if isinstance(loss, Gamma):
        return X, rng.gamma(2.0, np.exp(0.3 * z)) + 0.01
    return X, z + 0.3 * rng.standard_normal(n) + 1.0


def stationarity(X, y, s, b, loss, penalty, x, c, intercept):
    """dist(∂F, 0), written out from the definitions."""
    u = s / s.sum() * loss.gradient(y, X @ x + c + b)
    g = X.T @ u
    worst = max(penalty.distance(float(x[j]), float(g[j]), j) for j in range(len(x)))
    return max(worst, abs(u.sum()) if intercept else 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_every_pair_reaches_a_stationary_point(loss, penalty):
    X, y = data(loss)
    rng = np.random.default_rng(1)
    s, b = rng.uniform(0.0, 2.0, len(y)), 0.1 * rng.standard_normal(len(y))
    s[:3] = 0.0
    kept = X.copy(), y.copy(), s.copy(), b.copy()
    fit = solve(X, y, loss, penalty, sample_weight=s, offset=b, tol=1e-9)
    assert fit.certificate.reached, fit.certificate
    far = stationarity(X, y, s, b, loss, penalty, fit.coef, fit.intercept, True)
    assert far < (1e-9 if fit.certificate.kind == "distance" else 1e-3)
    value = s / s.sum() @ loss.value(y, X @ fit.coef + fit.intercept + b)
    assert fit.objective == pytest.approx(value + penalty.total(fit.coef), rel=1e-12)
    for before, now in zip(kept, (X, y, s, b), strict=True):
        np.testing.assert_array_equal(before, now)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Cauchy(1.0)], ids=repr)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("intercept", [True, False])
def test_storages_agree(loss, storage, intercept):
    X, y = data(loss)
    a = solve(X, y, loss, L1(0.03), fit_intercept=intercept, tol=1e-11)
    b = solve(storage(X), y, loss, L1(0.03), fit_intercept=intercept, tol=1e-11)
    np.testing.assert_allclose(a.coef, b.coef, atol=1e-6)
    assert a.intercept == pytest.approx(b.intercept, abs=1e-6)
    assert a.objective == pytest.approx(b.objective, rel=1e-10)
    assert (a.intercept != 0.0) == intercept


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.5), Cauchy(1.0)], ids=repr)
def test_weights_equal_repetition(loss):
    X, y = data(loss)
    s = np.random.default_rng(2).integers(0, 4, len(y))
    a = solve(X, y, loss, L1(0.03), sample_weight=s, tol=1e-11)
    b = solve(np.repeat(X, s, axis=0), np.repeat(y, s), loss, L1(0.03), tol=1e-11)
    np.testing.assert_allclose(a.coef, b.coef, atol=1e-6)
    assert a.objective == pytest.approx(b.objective, rel=1e-10)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Poisson()], ids=repr)
def test_offsets_shift_the_prediction(loss):
    X, y = data(loss)
    b = 0.3 * X[:, 5] - 0.2
    free = WeightedL1(0.05, np.where(np.arange(60) == 5, 0.0, 1.0))
    a = solve(X, y, loss, free, offset=b, tol=1e-9)
    plain = solve(X, y, loss, free, tol=1e-9)
    assert a.objective == pytest.approx(plain.objective, abs=1e-8)
    np.testing.assert_allclose(a.coef + 0.3 * (np.arange(60) == 5), plain.coef, atol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_scikit_learn_agrees(intercept):
    X, y = data(Squared())
    lasso = Lasso(alpha=0.03, tol=1e-12, max_iter=100_000, fit_intercept=intercept).fit(X, y)
    fit = solve(X, y, "squared", L1(0.03), fit_intercept=intercept, tol=1e-12)
    np.testing.assert_allclose(fit.coef, lasso.coef_, atol=1e-6)
    assert fit.intercept == pytest.approx(lasso.intercept_, abs=1e-6)
    net = SklearnElasticNet(alpha=0.05, l1_ratio=0.4, tol=1e-12, max_iter=100_000, positive=True)
    net.set_params(fit_intercept=intercept).fit(X, y)
    penalty = ElasticNet(0.05, 0.4, positive=True)
    fit = solve(X, y, "squared", penalty, fit_intercept=intercept, tol=1e-12)
    np.testing.assert_allclose(fit.coef, net.coef_, atol=1e-6)


def test_liblinear_agrees():
    X, y = data(Logistic())
    model = LogisticRegression(
        l1_ratio=1, solver="liblinear", C=1 / (0.02 * len(y)), fit_intercept=False, tol=1e-10,
        max_iter=10_000, random_state=0,
    ).fit(X, y)  # fmt: skip
    fit = solve(X, y, "logistic", L1(0.02), fit_intercept=False, tol=1e-11)
    np.testing.assert_allclose(fit.coef, model.coef_.ravel(), atol=1e-4)


@pytest.mark.parametrize(
    "penalty", [L1(0.03), ElasticNet(0.05, 0.3), Box(-0.1, 0.1, 0.01)], ids=repr
)
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Poisson(), Huber(0.5)], ids=repr)
def test_a_gap_bounds_what_is_left(loss, penalty):
    X, y = data(loss)
    best = solve(X, y, loss, penalty, tol=1e-12).objective
    for tol in (1e-1, 1e-2, 1e-4):
        rough = solve(X, y, loss, penalty, tol=tol)
        assert rough.certificate.kind == "gap"
        assert -1e-12 <= rough.objective - best <= rough.certificate.value + 1e-12
        assert rough.certificate.value <= rough.certificate.tolerance


def test_the_slow_twin_reaches_the_same_minimum():
    X, y = data(Huber(0.5))
    twin = reference.run(X, y, Huber(0.5), L1(0.03), K=400)[-1]
    fit = solve(X, y, Huber(0.5), L1(0.03), fit_intercept=False, tol=1e-12)
    assert fit.objective == pytest.approx(twin.objective, rel=1e-9)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Cauchy(1.0)], ids=repr)
def test_a_warm_start_at_the_solution_costs_one_check(loss):
    X, y = data(loss)
    cold = solve(X, y, loss, L1(0.03), tol=1e-8)
    start = cold.coef.copy()
    warm = solve(X, y, loss, L1(0.03), coef=start, intercept=cold.intercept, tol=1e-8)
    assert warm.passes == 0
    np.testing.assert_array_equal(warm.coef, cold.coef)
    np.testing.assert_array_equal(start, cold.coef)
    elsewhere = solve(X, y, loss, L1(0.03), coef=0.1 * np.ones(60), tol=1e-10)
    assert elsewhere.objective == pytest.approx(cold.objective, rel=1e-6)


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_passes_are_limited_and_the_certificate_says_so():
    X, y = data(Squared())
    fit = solve(X, y, "squared", L1(1e-4), tol=1e-12, max_iter=3)
    assert fit.passes == 3
    assert not fit.certificate.reached
    assert fit.certificate.value > fit.certificate.tolerance


def test_many_dependent_columns_use_products_and_newton_steps():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((120, 200)), axis=1) / 10
    y = X[:, 50] - X[:, 90] + 0.05 * rng.standard_normal(120)
    fit = solve(X, y, "squared", L1(1e-3), tol=1e-10)
    assert fit.certificate.reached
    labels = np.where(y > np.median(y), 1.0, -1.0)
    fit = solve(sp.csc_matrix(X), labels, "logistic", L1(2e-3), tol=1e-9)
    assert fit.certificate.reached


def test_float32_is_sane():
    X, y = data(Squared())
    exact = solve(X, y, "squared", L1(0.03), tol=1e-10)
    for storage in (np.asfortranarray, sp.csc_matrix):
        single = solve(storage(X.astype(np.float32)), y, "squared", L1(0.03), tol=1e-5)
        assert single.certificate.reached
        assert single.coef.dtype == np.float32
        np.testing.assert_allclose(single.coef, exact.coef, atol=5e-3)


def test_continuation_lowers_what_a_nonconvex_penalty_reaches():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 400))
    y = X[:, :10].sum(axis=1) + 0.5 * rng.standard_normal(100)
    fit = solve(X, y, "squared", MCP(0.2, 3.0), tol=1e-8)
    assert set(np.flatnonzero(fit.coef)) == set(range(10))


def test_verbose_prints_checks(capsys):
    X, y = data(Squared())
    fit = solve(X, y, "squared", L1(0.03), verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(fit.history)
    assert "gap" in lines[0]
