"""Tolerances that the precision cannot meet, and fits that end before they converge."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from cyclade.linear import GroupLasso, Lasso, MCPRegression, RobustRegression, solve
from cyclade.linear.penalties import L1


@pytest.fixture(scope="module")
def single():
    """More float32 entries than are worked on in float64, correlated."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 500)) + 2.0 * rng.standard_normal((600, 1))
    y = X[:, ::25] @ rng.standard_normal(20) + rng.standard_normal(600)
    lam_max = np.abs(X.T @ (y - y.mean())).max() / 600
    return X.astype(np.float32), y, lam_max


@pytest.mark.parametrize("part", [10, 100, 1000])
def test_a_tighter_tolerance_gives_no_worse_point(single, part):
    """Cycles below float32's rounding went on to the last pass, and away from the solution."""
    X, y, lam_max = single
    fits = [solve(X, y, "squared", L1(lam_max / part), tol=t) for t in (1e-6, 1e-8, 1e-12)]
    loose = fits[0]
    assert loose.certificate.reached
    for tight in fits[1:]:
        assert tight.certificate.value <= 1.01 * loose.certificate.value + 1e-15
        assert tight.objective <= loose.objective * (1.0 + 1e-7)
        assert tight.passes < 10_000


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_the_best_point_seen_is_returned(single):
    X, y, lam_max = single
    found = solve(X, y, "squared", L1(lam_max / 1000), tol=1e-17)
    assert not found.certificate.reached
    rounding = 1e-12 * found.objective  # of the coefficients, which are float32 as X is
    lowest = min(row["objective"] for row in found.history)
    assert found.objective == pytest.approx(lowest, abs=rounding, rel=0.0)
    assert found.certificate.value <= min(row["gap"] for row in found.history) + rounding


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_the_best_distance_is_returned():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((200, 40)), rng.standard_cauchy(200)
    for passes in range(1, 12):
        found = solve(X, y, "cauchy", L1(0.01), tol=1e-14, max_iter=passes)
        assert found.certificate.value == min(row["distance"] for row in found.history)


def test_estimators_warn_once_about_what_float32_cannot_meet(single):
    X, y, lam_max = single
    weights = np.linspace(0.5, 1.5, len(y))  # columns are copied in float32 then
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Lasso(lam_max / 100, tol=1e-12, precompute=False).fit(X, y, weights)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert not model.certificate_.reached
    default = Lasso(lam_max / 100).fit(X, y, weights)  # no warning, or it would be an error
    assert default.certificate_.reached
    assert model.objective_ <= default.objective_ * (1.0 + 1e-7)
    MCPRegression(lam_max / 10).fit(X, y)


def test_estimators_make_as_many_passes_as_solve():
    assert Lasso().max_iter == inspect.signature(solve).parameters["max_iter"].default


@pytest.mark.parametrize("kind", [Lasso, GroupLasso, RobustRegression])
def test_targets_and_weights_are_not_rounded_as_x_is(kind):
    """A float32 y of ten millions is rounded to whole numbers, weights of 1e-44 to a digit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)).astype(np.float32)
    y, weights = 1e7 + X[:, 0] + 0.1 * rng.standard_normal(200), rng.random(200)
    double = kind(0.01).fit(X.astype(np.float64), y, weights).coef_
    np.testing.assert_allclose(kind(0.01).fit(X, y, 1e-44 * weights).coef_, double, atol=1e-5)
