"""Fits on the products of all columns: as literal twins make them, and as the engine measures."""

from __future__ import annotations

import numpy as np
import pytest
from curved_twin import newton_path

from cyclade.linear import losses, path, solve, threads
from cyclade.linear.kernels import curved_path, smooth_losses
from cyclade.linear.penalties import L1, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import CODES, Problem, as_design
from cyclade.linear.products import fits as products
from cyclade.linear.state import measure
from cyclade.linear.tuning import DEFAULT, CostModel, Tuning

NEVER = Tuning(cost=CostModel(calls=-np.inf))
CURVED = {"logistic": losses.Logistic(), "poisson": losses.Poisson(), "gamma": losses.Gamma()}
LOSSES = {"squared": losses.Squared(), **CURVED}
PENALTIES = {
    "l1": L1(1.0), "positive": L1(1.0, positive=True), "elastic net": ElasticNet(1.0, 0.5),
    "ridge": ElasticNet(1.0, 0.0), "weighted": WeightedL1(1.0, np.linspace(0.5, 2.0, 8)),
    "box": Box(np.full(8, -0.1), np.linspace(0.1, 0.8, 8), lam=1.0),
}  # fmt: skip


def table(loss="squared", n=60, p=8, seed=0, shift=0.0, order="F"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.3) + shift
    z = X[:, :3] @ np.array([1.0, -0.5, 0.2]) - shift
    if loss == "logistic":
        y = np.where(z + rng.standard_normal(n) > 0, 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.minimum(z, 3.0))).astype(float)
    elif loss == "gamma":
        y = np.exp(0.5 * z) * rng.gamma(2.0, 0.5, n)
    else:
        y = z + 2.0 * shift + rng.standard_normal(n)
    return np.asarray(X, order=order), y, rng


def problem_of(loss, X, y, penalty, s=None, offset=None, fit_intercept=True, **more):
    n, p = X.shape
    s = np.full(n, 1 / n) if s is None else s / s.sum()
    offset, design = np.zeros(n) if offset is None else offset, as_design(X, **more)
    return Problem(design, y, s, offset, LOSSES[loss], bind(penalty, p), fit_intercept, **more)


# --- any loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_certificates_and_objectives_are_the_engines(loss, name, fit_intercept, order):
    X, y, rng = table(loss, shift=2.0 * (loss == "squared"), order=order)
    s, offset = rng.random(60), 0.1 * rng.standard_normal(60)
    lams, penalty = np.array([0.3, 0.05, 0.005]), PENALTIES[name]
    problem = problem_of(loss, X, y, penalty, s, offset, fit_intercept)
    fits = products.solve(problem, np.zeros(8), 0.0, lams, 1e-3, 1000)
    assert fits is not None
    for k, lam in enumerate(lams):
        one = problem.at(penalty.scaled(lam))
        x, c = np.ascontiguousarray(fits.coefs[:, k]), fits.intercepts[k]
        now, tolerance = measure(one, x, one.loss_at(one.predict(x, c))), 1e-3 * one.null.scale
        assert fits.objectives[k] == pytest.approx(now.objective, rel=1e-12)
        assert fits.certificates[k].value == pytest.approx(max(now.gap, 0.0), abs=1e-12)
        assert fits.certificates[k].tolerance == pytest.approx(tolerance)
        assert now.gap <= tolerance


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_single_fits_and_starts(loss):
    X, y, _ = table(loss)
    exact = solve(X, y, loss, L1(0.01), tol=1e-12, tuning=NEVER)
    found = solve(X, y, loss, L1(0.01), tol=1e-12)
    again = solve(X, y, loss, L1(0.01), tol=1e-12, coef=found.coef, intercept=found.intercept)
    for fit in (found, again):
        np.testing.assert_allclose(fit.coef, exact.coef, atol=1e-6)
        assert fit.intercept == pytest.approx(exact.intercept, abs=1e-6)
    assert again.passes <= found.passes
    assert isinstance(found.intercept, float)
    assert [row["gap"] for row in found.history] == [found.certificate.value]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_constant_and_repeated_columns(loss):
    X, y, _ = table()
    X = np.column_stack([X, np.full(60, 3.0), X[:, 0], np.zeros(60)])
    y = np.where(X[:, 0] > 0, 1.0, -1.0) if loss == "logistic" else y  # separable
    lams = 0.3 * np.geomspace(1.0, 1e-5, 40)
    found, exact = (path(X, y, loss, alphas=lams, tuning=t) for t in (None, NEVER))
    assert found.reached
    np.testing.assert_allclose(found.objectives, exact.objectives, rtol=1e-3, atol=1e-6)
    assert not found.coefs[[8, 10]].any()


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_what_is_not_certified_goes_to_the_engine(loss):
    X, y, _ = table(loss)
    found = solve(X, y, loss, L1(1e-3), tol=1e-12, max_iter=1)
    assert not found.certificate.reached
    assert np.isfinite(found.objective)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(loss, bad):
    X, y, _ = table(loss)
    X[3, 2] = bad
    with pytest.raises(ValueError, match="X: must hold finite numbers"):
        solve(X, y, loss, L1(0.1))


def test_products_are_formed_where_they_cost_less_than_working_sets_will():
    class Own(losses.Logistic):
        """A subclass may change what φ is."""

    def suits(n, p, loss=LOSSES["squared"], fits=1, precompute="auto", tuning=DEFAULT, weights=1.0):
        y, penalty = np.empty(n), WeightedL1(1.0, weights * np.ones(p))  # y is not read
        design = as_design(np.empty((n, p)))
        design.precompute = precompute
        problem = Problem(design, y, y, np.zeros(n), loss, bind(penalty, p), True, tuning)
        return products.suits(problem, fits, 1e-6)

    assert suits(60_000, 10)
    assert suits(60_000, 290, fits=100)
    assert suits(60_000, 290, precompute=True)
    assert not suits(60, 40, precompute=False)
    assert not suits(290, 300, fits=100)  # more columns than rows
    logistic = LOSSES["logistic"]
    assert suits(100, 10, logistic)
    assert not suits(100, 10, Own())
    assert suits(1_500, 200, logistic, fits=100)
    assert not suits(1_500, 200, logistic)
    assert not suits(20_000, 500, logistic, fits=100)
    for loss in (LOSSES["squared"], logistic):
        assert not suits(60, 40, loss, tuning=NEVER)
        assert not suits(60, 40, loss, weights=np.arange(40.0))  # without a dual


def test_a_single_fit_takes_what_a_rough_fit_says_is_cheaper():
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((6_000, 240)))
    sparse, noise = X[:, :5].sum(axis=1), rng.standard_normal(6_000)

    def suits(y, ratio, columns=X):
        largest = np.abs((columns - columns.mean(axis=0)).T @ (y - y.mean())).max() / y.size
        return products.suits(problem_of("squared", columns, y, L1(largest / ratio)), 1, 1e-6)

    assert not suits(noise, 1.2)  # few columns come in
    assert suits(noise, 100)  # nearly all do
    assert not suits(sparse, 100)  # as few as the response is made of
    wide = np.asfortranarray(np.tile(X[:2_000], 5))
    assert not suits(noise[:2_000], 1000, columns=wide)  # too many
    alike = X + 3.0 * rng.standard_normal((6_000, 1))
    assert suits(alike[:, :5].sum(axis=1), 100, columns=alike)  # these take many cycles


def test_single_fits_of_tall_tables_are_made_on_float32_products(monkeypatch):
    X, y, _ = table(n=5_000, shift=30.0)
    few, kinds, plain = Tuning(cost=CostModel(calls=0.0)), [], products.moments_of

    def noted(problem, dtype):
        kinds.append(dtype)
        return plain(problem, dtype)

    monkeypatch.setattr(products, "moments_of", noted)
    exact = solve(X, y, "squared", L1(0.01), tol=1e-12, tuning=few, precompute=True)
    found = solve(X, y, "squared", L1(0.01), tuning=few, precompute=True)
    assert kinds == [np.float64, np.float32]
    assert found.certificate.reached
    np.testing.assert_allclose(found.coef, exact.coef, atol=1e-4)
    assert found.objective - exact.objective <= found.certificate.value + 1e-13


# --- least squares ------------------------------------------------------------------------------


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
    X = X.astype(np.float32)
    wide = X.astype(np.float64)
    problem = problem_of("squared", X, y, L1(1e-3))
    rough = products.solve(problem, np.zeros(8), 0.0, np.array([1e-3]), 1e-5, 1000)
    assert rough is not None
    best = solve(wide, y, "squared", L1(1e-3), tol=1e-13).objective
    coef = rough.coefs[:, 0].astype(np.float64)
    z = wide @ coef
    F = 0.5 * np.mean((z - z.mean() - (y - y.mean())) ** 2) + 1e-3 * np.abs(coef).sum()
    assert rough.objectives[0] == pytest.approx(F, rel=1e-12)
    assert rough.intercepts[0] == pytest.approx(y.mean() - wide.mean(axis=0) @ coef, abs=1e-9)
    assert F - best <= rough.certificates[0].value + 1e-12


def test_float32_tables_and_several_outputs():
    X, y, _ = table()
    found = solve(X.astype(np.float32), np.stack([y, -y], axis=1), "squared", L1(0.1))
    assert found.coef.dtype == np.float32
    np.testing.assert_allclose(found.coef[:, 0], -found.coef[:, 1], atol=1e-6)
    assert found.intercept.shape == (2,)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("p", [6, 8, 11])  # by fours, or not
def test_products_in_one_reading_are_those_of_several(order, dtype, weighted, centred, single, p):
    X, y, rng = table(n=3_000, p=p, shift=5.0, order=order)
    X = X.astype(dtype, order="K")
    s = rng.random(3_000) if weighted else np.ones(3_000)
    s /= s.sum()
    y -= s @ y
    with threads.allowed(2):
        kind = np.float32 if single else np.float64
        G, q, means = products.products(X, s * y, s, centred, Tuning(large=0), kind)
    A = X.astype(np.float64)
    np.testing.assert_allclose(means, s @ A if centred else np.zeros(p), rtol=1e-13)
    A = A - means
    near = {"rtol": 1e-5, "atol": 1e-6} if single else {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(G, (A * s[:, None]).T @ A, **near)
    assert (G == G.T).all()
    np.testing.assert_allclose(q, (s * y) @ A, rtol=0, atol=1e-12)


def test_gaps_on_rough_products_are_no_smaller_than_those_on_the_rows():
    X, y, _ = table()
    lams = np.array([0.4, 0.2, 0.1])
    tuning = Tuning(cost=CostModel(calls=0.0))
    problem = problem_of("squared", X, y, L1(0.1), fit_intercept=False, tuning=tuning)
    x = solve(X, y, penalty=L1(0.1), fit_intercept=False).coef
    coefs = np.array([10.0, 5.0, 1.0])[:, None] * x  # the largest first, where errors count most
    rough = products.moments_of(problem)
    at = products.on_rows(problem, rough, coefs)
    on_rows = products.judged(problem.penalty, lams, coefs, at)[1]
    rough.G *= 1.0 - 1e-3
    passes = np.zeros(3, np.int64)
    fits = products.certified(problem.penalty, rough, lams, coefs, passes, np.inf, problem)
    gaps = np.array([certificate.value for certificate in fits.certificates])
    plain = products.judged(problem.penalty, lams, coefs, rough.residuals(coefs))[1]
    assert (plain[:2] < on_rows[:2]).all()
    rounding = 1e-14 * np.square(X @ coefs.T - y[:, None]).sum(0)  # all of a gap at the solution
    assert (gaps >= on_rows - rounding).all()


# --- curved losses ------------------------------------------------------------------------------


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


@pytest.mark.parametrize("loss", CURVED)
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


@pytest.mark.parametrize("loss", CURVED)
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


@pytest.mark.parametrize("loss", CURVED)
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


@pytest.mark.parametrize("loss", CURVED)
def test_values_derivatives_and_conjugates_are_those_of_the_losses(loss):
    _, y, rng = table(loss, n=100)
    s, z, phi = rng.random(100), rng.standard_normal(100), CURVED[loss]
    s[3] = 0.0
    code, (slopes, bends) = CODES[type(phi)], np.empty((2, 100))
    smooth_losses.derivatives.py_func(code, y, s, 30.0 * z, slopes, bends)
    np.testing.assert_allclose(slopes, s * phi.gradient(y, 30.0 * z), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(bends, s * phi.curvature(y, 30.0 * z), rtol=1e-13, atol=1e-300)
    z *= 3.0
    smooth_losses.derivatives.py_func(code, y, s, z, slopes, bends)
    found = smooth_losses.loss.py_func(code, y, s, z)
    assert found == pytest.approx(s @ phi.value(y, z), rel=1e-14)
    for shrink in (1.0, 0.9, 0.3):
        expected = s @ phi.conjugate(y, shrink * phi.gradient(y, z))
        found = smooth_losses.loss_conjugate.py_func(code, y, s, slopes, shrink)
        assert found == pytest.approx(expected, rel=1e-13)
    beyond = -50.0 * slopes + s
    assert smooth_losses.loss_conjugate.py_func(code, y, s, beyond, 1.0) == np.inf


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


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_loss_without_a_null_model_goes_to_the_engine(loss):
    X, y, _ = table(loss)
    y[:] = {"logistic": 1.0, "poisson": 0.0}[loss]
    problem = problem_of(loss, X, y, PENALTIES["l1"])
    assert products.solve(problem, np.zeros(8), 0.0, np.array([0.1]), 1e-3, 100) is None


def test_more_columns_than_rows():
    X, y, _ = table("logistic", n=30, p=50)
    options = {"n_alphas": 20, "alpha_ratio": 0.02, "tol": 1e-10}
    found, exact = (path(X, y, "logistic", **options, tuning=t) for t in (None, NEVER))
    assert found.reached
    np.testing.assert_allclose(found.objectives, exact.objectives, rtol=1e-8)


def test_too_long_steps_of_counts_are_cut():
    X, y, _ = table("poisson")
    y[0] = 1e6  # the first model goes to where e^z overflows
    found, exact = (solve(X, y, "poisson", L1(0.1), tol=1e-10, tuning=t) for t in (None, NEVER))
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)
