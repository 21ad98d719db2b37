"""The same problems solved by statsmodels: with an l1 norm, robust; others in `test_inference`."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, problem, value

from cyclade.linear import solve
from cyclade.linear.losses import Logistic, Poisson, Tukey
from cyclade.linear.penalties import Box, WeightedL1

sm = pytest.importorskip("statsmodels.api")

FREE = Box(-np.inf, np.inf)  # no penalty at all
ROWS = 200
FAMILIES = {
    "binomial": (Logistic(), "two", sm.families.Binomial()),
    "poisson": (Poisson(), "counts", sm.families.Poisson()),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_elastic_nets(family):
    loss, kind, theirs = FAMILIES[family]
    X, y = problem(kind, n=ROWS)
    target = (y > 0).astype(float) if kind == "two" else y
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
