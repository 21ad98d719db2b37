"""More columns than rows, and columns without penalty: Newton steps must end what cycles cannot."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_regression, make_sparse_uncorrelated

from cyclade.linear import QuantileRegression, solve
from cyclade.linear.penalties import Box, ElasticNet, WeightedL1

rng = np.random.default_rng(3)
X = rng.standard_normal((30, 200)) + rng.standard_normal((30, 1))
y = X[:, :3].sum(axis=1) + 0.5 * rng.standard_normal(30) + 2.0


@pytest.mark.parametrize("l1_ratio", [0.0, 0.01, 0.1, 1.0])
def test_elastic_nets_with_more_columns_than_rows_end_soon(l1_ratio):
    fit = solve(X, y, "squared", ElasticNet(1e-3, l1_ratio), tol=1e-9, max_iter=3000)
    assert fit.certificate.reached
    gradient = X.T @ (X @ fit.coef + fit.intercept - y) / len(y) + 1e-3 * (1 - l1_ratio) * fit.coef
    off = np.where(
        fit.coef == 0,
        np.maximum(np.abs(gradient) - 1e-3 * l1_ratio, 0.0),
        np.abs(gradient + 1e-3 * l1_ratio * np.sign(fit.coef)),
    )
    assert off.max() < 1e-5


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_poisson_ridge_with_more_columns_than_rows_ends_soon(lam):
    counts = np.random.default_rng(0).poisson(200 * np.exp(np.clip(0.3 * X[:, 0], -3, 3)))
    fit = solve(0.3 * X, counts, "poisson", ElasticNet(lam, 0.0), tol=1e-9, max_iter=3000)
    assert fit.certificate.reached
    mean = np.exp(0.3 * X @ fit.coef + fit.intercept)
    np.testing.assert_allclose(0.3 * X.T @ (mean - counts) / 30 + lam * fit.coef, 0.0, atol=1e-4)


def test_dependent_columns_without_penalty_end_soon():
    far = np.random.default_rng(1).standard_normal((80, 20)) + 30.0  # nearly dependent, uncentred
    labels = np.where(far[:, 0] + far[:, 1] - 2 * far[:, 2] + far[:, 3] - far[:, 4] > 0, 1.0, -1.0)
    labels[::5] *= -1.0
    weights = np.r_[np.zeros(5), np.ones(15)]
    fit = solve(
        far, labels, "logistic", WeightedL1(0.01, weights), fit_intercept=False, max_iter=1000
    )
    assert fit.certificate.reached
    slopes = far.T @ (-labels / (1.0 + np.exp(labels * (far @ fit.coef)))) / 80
    assert np.abs(slopes[:5]).max() < 1e-6


def test_a_wide_box_is_no_penalty():
    target = X[:, :20] @ np.linspace(-1, 1, 20) + 1.0
    fit = solve(X[:, :20] + 30.0, target, "squared", Box(-50.0, 50.0), max_iter=2000)
    assert fit.certificate.reached
    np.testing.assert_allclose((X[:, :20] + 30.0) @ fit.coef + fit.intercept, target, atol=1e-2)


@pytest.mark.parametrize("seed", range(5))
def test_small_float32_tables_reach_their_certificate(seed: int) -> None:
    """In single precision the smoothed quantile loss stalled above its gap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 12)).astype(np.float32)
    y = X[:, :3].sum(axis=1) + rng.standard_normal(60).astype(np.float32)
    model = QuantileRegression(alpha=0.01).fit(X, y)
    assert model.certificate_.reached
    assert model.coef_.dtype == np.float32


@pytest.mark.parametrize("name", ["mcp", "scad"])
def test_classes_far_apart_under_a_bounded_penalty_end_soon(name):
    """Cycles leapt to zero, where a model with tiny φ'' ends; small steps between took seconds."""
    X = np.random.default_rng(0).standard_normal((60, 6))
    found = solve(X, np.where(X[:, 0] > 0, 1.0, -1.0), "logistic", name, alpha=0.02, tol=1e-10)
    assert found.certificate.reached
    assert found.passes < 1000
    assert np.flatnonzero(found.coef).tolist() == [0]


@pytest.mark.parametrize("loss", ["logistic", "cauchy", "multinomial"])
def test_distances_do_not_depend_on_the_units_of_x(loss):
    """The slope in the intercept has none of them: its rounding is no part of λ, however small."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    z = X[:, 0] + rng.standard_normal(60)
    y = {"logistic": np.sign(z), "cauchy": z + 5.0, "multinomial": (z > 0) + (z > 1)}[loss]
    y, penalty = y.astype(int) if loss == "multinomial" else y, "l1" if loss == "cauchy" else "mcp"
    for unit in (1.0, 1e-12):
        found = solve(unit * X, y, loss, penalty, alpha=0.02 * unit, tol=1e-8)
        assert found.certificate.reached


@pytest.mark.parametrize("part", [300, 1000, 10_000])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_supports_of_more_columns_than_rows_get_smaller(part, fit_intercept):
    """On a support above the rank no Newton step was made, and cycles crept to the last pass."""
    X, y = make_regression(100, 2000, n_informative=20, noise=5, random_state=0, effective_rank=30)
    lam_max = np.abs(X.T @ (y - y.mean() * fit_intercept)).max() / 100
    found = solve(X, y, alpha=lam_max / part, fit_intercept=fit_intercept, max_iter=3000)
    assert found.certificate.reached


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_newton_steps_go_on_where_f_is_rounded(fit_intercept):
    """They ended where F fell by rounding alone, and cycles had to bring slopes to the goal."""
    X, y = make_sparse_uncorrelated(300, 800, random_state=0)
    mean = np.exp(np.clip((y - y.mean()) / y.std(), -2, 2))
    counts = np.random.default_rng(0).poisson(mean)
    lam = 0.001 * np.abs(X.T @ (counts - counts.mean())).max() / 300
    found = solve(
        X, counts, "poisson", ElasticNet(lam, 0.0), fit_intercept=fit_intercept, tol=1e-9,
        max_iter=20_000,
    )  # fmt: skip
    assert found.certificate.reached
    assert found.passes < 10_000
