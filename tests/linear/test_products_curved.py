"""Whole paths of curved losses in one compiled call: as its literal twin, and as the engine."""

from __future__ import annotations

import numpy as np
import pytest
from curved_twin import newton_path

from cyclade.linear import losses, path, solve
from cyclade.linear.kernels import curved_path, smooth_losses
from cyclade.linear.penalties import L1, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import CODES, Problem, as_design
from cyclade.linear.products import fits as products
from cyclade.linear.state import measure
from cyclade.linear.tuning import DEFAULT, CostModel, Tuning

NEVER = Tuning(cost=CostModel(calls=-np.inf))
LOSSES = {"logistic": losses.Logistic(), "poisson": losses.Poisson(), "gamma": losses.Gamma()}
PENALTIES = {
    "l1": L1(1.0), "positive": L1(1.0, positive=True), "elastic net": ElasticNet(1.0, 0.5),
    "ridge": ElasticNet(1.0, 0.0), "weighted": WeightedL1(1.0, np.linspace(0.5, 2.0, 8)),
    "box": Box(np.full(8, -0.1), np.linspace(0.1, 0.8, 8), lam=1.0),
}  # fmt: skip


def table(loss, n=60, p=8, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.3) + shift
    z = X[:, :3] @ np.array([1.0, -0.5, 0.2]) - shift
    if loss == "logistic":
        y = np.where(z + rng.standard_normal(n) > 0, 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.minimum(z, 3.0))).astype(float)
    else:
        y = np.exp(0.5 * z) * rng.gamma(2.0, 0.5, n)
    return X, y, rng


def problem_of(loss, X, y, s, offset, penalty, fit_intercept=True):
    bound = bind(penalty, X.shape[1])
    data = as_design(X), y, s / s.sum(), offset
    return Problem(*data, LOSSES[loss], bound, fit_intercept)


def points(loss, X, y, s, offset, penalty, lams, fit_intercept, strong_step, goals, steps):
    """The points of the kernel, its models minimised as far as rounding lets them."""
    coefs, intercepts = np.empty((lams.size, X.shape[1])), np.empty(lams.size)
    code = CODES[type(LOSSES[loss])]
    curved_path.path(
        curved_path.Rows(np.ascontiguousarray(X.T), y, s, offset, code, fit_intercept),
        np.zeros(X.shape[1]), 0.0, (penalty.kind, penalty.unit), lams, np.full(lams.size, goals),
        curved_path.Limits(1e-13, strong_step, steps, 100_000),
        curved_path.Found(coefs, intercepts, np.empty(lams.size, np.int64)),
    )  # fmt: skip
    return np.column_stack([coefs, intercepts])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("strong_step", [0.5, 0.8])
def test_trajectories_over_lambda_are_the_twins(loss, name, fit_intercept, strong_step):
    X, y, rng = table(loss)
    s, offset = rng.random(60) / 30, 0.1 * rng.standard_normal(60)
    lams, penalty = 0.3 * np.geomspace(1.0, 0.01, 12), PENALTIES[name]
    data = loss, X, y, s, offset, penalty, lams, fit_intercept, strong_step
    found = points(*data, np.inf, 1)
    expected = newton_path(LOSSES[loss], *data[1:], 1)[:, 0]
    assert np.count_nonzero(expected[-1]) >= 2
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_trajectories_of_newton_steps_are_the_twins(loss, fit_intercept):
    X, y, rng = table(loss, seed=1)
    s, offset = rng.random(60) / 30, 0.1 * rng.standard_normal(60)
    lams, steps = np.array([0.005]), 6
    data = X, y, s, offset, L1(1.0), lams, fit_intercept, 0.8
    expected = newton_path(LOSSES[loss], *data, steps)[0]
    for k in range(steps):
        found = points(loss, *data, 0.0, k + 1)[0]
        np.testing.assert_allclose(found, expected[k], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", PENALTIES)
def test_paths_are_the_engines_and_stationary(loss, name):
    X, y, rng = table(loss, shift=0.5)
    s, offset = rng.random(60), 0.1 * rng.standard_normal(60)
    penalty, lams = PENALTIES[name], np.array([0.3, 0.1, 0.02, 0.004])
    options = {"alphas": lams, "sample_weight": s, "offset": offset, "tol": 1e-12}
    found = path(X, y, loss, penalty, **options)
    engine = path(X, y, loss, penalty, **options, tuning=NEVER)
    assert found.reached
    np.testing.assert_allclose(found.objectives, engine.objectives, rtol=1e-11)
    np.testing.assert_allclose(found.coefs, engine.coefs, atol=2e-5)
    for k, lam in enumerate(lams):
        z = X @ found.coefs[:, k] + found.intercepts[k] + offset
        u, r = s / s.sum() * LOSSES[loss].gradient(y, z), penalty.scaled(lam)
        far = [r.distance(found.coefs[j, k], X[:, j] @ u, j) for j in range(8)]
        assert max(*far, abs(u.sum())) < 1e-5
        assert u @ u > 1e-4


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_certificates_and_objectives_are_the_engines(loss, name, fit_intercept):
    X, y, rng = table(loss)
    s, offset = rng.random(60), 0.1 * rng.standard_normal(60)
    lams, penalty = np.array([0.3, 0.05, 0.005]), PENALTIES[name]
    problem = problem_of(loss, X, y, s, offset, penalty, fit_intercept)
    fits = products.solve_curved(problem, np.zeros(8), 0.0, lams, 1e-3, 1000)
    assert fits is not None
    for k, lam in enumerate(lams):
        one = problem.at(penalty.scaled(lam))
        x, c = fits.coefs[:, k], fits.intercepts[k]
        now, tolerance = measure(one, x, one.loss_at(one.predict(x, c))), 1e-3 * one.null.scale
        assert fits.objectives[k] == pytest.approx(now.objective, rel=1e-13)
        assert fits.certificates[k].value == pytest.approx(now.objective - now.dual, abs=1e-12)
        assert fits.certificates[k].tolerance == pytest.approx(tolerance)
        assert now.objective - now.dual <= tolerance


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_are_those_of_the_losses(loss):
    rng = np.random.default_rng(0)
    _, y, _ = table(loss, n=100)
    s, z = rng.random(100), 30.0 * rng.standard_normal(100)
    slopes, bends = np.empty((2, 100))
    compiled = smooth_losses.derivatives.py_func
    compiled(CODES[type(LOSSES[loss])], y, s, z, slopes, bends)
    np.testing.assert_allclose(slopes, s * LOSSES[loss].gradient(y, z), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(bends, s * LOSSES[loss].curvature(y, z), rtol=1e-13, atol=1e-300)


def test_single_fits_and_starts():
    X, y, _ = table("logistic")
    exact = solve(X, y, "logistic", L1(0.01), tol=1e-12, tuning=NEVER)
    found = solve(X, y, "logistic", L1(0.01), tol=1e-12)
    again = solve(X, y, "logistic", L1(0.01), tol=1e-12, coef=found.coef, intercept=found.intercept)
    for fit in (found, again):
        np.testing.assert_allclose(fit.coef, exact.coef, atol=1e-6)
        assert fit.intercept == pytest.approx(exact.intercept, abs=1e-6)
    assert again.passes <= found.passes
    assert [row["gap"] for row in found.history] == [found.certificate.value]


def test_stages_go_down_to_the_lambda_of_a_single_fit():
    stages = curved_path.stages.py_func
    found = stages(2.0, 0.02, 0.3)
    step = np.append(found[1:], 0.02) / found
    assert found[0] < 2.0
    np.testing.assert_allclose(step, found[0] / 2.0)
    assert 0.3 <= step[0] < 0.6
    assert not stages(2.0, 1.8, 0.3).size
    assert not stages(np.inf, 1.0, 0.3).size


@pytest.mark.parametrize("name", PENALTIES)
def test_the_largest_lambda_is_that_of_the_penalty(name):
    penalty, g = PENALTIES[name], np.random.default_rng(0).standard_normal(8)
    found = curved_path.largest_lam.py_func(penalty.kind, penalty.unit, g)
    expected = penalty.lam_max(g) if name != "ridge" else 0.0  # no stages, as for infinity
    assert found == pytest.approx(expected, rel=1e-14)
    away = Box(np.linspace(-0.3, 0.4, 8), 1.0, lam=1.0)  # zero is forbidden
    assert curved_path.largest_lam.py_func(away.kind, away.unit, g) == np.inf


@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_conjugates_are_those_of_the_losses(loss):
    _, y, rng = table(loss, n=100)
    s, z, code = rng.random(100), 3.0 * rng.standard_normal(100), CODES[type(LOSSES[loss])]
    s[3] = 0.0
    slopes, bends = np.empty((2, 100))
    smooth_losses.derivatives.py_func(code, y, s, z, slopes, bends)
    found = smooth_losses.loss.py_func(code, y, s, z)
    assert found == pytest.approx(s @ LOSSES[loss].value(y, z), rel=1e-14)
    for shrink in (1.0, 0.9, 0.3):
        expected = s @ LOSSES[loss].conjugate(y, shrink * LOSSES[loss].gradient(y, z))
        found = smooth_losses.loss_conjugate.py_func(code, y, s, slopes, shrink)
        assert found == pytest.approx(expected, rel=1e-13)
    outside = smooth_losses.loss_conjugate.py_func(code, y, s, -50.0 * slopes + s, 1.0)
    assert outside == np.inf


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_loss_without_a_null_model_goes_to_the_engine(loss):
    X, y, _ = table(loss)
    y[:] = {"logistic": 1.0, "poisson": 0.0}[loss]
    problem = problem_of(loss, X, y, np.ones(60), np.zeros(60), PENALTIES["l1"])
    assert products.solve_curved(problem, np.zeros(8), 0.0, np.array([0.1]), 1e-3, 100) is None


def test_separable_classes_and_constant_columns():
    X, _, _ = table("logistic")
    X = np.column_stack([X, np.full(60, 3.0), X[:, 0], np.zeros(60)])
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    lams = 0.3 * np.geomspace(1.0, 1e-5, 40)
    found, exact = (path(X, y, "logistic", alphas=lams, tuning=t) for t in (None, NEVER))
    assert found.reached
    np.testing.assert_allclose(found.objectives, exact.objectives, rtol=1e-3, atol=1e-6)
    assert not found.coefs[[8, 10]].any()


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 50))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0, 1.0, -1.0)
    found, exact = (
        path(X, y, "logistic", n_alphas=20, alpha_ratio=0.02, tol=1e-10, tuning=t)
        for t in (None, NEVER)
    )
    assert found.reached
    np.testing.assert_allclose(found.objectives, exact.objectives, rtol=1e-8)


def test_too_long_steps_of_counts_are_cut():
    X, y, _ = table("poisson")
    y[0] = 1e6  # the first model goes to where e^z overflows
    found, exact = (solve(X, y, "poisson", L1(0.1), tol=1e-10, tuning=t) for t in (None, NEVER))
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_what_is_not_certified_goes_to_the_engine():
    X, y, _ = table("logistic")
    found = solve(X, y, "logistic", L1(1e-3), tol=1e-12, max_iter=1)
    assert not found.certificate.reached
    assert np.isfinite(found.objective)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    X, y, _ = table("logistic")
    X[3, 2] = bad
    with pytest.raises(ValueError, match="X: must hold finite numbers"):
        solve(X, y, "logistic", L1(0.1))


def test_which_problems_it_suits():
    class Own(losses.Logistic):
        """A subclass may change what φ is."""

    def suits(n=100, p=10, loss="logistic", penalty="l1", fits=1, tuning=DEFAULT):
        X, y = np.empty((n, p)), np.empty(n)  # not read
        loss, penalty = LOSSES.get(loss, loss), bind(PENALTIES.get(penalty, penalty), p)
        problem = Problem(as_design(X), y, y, np.zeros(n), loss, penalty, True, tuning)
        return products.suits(problem, fits)

    assert suits()
    assert not suits(loss=Own())
    assert suits(1_500, 200, fits=100)
    assert not suits(1_500, 200)
    assert not suits(20_000, 500, fits=100)
    assert not suits(tuning=NEVER)
    assert not suits(penalty=WeightedL1(1.0, np.arange(10.0)))  # without a dual
