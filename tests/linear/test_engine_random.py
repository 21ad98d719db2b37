"""Random problems, degenerate columns included: optimality conditions and equal formulations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cyclade.linear import path, solve
from cyclade.linear.losses import (
    Cauchy,
    Gamma,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    Tukey,
)
from cyclade.linear.penalties import L1, MCP, SCAD, ElasticNet, LogSum

CONVEX = [Squared(), Logistic(), Poisson(), Gamma(), Huber(0.5), Quantile(0.4, 0.3), SquaredHinge()]
ROBUST = [Cauchy(1.0), Tukey(4.0)]
CONVEX_PENALTIES = [
    L1(0.05), L1(0.05, positive=True), ElasticNet(0.05, 0.5),
]  # fmt: skip
NONCONVEX_PENALTIES = [MCP(0.1), SCAD(0.1), LogSum(0.05, 0.5)]
STORAGES = [np.ascontiguousarray, np.asfortranarray, sp.csc_array, sp.csr_array]

problems = given(
    seed=st.integers(0, 10_000),
    n=st.integers(4, 40),
    p=st.integers(1, 60),
    which=st.integers(0, 100),
    intercept=st.booleans(),
)


def draw(loss, seed, n, p):
    """X with zero, constant and repeated columns now and then; y; weights; an offset."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.uniform(0.0, 1.0) * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.3] = 0.0
    fate = rng.integers(0, 8, p)
    X[:, fate == 0], X[:, fate == 1] = 0.0, 1.0
    X[:, fate == 2] = X[:, [0]]
    z = X[:, 0] - 0.5 * X[:, p // 2] + 0.5 * rng.standard_normal(n)
    if loss.target == "signs":
        y = np.where(z > np.median(z), 1.0, -1.0)
        y[0], y[-1] = 1.0, -1.0
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(0.5 * z)) + 1.0
    elif isinstance(loss, Gamma):
        y = np.exp(0.5 * z)
    else:
        y = z + 1.0
    return X, y, rng.uniform(0.2, 2.0, n), 0.2 * rng.standard_normal(n)


def distance(X, y, s, b, loss, penalty, fit, intercept):
    """dist(∂F, 0), from the definitions."""
    u = s / s.sum() * loss.gradient(y, X @ fit.coef + fit.intercept + b)
    g = X.T @ u
    worst = max(
        penalty.distance(float(x), float(v), j)
        for j, (x, v) in enumerate(zip(fit.coef, g, strict=True))
    )
    return max(worst, abs(u.sum()) if intercept else 0.0)


@settings(max_examples=40, deadline=None)
@problems
def test_convex_problems(seed, n, p, which, intercept):
    loss = CONVEX[which % len(CONVEX)]
    penalty = CONVEX_PENALTIES[which % len(CONVEX_PENALTIES)]
    X, y, s, b = draw(loss, seed, n, p)
    options = {
        "sample_weight": s,
        "offset": b,
        "fit_intercept": intercept,
        "tol": 1e-10,
        "max_iter": 20_000,
    }
    fit = solve(X, y, loss, penalty, **options)
    assert fit.certificate.reached
    assert distance(X, y, s, b, loss, penalty, fit, intercept) < 1e-4
    apart = 1.001 * fit.certificate.tolerance + 1e-14  # gaps bound what is left of either
    stored = solve(STORAGES[seed % 4](X), y, loss, penalty, **options)
    assert stored.objective == pytest.approx(fit.objective, rel=0, abs=apart)
    start = np.random.default_rng(seed).uniform(0.0, 0.3, p)
    warm = solve(X, y, loss, penalty, coef=start, **options)
    assert warm.objective == pytest.approx(fit.objective, rel=0, abs=apart)
    along = path(X, y, loss, penalty, alphas=[0.3, 0.1, 0.05], **options)
    assert along.reached
    assert along.objectives[-1] == pytest.approx(fit.objective, rel=0, abs=apart)


@settings(max_examples=30, deadline=None)
@problems
def test_nonconvex_problems(seed, n, p, which, intercept):
    loss = [*CONVEX, *ROBUST][which % 9]
    choices = NONCONVEX_PENALTIES if loss.convex else [*NONCONVEX_PENALTIES, *CONVEX_PENALTIES]
    if isinstance(loss, Logistic):
        choices = [LogSum(0.05, 0.5)]  # with a bounded r, separable labels have no minimum
    penalty = choices[which % len(choices)]
    X, y, s, b = draw(loss, seed, n, p)
    options = {
        "sample_weight": s,
        "offset": b,
        "fit_intercept": intercept,
        "tol": 1e-8,
        "max_iter": 20_000,
    }
    for storage in (np.asarray, STORAGES[seed % 4]):
        fit = solve(storage(X), y, loss, penalty, **options)
        assert fit.certificate.kind == "distance"
        assert fit.certificate.reached
        assert distance(X, y, s, b, loss, penalty, fit, intercept) < 1e-8


@settings(max_examples=20, deadline=None)
@problems
def test_weights_are_repetition_and_float32_is_sane(seed, n, p, which, intercept):
    loss = CONVEX[which % len(CONVEX)]
    X, y, _, b = draw(loss, seed, n, p)
    times = np.random.default_rng(seed).integers(1, 4, n)
    options = {"fit_intercept": intercept, "tol": 1e-10, "max_iter": 20_000}
    one = solve(X, y, loss, L1(0.05), sample_weight=times, offset=b, **options)
    rows = np.repeat(np.arange(n), times)
    two = solve(X[rows], y[rows], loss, L1(0.05), offset=b[rows], **options)
    assert one.objective == pytest.approx(two.objective, rel=1e-9, abs=1e-11)
    single = solve(
        X.astype(np.float32), y, loss, L1(0.05), sample_weight=times, offset=b,
        fit_intercept=intercept, tol=1e-6,
    )  # fmt: skip
    assert single.certificate.reached
    assert single.objective == pytest.approx(one.objective, rel=1e-4, abs=1e-4)
