"""The same problems solved by statsmodels: without penalty, with an elastic net, robust."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, problem, value

from cyclade.linear import solve
from cyclade.linear.distributions import Binomial, ComplementaryLogLog, NegativeBinomial, Probit
from cyclade.linear.losses import Gamma, Logistic, Poisson, Squared, Tukey
from cyclade.linear.penalties import Box, WeightedL1

sm = pytest.importorskip("statsmodels.api")

FREE = Box(-np.inf, np.inf)  # no penalty at all
ROWS = 200


f = sm.families
FAMILIES = {
    "gaussian": (Squared(), "real", f.Gaussian()),
    "binomial": (Logistic(), "two", f.Binomial()),
    "poisson": (Poisson(), "counts", f.Poisson()),
    "gamma": (Gamma(), "amounts", f.Gamma(link=f.links.Log())),
    "negative binomial": (
        NegativeBinomial(0.7), "counts", f.NegativeBinomial(f.links.Log(), alpha=0.7),
    ),
    "shares": (Binomial(), "two", f.Binomial()),
    "probit": (Probit(), "two", f.Binomial(f.links.Probit())),
    "cloglog": (ComplementaryLogLog(), "two", f.Binomial(f.links.CLogLog())),
}  # fmt: skip


def draw(family):
    """X, targets as our loss takes them, and as theirs does."""
    loss, kind, _ = FAMILIES[family]
    X, y = problem(kind, n=ROWS)
    theirs = (y > 0).astype(float) if kind == "two" else y
    return X, theirs if loss.target == "real" else y, theirs


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_models_without_penalty(family, weighted):
    loss, _, theirs = FAMILIES[family]
    X, y, target = draw(family)
    rng = np.random.default_rng(1)
    s = rng.integers(1, 4, ROWS).astype(float) if weighted else None
    offset = 0.2 * rng.standard_normal(ROWS) if weighted else None
    glm = sm.GLM(target, sm.add_constant(X), theirs, freq_weights=s, offset=offset)
    found = glm.fit(tol=1e-14, maxiter=200).params
    agree(X, y, loss, FREE, found[1:], found[0], sample_weight=s, offset=offset, atol=1e-6)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_elastic_nets(family):
    loss, _, theirs = FAMILIES[family]
    X, y, target = draw(family)
    factors = np.linspace(0.01, 0.08, X.shape[1])
    glm = sm.GLM(target, sm.add_constant(X), theirs)
    found = glm.fit_regularized(
        alpha=np.r_[0.0, factors], L1_wt=1.0, maxiter=2000, cnvrg_tol=1e-13, zero_tol=1e-12
    ).params
    agree(X, y, loss, WeightedL1(1.0, factors), found[1:], found[0], atol=1e-5)


def test_robust_regression_at_its_first_scale():
    X, y = problem("real", n=ROWS)
    y[:20] += 15.0
    model = sm.RLM(y, sm.add_constant(X), M=sm.robust.norms.TukeyBiweight())
    fit = model.fit(update_scale=False, tol=1e-13, maxiter=1000)
    found, ours = fit.params, Tukey(4.685 * fit.scale)
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
