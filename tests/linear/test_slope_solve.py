"""Fits under the sorted l1 penalty: optimality, and equalities between ways of saying the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import slope_twin as twin
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade import linear
from cyclade.linear import losses, path, solve
from cyclade.linear.penalties import L1, Slope

LOSSES = ["squared", "logistic", "poisson", "gamma", "huber", "quantile", "squared_hinge",
          "cauchy", "welsch", "geman_mcclure", "tukey"]  # fmt: skip
CONVEX = LOSSES[:7]


def data(loss, n=40, p=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.3] = 0.0
    z = X[:, 0] - X[:, 1] + 0.5 * X[:, p // 2] + 0.3
    noise = rng.standard_normal(n)
    y = {
        "poisson": lambda: rng.poisson(np.exp(0.4 * z)).astype(float),
        "gamma": lambda: np.exp(0.4 * z + 0.3 * noise),
        "logistic": lambda: np.where(z + 2 * noise > 0, 1.0, -1.0),
        "squared_hinge": lambda: np.where(z + 2 * noise > 0, 1.0, -1.0),
    }.get(loss, lambda: z + 0.3 * noise)()
    return X, y


def measured(X, y, loss, penalty, fit, s=None, offset=0.0):
    """F and the largest entry of dist(∂F, 0), from their definitions."""
    s = np.ones(len(y)) if s is None else s
    lam, loss = penalty.sequence(X.shape[1]), losses.get(loss)
    z = X @ fit.coef + fit.intercept + offset
    u = loss.gradient(y, z) * s / s.sum()
    F = float(s @ loss.value(y, z)) / s.sum() + twin.value(fit.coef, lam)
    return F, max(np.abs(twin.distances(fit.coef, X.T @ u, lam)).max(), abs(u.sum()))


@settings(max_examples=60, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    seed=st.integers(0, 10_000),
    n=st.integers(25, 45),
    p=st.integers(2, 60),
    weighted=st.booleans(),
    sparse=st.booleans(),
    shape=st.sampled_from(["bh", "oscar"]),
    lam=st.sampled_from([0.02, 0.1, 0.4]),
)
def test_random_problems_meet_their_optimality_conditions(
    loss, seed, n, p, weighted, sparse, shape, lam
):
    X, y = data(loss, n, p, seed)
    rng = np.random.default_rng(seed)
    s, offset = (rng.random(n), 0.2 * rng.standard_normal(n)) if weighted else (None, np.zeros(n))
    penalty = Slope(lam, shape)
    fit = solve(sp.csr_array(X) if sparse else X, y, loss, penalty, sample_weight=s, offset=offset,
                tol=1e-11 if loss in CONVEX else 1e-7)  # fmt: skip
    assert fit.certificate.reached
    assert fit.certificate.kind == ("gap" if loss in CONVEX else "distance")
    F, distance = measured(X, y, loss, penalty, fit, s, offset)
    assert fit.objective == pytest.approx(F, rel=1e-10)
    assert distance <= 1e-4 * lam


@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_is_that_of_proximal_gradients_and_the_gap_is_true(seed):
    X, y = data("squared", 30, 8, seed)
    penalty = Slope(0.15, np.linspace(2.0, 0.0, 8))
    rough = solve(X, y, "squared", penalty, fit_intercept=False, tol=1e-2)
    fine = solve(X, y, "squared", penalty, fit_intercept=False, tol=1e-14)
    x = twin.proximal_gradient(X, y, penalty.sequence(8), 4000)
    np.testing.assert_allclose(fine.coef, x, atol=1e-8)
    assert fine.objective <= rough.objective <= fine.objective + rough.certificate.value
    assert rough.certificate.value <= rough.certificate.tolerance


@pytest.mark.parametrize("loss", CONVEX)
@pytest.mark.parametrize("lam", [0.1, 0.01])
def test_equal_weights_give_the_lasso(loss, lam):
    X, y = data(loss, 40, 30)
    ours = solve(X, y, loss, Slope(lam, np.ones(30)), tol=1e-14)
    lasso = solve(X, y, loss, L1(lam), tol=1e-14)
    assert ours.objective == pytest.approx(lasso.objective, abs=1e-10)
    np.testing.assert_allclose(X @ ours.coef, X @ lasso.coef, atol=1e-6)
    if loss in ("squared", "logistic", "gamma"):  # for these the minimiser is well determined
        np.testing.assert_allclose(ours.coef, lasso.coef, atol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["squared", "cauchy"])
def test_float32_is_worked_on_and_given_back(sparse, loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((520, 520)).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = 0.0
    y = X[:, :4].sum(axis=1) + rng.standard_normal(520)
    fit = solve(sp.csc_array(X) if sparse else X, y, loss, Slope(0.2), tol=1e-4)
    exact = solve(X.astype(np.float64), y, loss, Slope(0.2), tol=1e-10)
    assert fit.coef.dtype == np.float32
    assert fit.certificate.reached
    np.testing.assert_allclose(fit.coef, exact.coef, atol=2e-2)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_warm_starts_end_where_cold_ones_do(loss):
    X, y = data(loss, 40, 60)
    cold = solve(X, y, loss, Slope(0.03), tol=1e-13)
    start = solve(X, y, loss, Slope(0.1), tol=1e-6)
    before = start.coef.copy()
    warm = solve(X, y, loss, Slope(0.03), tol=1e-13, coef=start.coef, intercept=start.intercept)
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-6)
    np.testing.assert_array_equal(start.coef, before)
    again = solve(X, y, loss, Slope(0.03), tol=1e-12, coef=cold.coef, intercept=cold.intercept)
    assert again.passes == 0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_paths_are_single_fits(loss, sparse):
    X, y = data(loss, 40, 80)
    given = sp.csc_array(X) if sparse else X
    found = path(given, y, loss, Slope(1.0), n_alphas=15, alpha_ratio=0.02, tol=1e-12)
    assert found.reached
    assert not found.coefs[:, 0].any()
    assert found.coefs[:, 1].any()
    for k, lam in enumerate(found.alphas):
        fit = solve(given, y, loss, Slope(lam), tol=1e-12)
        assert fit.objective == pytest.approx(found.objectives[k], abs=1e-10)
        np.testing.assert_allclose(found.coefs[:, k], fit.coef, atol=1e-5)


def test_paths_of_narrow_losses_are_single_fits():
    X, y = data("huber")
    found = path(X, 1e5 * y, "huber", Slope(1.0), n_alphas=3, alpha_ratio=0.1)
    assert found.reached
    fit = solve(X, 1e5 * y, "huber", Slope(found.alphas[1]))
    np.testing.assert_allclose(found.coefs[:, 1], fit.coef, rtol=1e-7)


def test_equal_columns_get_equal_coefficients():
    X, y = data("squared", 40, 6)
    X = np.concatenate([X, X[:, :2], -X[:, :1], np.ones((40, 1))], axis=1)
    fit = solve(X, y, "squared", Slope(0.1), tol=1e-12)
    assert fit.coef[0] == fit.coef[6] == -fit.coef[8] != 0.0
    assert fit.coef[1] == fit.coef[7] != 0.0
    assert fit.coef[9] == 0.0


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_a_fit_that_may_not_finish_says_so():
    X, y = data("squared", 40, 60)
    fit = solve(X, y, "squared", Slope(0.001), max_iter=2, tol=1e-10)
    assert not fit.certificate.reached
    F, _ = measured(X, y, "squared", Slope(0.001), fit)
    best = solve(X, y, "squared", Slope(0.001), tol=1e-12)
    assert F - best.objective <= fit.certificate.value


def test_without_a_penalty_and_with_zero_weights_at_the_end():
    X, y = data("squared", 40, 5)
    free = solve(X, y, "squared", Slope(0.0), tol=1e-10)
    A = np.column_stack([X, np.ones(40)])
    np.testing.assert_allclose(free.coef, np.linalg.lstsq(A, y)[0][:5], atol=1e-8)
    largest = solve(X, y, "squared", Slope(0.1, [1.0, 0.0, 0.0, 0.0, 0.0]), tol=1e-12)
    assert largest.certificate.reached
    _, distance = measured(X, y, "squared", Slope(0.1, [1.0, 0, 0, 0, 0]), largest)
    assert distance <= 1e-6


def test_several_outputs_are_separate_fits():
    X, y = data("squared")
    Y = np.stack([y, -2 * y + X[:, 3]], axis=1)
    both = solve(X, Y, "squared", Slope(0.1), tol=1e-12)
    assert path(X, Y, "squared", Slope(1.0), n_alphas=3).coefs.shape == (12, 2, 3)
    for k in range(2):
        one = solve(X, Y[:, k], "squared", Slope(0.1), tol=1e-12)
        np.testing.assert_allclose(both.coef[:, k], one.coef, atol=1e-8)


def test_what_is_refused_is_refused_before_work():
    X, y = data("squared")
    codes = np.digitize(y, [-1.0, 1.0])
    with pytest.raises(ValueError, match="each of the 12 columns of X, got 2"):
        solve(X, y, "squared", Slope(0.1, [2.0, 1.0]))
    with pytest.raises(ValueError, match="each of the 12 columns of X, got 2"):
        path(X, y, "squared", Slope(0.1, [2.0, 1.0]))
    with pytest.raises(ValueError, match=r"coef: a start must have shape \(12,\)"):
        solve(X, y, "squared", Slope(0.1), coef=np.zeros((12, 2)))
    with pytest.raises(TypeError, match="Slope cannot be used with several classes"):
        solve(X, codes, "multinomial", Slope(0.1))
    with pytest.raises(TypeError, match="Slope joins all coordinates"):
        linear.StochasticLinear("squared", Slope(0.1)).fit(X, y)
    with pytest.raises(ValueError, match="finite"):
        solve(np.where(X > 1, np.nan, X), y, "squared", Slope(0.1))


def test_estimators():
    X, y = data("squared", 60, 12)
    model = linear.SlopeRegression(0.1, weights="oscar", tol=1e-12).fit(X, y)
    fit = solve(X, y, "squared", Slope(0.1, "oscar"), tol=1e-12)
    np.testing.assert_array_equal(model.coef_, fit.coef)
    np.testing.assert_allclose(model.weights_, np.arange(12, 0, -1) / 12)
    pair = linear.GeneralizedLinear("squared", Slope(1.0, "oscar"), alpha=0.1, tol=1e-12)
    np.testing.assert_array_equal(pair.fit(X, y).coef_, fit.coef)
    labels = linear.GeneralizedLinearClassifier("logistic", "slope", alpha=0.05).fit(X, y > 0)
    assert labels.certificate_.reached
    assert labels.score(X, y > 0) > 0.8
    chosen = linear.SlopeRegressionCV(n_alphas=8, alpha_ratio=0.01, cv=3, q=0.2).fit(X, y)
    assert chosen.certificate_.reached
    assert chosen.score(X, y) > 0.8
    alone = linear.SlopeRegression(chosen.alpha_, q=0.2).fit(X, y)
    assert alone.objective_ == pytest.approx(chosen.objective_, rel=1e-5)
    found = linear.SlopeRegression().path(X, y, n_alphas=5)
    assert found.coefs.shape == (12, 5)
    assert not found.coefs[:, 0].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.arange(12.0)}, "must not increase"),
        ({"weights": [1.0, 0.5]}, "each of the 12 columns"),
        ({"weights": "steep"}, "'bh', 'oscar'"),
        ({"weights": [1.0, np.nan]}, "weights"),
        ({"q": 2.0}, "q must be strictly between"),
        ({"alpha": -1.0}, "alpha must be"),
    ],
)
def test_estimators_refuse_bad_parameters(options, message):
    X, y = data("squared")
    with pytest.raises(ValueError, match=message):
        linear.SlopeRegression(**options).fit(X, y)
