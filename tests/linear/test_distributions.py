"""Further distributions and links: against their definitions, statsmodels and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import TweedieRegressor

from cyclade.linear import (
    GeneralizedLinear,
    GeneralizedLinearClassifier,
    losses,
    penalties,
    solve,
)

ALL = [
    losses.get("tweedie", power=1.0), losses.get("tweedie", power=1.4),
    losses.get("tweedie", power=2.0), losses.get("negative_binomial", dispersion=0.7),
    losses.get("inverse_gaussian"), losses.get("binomial"), losses.get("probit"),
    losses.get("cloglog"),
]  # fmt: skip
NAMED = {"ids": repr}


def draw(loss, rng, n, spread=1.0):
    """X, and y from the distribution."""
    X = rng.standard_normal((n, 6))
    z = spread * (0.4 * X[:, 0] - 0.3 * X[:, 1] + 0.1)
    mean = loss.mean(z)
    if loss.target == "signs":
        return X, np.where(rng.random(n) < mean, 1.0, -1.0)
    draws = {
        "Tweedie": lambda: rng.gamma(2.0, mean / 2.0) * (1.0 if loss.power == 2.0 else
                                                         rng.random(n) < 0.8),
        "NegativeBinomial": lambda: rng.poisson(mean * rng.gamma(1 / 0.7, 0.7, n)).astype(float),
        "InverseGaussian": lambda: rng.wald(mean, 4.0),
        "Binomial": lambda: rng.binomial(8, mean) / 8.0,
    }  # fmt: skip
    return X, draws[type(loss).__name__]()


@pytest.mark.parametrize("loss", ALL, **NAMED)
@pytest.mark.parametrize("z", [-700.0, -60.0, -1e-9, 0.0, 5.0])
def test_far_predictions_stay_finite(loss, z):
    y = np.array([1.0]) if loss.target == "signs" or loss.check(np.ones(1)) is None else None
    for found in (loss.value(y, np.array([z])), loss.gradient(y, np.array([z])),
                  loss.curvature(y, np.array([z]))):  # fmt: skip
        growing = z < -60.0 and type(loss).__name__ in ("Tweedie", "InverseGaussian")
        assert growing or np.isfinite(found).all()


@settings(max_examples=15, deadline=None)
@given(which=st.integers(0, len(ALL) - 1), seed=st.integers(0, 999), share=st.floats(0.02, 0.5))
def test_fits_are_stationary(which, seed, share):
    loss = ALL[which]
    X, y = draw(loss, np.random.default_rng(seed), 120)
    if np.ptp(y) == 0:
        return
    null = solve(X, y, loss, alpha=1e3)
    lam = share * np.abs(X.T @ loss.gradient(y, np.full(120, null.intercept))).max() / 120
    fit = solve(X, y, loss, alpha=lam, tol=1e-7)
    g = X.T @ loss.gradient(y, X @ fit.coef + fit.intercept) / 120
    far = [penalties.L1(lam).distance(x, gj, 0) for x, gj in zip(fit.coef, g, strict=True)]
    assert fit.certificate.reached
    assert max(far) <= 1e-3 * lam
    slope = loss.gradient(y, X @ fit.coef + fit.intercept).mean()
    assert abs(slope) <= 1e-6


@pytest.mark.parametrize("power", [1.0, 1.3, 1.9, 2.0, 3.0])
def test_powers_agree_with_scikit_learn(power):
    loss = losses.get("tweedie", power=power) if power < 3.0 else losses.get("inverse_gaussian")
    X, y = draw(loss, np.random.default_rng(1), 300)
    peer = TweedieRegressor(power=power, alpha=0.1, link="log", tol=1e-8, max_iter=5000).fit(X, y)
    own = solve(X, y, loss, penalties.ElasticNet(0.1, 0.0), tol=1e-8)
    np.testing.assert_allclose(own.coef, peer.coef_, atol=2e-5)


def test_estimators_take_them_by_name():
    rng = np.random.default_rng(5)
    X, y = draw(losses.get("tweedie", power=1.5), rng, 200)
    model = GeneralizedLinear("tweedie", "l1").fit(X, y)
    assert (model.predict(X) > 0).all()
    labels = np.where(X[:, 0] + 0.3 * rng.standard_normal(200) > 0, "yes", "no")
    for name in ("probit", "cloglog"):
        model = GeneralizedLinearClassifier(name, "mcp", alpha=0.05).fit(X, labels)
        assert model.score(X, labels) > 0.85
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="did you mean 'tweedie'"):
        GeneralizedLinear("tweedy").fit(X, y)
