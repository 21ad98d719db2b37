"""Solutions: optimality conditions, equalities between formulations, certificates, warm starts."""

from __future__ import annotations

import literal_ccd as reference
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade.linear import path, solve
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

STORAGES = [np.asfortranarray, np.ascontiguousarray, sp.csc_array, sp.csr_matrix]
CONVEX = [Squared(), Logistic(), Poisson(), Gamma(), Huber(0.5), Quantile(0.3, 0.2), SquaredHinge()]
ROBUST = [Cauchy(1.0), Welsch(2.0), GemanMcClure(2.0), Tukey(4.0)]
CONVEX_PENALTIES = [L1(0.04), L1(0.04, positive=True), ElasticNet(0.08, 0.5)]
NONCONVEX_PENALTIES = [MCP(0.12, 3.0), SCAD(0.12, 3.7), LogSum(0.03, 0.5)]
PENALTIES = [
    *CONVEX_PENALTIES, *NONCONVEX_PENALTIES,
    WeightedL1(0.04, np.linspace(0, 2, 60)), Box(-0.1, 0.2, 0.02),
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


def stationarity(X, y, s, b, loss, penalty, fit, intercept=True):
    """dist(∂F, 0), written out from the definitions."""
    u = s / s.sum() * loss.gradient(y, X @ fit.coef + fit.intercept + b)
    pairs = zip(fit.coef, X.T @ u, strict=True)
    worst = max(penalty.distance(float(x), float(g), j) for j, (x, g) in enumerate(pairs))
    return max(worst, abs(u.sum()) if intercept else 0.0)


@pytest.mark.parametrize("loss", [*CONVEX, *ROBUST], ids=repr)
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_every_pair_reaches_a_stationary_point(loss, penalty):
    X, y = data(loss)
    rng = np.random.default_rng(1)
    s, b = rng.uniform(0.0, 2.0, len(y)), 0.1 * rng.standard_normal(len(y))
    s[:3] = 0.0
    kept = X.copy(), y.copy(), s.copy(), b.copy()
    fit = solve(X, y, loss, penalty, sample_weight=s, offset=b, tol=1e-9)
    assert fit.certificate.reached, fit.certificate
    far = stationarity(X, y, s, b, loss, penalty, fit)
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
    single = solve(
        storage(X.astype(np.float32)), y, loss, L1(0.03), fit_intercept=intercept, tol=1e-5
    )
    assert single.certificate.reached
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.coef, a.coef, atol=5e-3)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Poisson()], ids=repr)
def test_offsets_shift_the_prediction(loss):
    X, y = data(loss)
    b = 0.3 * X[:, 5] - 0.2
    free = WeightedL1(0.05, np.where(np.arange(60) == 5, 0.0, 1.0))
    a = solve(X, y, loss, free, offset=b, tol=1e-9)
    plain = solve(X, y, loss, free, tol=1e-9)
    assert a.objective == pytest.approx(plain.objective, abs=1e-8)
    np.testing.assert_allclose(a.coef + 0.3 * (np.arange(60) == 5), plain.coef, atol=1e-6)


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


# --- random problems ----------------------------------------------------------------------------

problems = given(
    seed=st.integers(0, 10_000),
    n=st.integers(4, 40),
    p=st.integers(1, 60),
    which=st.integers(0, 100),
    intercept=st.booleans(),
)


def draw(loss, seed, n, p):
    """X with zero, constant and repeated columns now and then; y; weights; an offset."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.uniform(0.0, 1.0) * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.3] = 0.0
    fate = rng.integers(0, 8, p)
    X[:, fate == 0], X[:, fate == 1] = 0.0, 1.0
    X[:, fate == 2] = X[:, [0]]
    z = X[:, 0] - 0.5 * X[:, p // 2] + 0.5 * rng.standard_normal(n)
    if loss.target == "signs":
        y = np.where(z > np.median(z), 1.0, -1.0)
        y[0], y[-1] = 1.0, -1.0
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(0.5 * z)) + 1.0
    elif isinstance(loss, Gamma):
        y = np.exp(0.5 * z)
    else:
        y = z + 1.0
    return X, y, rng.uniform(0.2, 2.0, n), 0.2 * rng.standard_normal(n)


@settings(max_examples=40, deadline=None)
@problems
def test_convex_problems(seed, n, p, which, intercept):
    loss, penalty = CONVEX[which % 7], CONVEX_PENALTIES[which % 3]
    X, y, s, b = draw(loss, seed, n, p)
    more = {"offset": b, "fit_intercept": intercept, "tol": 1e-10, "max_iter": 20_000}
    options = {"sample_weight": s, **more}
    fit = solve(X, y, loss, penalty, **options)
    assert fit.certificate.reached
    assert stationarity(X, y, s, b, loss, penalty, fit, intercept) < 1e-4
    apart = 1.001 * fit.certificate.tolerance + 1e-14  # gaps bound what is left of either
    stored = solve(STORAGES[seed % 4](X), y, loss, penalty, **options)
    assert stored.objective == pytest.approx(fit.objective, rel=0, abs=apart)
    start = np.random.default_rng(seed).uniform(0.0, 0.3, p)
    warm = solve(X, y, loss, penalty, coef=start, **options)
    assert warm.objective == pytest.approx(fit.objective, rel=0, abs=apart)
    along = path(X, y, loss, penalty, alphas=[0.3, 0.1, penalty.lam], **options)
    assert along.reached
    assert along.objectives[-1] == pytest.approx(fit.objective, rel=0, abs=apart)
    # Weights are repetition, and float32 is near.
    times = np.random.default_rng(seed).integers(1, 4, n)
    one = solve(X, y, loss, penalty, sample_weight=times, **more)
    rows = np.repeat(np.arange(n), times)
    two = solve(X[rows], y[rows], loss, penalty, **{**more, "offset": b[rows]})
    assert one.objective == pytest.approx(two.objective, rel=1e-9, abs=1e-11)
    single = solve(X.astype(np.float32), y, loss, penalty, **{**options, "tol": 1e-6})
    assert single.certificate.reached
    assert single.objective == pytest.approx(fit.objective, rel=1e-4, abs=1e-4)


@settings(max_examples=30, deadline=None)
@problems
def test_nonconvex_problems(seed, n, p, which, intercept):
    loss = [*CONVEX, *ROBUST][which % 11]
    choices = NONCONVEX_PENALTIES if loss.convex else PENALTIES[:6]
    if isinstance(loss, Logistic):
        choices = [LogSum(0.05, 0.5)]  # with a bounded r, separable labels have no minimum
    penalty = choices[which % len(choices)]
    X, y, s, b = draw(loss, seed, n, p)
    options = {"sample_weight": s, "offset": b, "fit_intercept": intercept}
    for storage in (np.asarray, STORAGES[seed % 4]):
        fit = solve(storage(X), y, loss, penalty, **options, tol=1e-8, max_iter=20_000)
        assert fit.certificate.kind == "distance"
        assert fit.certificate.reached
        assert stationarity(X, y, s, b, loss, penalty, fit, intercept) < 1e-8
