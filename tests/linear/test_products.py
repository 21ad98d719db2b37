"""Least squares on the products of all columns: whole paths as cycles over X make them."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import path, solve, threads
from cyclade.linear.losses import Squared
from cyclade.linear.penalties import L1, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem, as_design
from cyclade.linear.products import fits as fitted
from cyclade.linear.state import begin
from cyclade.linear.tuning import CostModel, Tuning
from cyclade.linear.working_set import Stopping

NEVER = Tuning(cost=CostModel(calls=-np.inf))
PENALTIES = {
    "l1": L1(1.0), "positive": L1(1.0, positive=True), "elastic net": ElasticNet(1.0, 0.5),
    "ridge": ElasticNet(1.0, 0.0), "weighted": WeightedL1(1.0, np.linspace(0.5, 2.0, 8)),
    "box": Box(np.full(8, -0.1), np.linspace(0.1, 0.8, 8), lam=1.0),
}  # fmt: skip


def table(n=60, p=8, seed=0, shift=0.0, order="F"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.4) + shift
    y = X[:, :3] @ np.array([1.0, -0.5, 0.2]) + rng.standard_normal(n) + shift
    return np.asarray(X, order=order), y, rng


def literal_path(X, y, s, penalty, lams, fit_intercept):
    """Cycles x_j ← prox(x_j − ∇_j/L_j, 1/L_j) over the columns of X until nothing moves."""
    s = s / s.sum()
    x, coefs, intercepts = np.zeros(X.shape[1]), [], []
    means, mean = (s @ X, s @ y) if fit_intercept else (np.zeros(X.shape[1]), 0.0)
    A, b = X - means, y - mean
    L = s @ A**2
    for lam in lams:
        at, moved = penalty.scaled(lam), 1.0
        while moved > 1e-13:
            moved = 0.0
            for j in range(x.size):
                g = (s * (A @ x - b)) @ A[:, j]
                new = at.prox(x[j] - g / L[j], 1.0 / L[j], j)
                moved, x[j] = max(moved, abs(new - x[j])), new
        coefs.append(x.copy())
        intercepts.append(mean - means @ x)
    return np.array(coefs).T, np.array(intercepts)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_whole_paths_as_literal_cycles_make_them(name, fit_intercept):
    X, y, rng = table(shift=0.5)
    s, offset, lams = rng.random(60), rng.standard_normal(60), np.array([0.5, 0.1, 0.02, 0.001])
    found = path(
        X, y + offset, "squared", PENALTIES[name], alphas=lams, sample_weight=s, offset=offset,
        fit_intercept=fit_intercept, tol=1e-13,
    )  # fmt: skip
    coefs, intercepts = literal_path(X, y, s, PENALTIES[name], lams, fit_intercept)
    np.testing.assert_allclose(found.coefs, coefs, atol=1e-9)
    np.testing.assert_allclose(found.intercepts, intercepts, atol=1e-9)
    assert found.reached


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_certificates_and_objectives_are_the_engines_at_the_same_points(name, order):
    X, y, _ = table(order=order, shift=2.0)
    lams, penalty = np.array([0.5, 0.05, 0.005]), PENALTIES[name]
    found = path(X, y, "squared", penalty, alphas=lams, tol=1e-3)
    s = np.full(60, 1 / 60)
    for k, lam in enumerate(lams):
        bound = bind(penalty.scaled(lam), 8)
        problem = Problem(as_design(X), y, s, np.zeros(60), Squared(), bound, True)
        state = begin(problem, found.coefs[:, k], found.intercepts[k])
        stopping = Stopping(problem, state, 1e-3, 100, lambda row: None)
        assert stopping.done(state)
        certificate = found.certificates[k]
        assert certificate.kind == "gap"
        assert certificate.value == pytest.approx(stopping.certificate.value, abs=1e-13)
        assert certificate.tolerance == pytest.approx(stopping.certificate.tolerance, rel=1e-12)
        assert found.objectives[k] == pytest.approx(state.measured.objective, rel=1e-12)


def test_single_fits_and_starts():
    X, y, _ = table()
    exact = solve(X, y, "squared", L1(0.05), tol=1e-12, tuning=NEVER)
    found = solve(X, y, "squared", L1(0.05), tol=1e-12)
    again = solve(X, y, "squared", L1(0.05), tol=1e-12, coef=found.coef, intercept=3.0)
    for fit in (found, again):
        np.testing.assert_allclose(fit.coef, exact.coef, atol=1e-9)
        assert fit.intercept == pytest.approx(exact.intercept, abs=1e-9)
    assert again.passes <= found.passes
    assert isinstance(found.intercept, float)
    assert [row["gap"] for row in found.history] == [found.certificate.value]


def test_a_tall_path_is_measured_on_products_but_for_the_last():
    X, y, _ = table(n=500)
    lams = np.geomspace(0.5, 0.005, 30)
    few = Tuning(cost=CostModel(calls=0.0))
    found = path(X, y, alphas=lams, tol=1e-10, tuning=few)
    exact = path(X, y, alphas=lams, tol=1e-10, tuning=NEVER)
    assert found.reached
    np.testing.assert_allclose(found.coefs, exact.coefs, atol=1e-7)
    np.testing.assert_allclose(found.objectives, exact.objectives, rtol=1e-10)


def test_certificates_are_those_of_coefficients_rounded_as_x_is():
    X, y, _ = table(shift=30.0)
    X, s = X.astype(np.float32), np.full(60, 1 / 60)
    wide = X.astype(np.float64)
    problem = Problem(as_design(X), y, s, np.zeros(60), Squared(), bind(L1(1e-3), 8), True)
    rough = fitted.solve_squares(problem, np.zeros(8), np.array([1e-3]), 1e-5, 1000)
    assert rough is not None
    best = solve(wide, y, "squared", L1(1e-3), tol=1e-13).objective
    coef = rough.coefs[:, 0].astype(np.float32).astype(np.float64)
    z = wide @ coef
    F = 0.5 * np.mean((z - z.mean() - (y - y.mean())) ** 2) + 1e-3 * np.abs(coef).sum()
    assert rough.objectives[0] == pytest.approx(F, rel=1e-12)
    assert rough.intercepts[0] == pytest.approx(y.mean() - wide.mean(axis=0) @ coef, abs=1e-9)
    assert F - best <= rough.certificates[0].value + 1e-12


def test_constant_and_repeated_columns():
    X, y, _ = table()
    X = np.column_stack([X, np.full(60, 3.0), X[:, 0], np.zeros(60)])
    found, exact = (solve(X, y, "squared", L1(0.02), tol=1e-9, tuning=t) for t in (None, NEVER))
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)
    assert found.coef[8] == 0.0
    assert found.coef[10] == 0.0


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_what_is_not_certified_goes_to_the_engine():
    X, y, _ = table()
    found = solve(X, y, "squared", L1(1e-3), tol=1e-12, max_iter=1)
    assert not found.certificate.reached
    assert np.isfinite(found.objective)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    X, y, _ = table()
    X[3, 2] = bad
    with pytest.raises(ValueError, match="X: must hold finite numbers"):
        solve(X, y, "squared", L1(0.1))


def test_float32_tables_and_several_outputs():
    X, y, _ = table()
    found = solve(X.astype(np.float32), np.stack([y, -y], axis=1), "squared", L1(0.1))
    assert found.coef.dtype == np.float32
    np.testing.assert_allclose(found.coef[:, 0], -found.coef[:, 1], atol=1e-6)
    assert found.intercept.shape == (2,)


def test_a_fit_from_zero_comes_down_through_larger_lam(monkeypatch):
    X, y, _ = table()
    seen, used = [], fitted.followed

    def noted(at, lams, *limits):
        seen.append(lams.tolist())
        return used(at, lams, *limits)

    monkeypatch.setattr(fitted, "followed", noted)
    found = solve(X, y, penalty=L1(1e-3), tol=1e-12)
    (above, (last,)) = seen
    assert last == 1e-3
    assert np.all(np.diff([*above, last]) < 0)
    assert len(above) > 3
    literal = literal_path(X, y, np.ones(60), L1(1.0), [1e-3], True)[0][:, 0]
    np.testing.assert_allclose(found.coef, literal, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("p", [6, 8, 11])  # by fours, or not
def test_products_in_one_reading_are_those_of_several(order, dtype, weighted, centred, p):
    X, y, rng = table(n=3_000, p=p, shift=5.0, order=order)
    X = X.astype(dtype, order="K")
    s = rng.random(3_000) if weighted else np.ones(3_000)
    s /= s.sum()
    y -= s @ y
    with threads.allowed(2):
        G, q, means = fitted.products(X, s * y, s, centred, Tuning(large=0))
    A = X.astype(np.float64)
    np.testing.assert_allclose(means, s @ A if centred else np.zeros(p), rtol=1e-13)
    A = A - means
    np.testing.assert_allclose(G, (A * s[:, None]).T @ A, rtol=1e-12, atol=1e-13)
    assert (G == G.T).all()
    np.testing.assert_allclose(q, (s * y) @ A, rtol=0, atol=1e-12)


def test_products_are_formed_where_they_cost_less_than_working_sets_will():
    def suits(n, p, fits=1, **options):
        y = np.empty(n)  # not read
        design = as_design(np.empty((n, p)))
        design.precompute = options.pop("precompute", "auto")
        problem = Problem(design, y, y, np.zeros(n), Squared(), bind(L1(1.0), p), True, **options)
        return fitted.suits(problem, fits)

    assert suits(60_000, 40)
    assert not suits(60_000, 290)
    assert suits(60_000, 290, fits=100)
    assert suits(60_000, 290, precompute=True)
    assert not suits(60, 40, precompute=False)
    assert not suits(290, 300, fits=100)  # more columns than rows
    assert not suits(60, 40, tuning=NEVER)


def test_gaps_on_rough_products_are_no_smaller_than_those_on_the_rows():
    X, y, _ = table()
    tuning, lams = Tuning(cost=CostModel(calls=0.0)), np.array([0.4, 0.2, 0.1])
    problem = Problem(
        as_design(X, tuning=tuning), y, np.full(60, 1 / 60), np.zeros(60), Squared(),
        bind(L1(0.1), 8), False, tuning,
    )  # fmt: skip
    x = solve(X, y, penalty=L1(0.1), fit_intercept=False).coef
    coefs = np.array([10.0, 5.0, 1.0])[:, None] * x  # the largest first, where errors count most
    rough = fitted.moments_of(problem)
    on_rows = fitted.judged(problem.penalty, lams, coefs, fitted.on_rows(problem, rough, coefs))[1]
    rough.G *= 1.0 - 1e-3
    passes = np.zeros(3, np.int64)
    fits = fitted.certified(problem.penalty, rough, lams, coefs, passes, np.inf, problem)
    gaps = np.array([certificate.value for certificate in fits.certificates])
    plain = fitted.judged(problem.penalty, lams, coefs, rough.residuals(coefs))[1]
    assert (plain[:2] < on_rows[:2]).all()
    rounding = 1e-14 * np.square(X @ coefs.T - y[:, None]).sum(0)  # all of a gap at the solution
    assert (gaps >= on_rows - rounding).all()
