"""Losses that bend in a narrow window are approached through wider ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import QuantileRegressor

from cyclade import linear
from cyclade.linear import limits, solve
from cyclade.linear.losses import Huber, Quantile
from cyclade.linear.penalties import L1, MCP, Box, GroupL2, Rows
from cyclade.linear.starts import softer
from cyclade.linear.tuning import Tuning

NONE = np.zeros(100)  # no offset


def data(n=100, p=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] - 2.0 * X[:, 1] + 0.5 * rng.standard_normal(n) + 3.0


@pytest.mark.parametrize("shape", [(100, 10), (60, 90)])
@pytest.mark.parametrize("form", [np.asarray, sp.csc_array])
def test_large_targets_under_the_default_huber_loss(shape, form):
    X, y = data(*shape)
    fit = solve(form(X), 1e6 * y, Huber(), L1(0.1), max_iter=20_000)
    assert fit.certificate.reached
    # so far out the loss is 1.345 times the absolute error, less 1.345²/2 at most
    exact = QuantileRegressor(quantile=0.5, alpha=0.1 / (2 * 1.345)).fit(X, y)
    u = y - X @ exact.coef_ - exact.intercept_
    least = 1e6 * (1.345 * np.abs(u).mean() + 0.1 * np.abs(exact.coef_).sum())
    assert least - 1.345**2 / 2 - 1e-6 * least <= fit.objective <= least * (1 + 1e-6)


@pytest.mark.parametrize("quantile", [0.5, 0.9])
@pytest.mark.parametrize("smoothing", [1e-3, 1e-5, 1e-7])
def test_quantiles_with_hardly_any_smoothing(quantile, smoothing):
    X, y = data()
    model = linear.QuantileRegression(0.05, quantile=quantile, smoothing=smoothing).fit(X, y)
    assert model.certificate_.reached
    exact = QuantileRegressor(quantile=quantile, alpha=0.05).fit(X, y)

    def check_loss(m):
        v = y - m.predict(X)
        return np.maximum(quantile * v, (quantile - 1) * v).mean() + 0.05 * abs(m.coef_).sum()

    assert -1e-9 <= check_loss(model) - check_loss(exact) <= smoothing / 4 + 1e-5


def test_paths_and_folds_with_hardly_any_smoothing():
    X, y = data()
    model = linear.GeneralizedLinearCV("huber", "l1", n_alphas=5, alpha_ratio=0.05, cv=3)
    model.fit(X, 1e6 * y)  # a fit that misses its tolerance would warn
    assert model.certificate_.reached
    path = linear.QuantileRegression(smoothing=1e-6).path(X, y, n_alphas=4, alpha_ratio=0.05)
    assert all(certificate.reached for certificate in path.certificates)
    assert not path.coefs[:, 0].any()


def test_groups_tasks_weights_and_offsets():
    X, y = data()
    rng = np.random.default_rng(1)
    options = {
        "sample_weight": rng.uniform(0.1, 1.0, 100),
        "offset": 1e6 * rng.standard_normal(100),
    }
    for penalty in (GroupL2(0.1, 2), L1(0.1), Box(-5e5, 5e5)):
        fit = solve(X, 1e6 * y, Huber(), penalty, max_iter=20_000, **options)
        assert fit.certificate.reached, penalty
    tasks = np.stack([y, y[::-1], X[:, 3]], axis=1)
    assert solve(X, 1e4 * tasks, Huber(), Rows(0.1), max_iter=20_000).certificate.reached


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_what_is_wide_enough_or_nonconvex_or_started_elsewhere_is_solved_at_once():
    X, y = data()
    assert softer(Huber(0.5), L1(0.1), y, NONE) == []
    assert softer(Quantile(0.5, 1e-6), MCP(0.1), y, NONE) == []
    assert softer(Quantile(0.5, 1e-6), L1(0.1), np.zeros(100), NONE) == []
    cold = solve(X, y, Quantile(0.5, 1e-5), L1(0.05))
    warm = solve(X, y, Quantile(0.5, 1e-5), L1(0.05), coef=cold.coef, intercept=cold.intercept)
    assert warm.passes == 0
    for most in (1, 2, 7):
        short = solve(X, y, Quantile(0.5, 1e-6), L1(0.01), max_iter=most)
        assert short.passes <= most
        assert not short.certificate.reached


@pytest.mark.parametrize("loss", [Huber(1e-3), Quantile(0.3, 1e-3)], ids=repr)
def test_wider_losses_come_down_to_the_loss(loss):
    rng = np.random.default_rng(0)
    y = 10.0 * rng.standard_normal(500)
    stages = softer(loss, L1(0.1), y, np.zeros(500))
    widths = [stage.width for stage in stages]
    assert (np.diff([*widths, loss.width]) < 0).all()
    assert widths[0] >= 0.3
    z = y + 100.0 * np.sign(rng.standard_normal(500))
    for stage in stages:
        # slopes far out are the same, so that the penalty means the same
        np.testing.assert_allclose(stage.gradient(y, z), loss.gradient(y, z), rtol=1e-12)
        near = y + 0.5 * stage.width * rng.standard_normal(500)
        u = stage.gradient(y, near)
        np.testing.assert_allclose(
            stage.conjugate(y, u), u * near - stage.value(y, near), atol=1e-9
        )  # Fenchel and Young, with equality at a gradient
        h = 1e-6 * stage.width
        slope = (stage.value(y, near + h) - stage.value(y, near - h)) / (2 * h)
        np.testing.assert_allclose(u, slope, atol=1e-4 * np.abs(u).max())
        assert (stage.curvature(y, near) <= stage.bound * (1 + 1e-12)).all()
        assert (stage.majoriser(y, near) <= stage.bound * (1 + 1e-12)).all()


def test_stages_are_few_however_narrow_the_loss():
    assert len(softer(Quantile(0.5, 1e-300), L1(0.1), np.arange(100.0), NONE)) <= limits.STEPS


def in_single_precision():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 500)).astype(np.float32)
    return X, X[:, :3].sum(axis=1) + rng.standard_normal(600).astype(np.float32)


@pytest.mark.parametrize(
    ("form", "smoothing"),
    [(np.asfortranarray, 0.1), (np.asfortranarray, 0.01), (sp.csc_array, 0.1)],
)
def test_large_tables_in_single_precision_end_with_a_certificate(form, smoothing):
    """Rounding of a float32 X kept the cycles on one working set busy for ever."""
    X, y = in_single_precision()
    fit = solve(form(X), y, Quantile(0.5, smoothing), L1(0.01), max_iter=20_000)
    assert fit.certificate.reached
    assert fit.coef.dtype == np.float32


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_what_single_precision_cannot_reach_is_given_up():
    tuning = Tuning(huge=0)  # else so small an X is worked on in float64
    X, y = in_single_precision()
    exact = solve(X.astype(float), y, Quantile(0.5, 0.1), L1(0.03))
    fit = solve(X, y, Quantile(0.5, 0.1), L1(0.03), tol=1e-9, max_iter=100_000, tuning=tuning)
    assert fit.passes < 100_000
    assert fit.objective == pytest.approx(exact.objective, rel=1e-5)
