"""The same problems solved by statsmodels: without penalty, with an elastic net, robust."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, problem, value

from cyclade.linear import solve
from cyclade.linear.losses import Gamma, Huber, Logistic, Poisson, Quantile, Squared, Tukey
from cyclade.linear.penalties import Box, WeightedL1

sm = pytest.importorskip("statsmodels.api")

FREE = Box(-np.inf, np.inf)  # no penalty at all
ROWS = 200


def families():
    f = sm.families
    return {
        "gaussian": (Squared(), "real", f.Gaussian()),
        "binomial": (Logistic(), "two", f.Binomial()),
        "poisson": (Poisson(), "counts", f.Poisson()),
        "gamma": (Gamma(), "amounts", f.Gamma(link=f.links.Log())),
    }


def as_glm(kind, y):
    return (y > 0).astype(float) if kind == "two" else y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "gamma"])
def test_models_without_penalty(family, weighted):
    loss, kind, theirs = families()[family]
    X, y = problem(kind, n=ROWS)
    rng = np.random.default_rng(1)
    s = rng.integers(1, 4, ROWS).astype(float) if weighted else None
    offset = 0.2 * rng.standard_normal(ROWS) if weighted else None
    glm = sm.GLM(as_glm(kind, y), sm.add_constant(X), theirs, freq_weights=s, offset=offset)
    found = glm.fit(tol=1e-14, maxiter=200).params
    agree(X, y, loss, FREE, found[1:], found[0], sample_weight=s, offset=offset, atol=1e-6)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_elastic_nets(family):
    loss, kind, theirs = families()[family]
    X, y = problem(kind, n=ROWS)
    factors = np.linspace(0.01, 0.08, X.shape[1])
    glm = sm.GLM(as_glm(kind, y), sm.add_constant(X), theirs)
    found = glm.fit_regularized(
        alpha=np.r_[0.0, factors], L1_wt=1.0, maxiter=2000, cnvrg_tol=1e-13, zero_tol=1e-12
    ).params
    agree(X, y, loss, WeightedL1(1.0, factors), found[1:], found[0], atol=1e-5)


@pytest.mark.parametrize("loss", ["huber", "tukey"])
def test_robust_regression_at_its_first_scale(loss):
    X, y = problem("real", n=ROWS)
    y[:20] += 15.0
    norm = sm.robust.norms.HuberT(1.345) if loss == "huber" else sm.robust.norms.TukeyBiweight()
    model = sm.RLM(y, sm.add_constant(X), M=norm)
    fit = model.fit(update_scale=False, tol=1e-13, maxiter=1000)
    found, scale = fit.params, fit.scale
    ours = Huber(1.345 * scale) if loss == "huber" else Tukey(4.685 * scale)
    if loss == "huber":
        agree(X, y, ours, FREE, found[1:], found[0], atol=1e-6)
        return
    # Nonconvex: theirs is stationary for ours too, and from there ours does not move.
    u = ours.gradient(y, X @ found[1:] + found[0])
    slopes = np.append(X.T @ u, u.sum()) / ROWS
    assert np.abs(slopes).max() < 1e-9
    near = solve(X, y, ours, FREE, coef=found[1:] + 1e-3, intercept=found[0], tol=1e-10)
    assert near.certificate.reached
    np.testing.assert_allclose(near.coef, found[1:], atol=1e-6)
    cold = solve(X, y, ours, FREE, tol=1e-10)
    assert cold.certificate.reached
    assert cold.objective <= value(X, y, ours, FREE, found[1:], found[0]) * (1 + 1e-8)


def test_median_regression_up_to_the_smoothing():
    X, y = problem("real", n=ROWS)
    found = sm.QuantReg(y, sm.add_constant(X)).fit(q=0.5, p_tol=1e-10, max_iter=10_000).params
    h = 0.01
    ours = solve(X, y, Quantile(0.5, h), FREE, tol=1e-8)
    assert ours.certificate.reached

    def check_loss(coef, intercept):
        return 0.5 * np.abs(y - X @ coef - intercept).mean()

    # The smoothed loss lies above the check loss, by h/4 at most; theirs is optimal only roughly.
    theirs = check_loss(found[1:], found[0])
    assert check_loss(ours.coef, ours.intercept) <= theirs + h / 4
    assert theirs <= check_loss(ours.coef, ours.intercept) * (1 + 1e-4)
