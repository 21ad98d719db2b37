"""Compressed least squares: the same loss at every point, the same fits."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import path
from cyclade.linear.losses import Squared
from cyclade.linear.penalties import L1, MCP, GroupL2, Slope, SparseGroup
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem, as_design
from cyclade.linear.products.shorter import shortened
from cyclade.linear.tuning import CostModel, Tuning

ALWAYS = Tuning(cost=CostModel(product=0.0))


def compress(X, y, s, fit_intercept):
    """The shorter table, its targets, the loss that is left, and what gives intercepts."""
    bound, design = bind(L1(1.0), X.shape[1]), as_design(X, tuning=ALWAYS)
    problem = Problem(design, y, s, np.zeros(y.size), Squared(), bound, fit_intercept, ALWAYS)
    found = shortened(problem, 10_000)
    if found is None:
        return None
    small, moments, constant = found
    return small.design.X, small.y, constant, moments


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shift", "order", "dtype", "rows"), [
    (0.0, "F", np.float64, 7), (1e6, "C", np.float64, 7), (3.0, "F", np.float32, 7),
    (0.0, "F", np.float64, 5),  # dependent columns leave fewer rows
])  # fmt: skip
def test_the_loss_is_the_same_at_every_point(fit_intercept, weighted, shift, order, dtype, rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 7)) @ rng.standard_normal((7, 7)) + shift * np.arange(7)
    if rows == 5:
        X[:, 5], X[:, 6] = X[:, 0] + X[:, 1], 0.0
    X = np.asarray(X, dtype, order=order)
    y = rng.standard_normal(400) + 5.0
    s = rng.random(400) if weighted else np.ones(400)
    s /= s.sum()
    R, t, constant, moments = compress(X, y, s, fit_intercept)
    assert R.shape == (rows, 7)

    def loss(x, c):
        return 0.5 * float(s @ (y - X.astype(float) @ x - c) ** 2)

    for _ in range(5):
        x = rng.standard_normal(7)
        c = moments.intercepts(x)
        assert fit_intercept or c == 0.0
        found = 0.5 * np.mean((t - R @ x) ** 2) + constant
        assert found == pytest.approx(loss(x, c), rel=1e-8 if shift > 1e3 else 1e-12)
        assert not fit_intercept or loss(x, c) <= loss(x, c + 1e-3)  # no other one is better


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "penalty",
    [GroupL2(1.0, 2), SparseGroup(1.0, 0.5, 2), Slope(1.0), MCP(1.0, 3.0), L1(1.0)],
    ids=repr,
)
def test_whole_paths_are_those_on_all_rows(penalty, fit_intercept):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 8)) @ rng.standard_normal((8, 8)) + 0.3 * np.arange(8)
    y, s = X[:, :3].sum(axis=1) + 3.0 * rng.standard_normal(2000), rng.random(2000)
    options = {"n_alphas": 12, "alpha_ratio": 0.02, "sample_weight": s, "tol": 1e-10}
    options |= {"fit_intercept": fit_intercept, "offset": rng.standard_normal(2000)}
    found = path(X, y, "squared", penalty, **options, tuning=Tuning(cost=CostModel(calls=-np.inf)))
    exact = path(X, y, "squared", penalty, **options, precompute=False)
    assert found.reached
    np.testing.assert_allclose(found.alphas, exact.alphas, rtol=1e-12)
    np.testing.assert_allclose(found.coefs, exact.coefs, atol=1e-5)
    np.testing.assert_allclose(found.intercepts, exact.intercepts, atol=1e-5)
    np.testing.assert_allclose(found.objectives, exact.objectives, rtol=1e-8)
    for a, b in zip(found.certificates, exact.certificates, strict=True):
        assert a.kind == b.kind
        assert a.tolerance == pytest.approx(b.tolerance, rel=1e-9)


def test_a_path_is_compressed_where_that_pays_and_nothing_overflows():
    def problem(n, p):
        y = np.empty(n)  # not read
        return Problem(as_design(np.empty((n, p))), y, y, y, Squared(), bind(L1(1.0), p), True)

    assert shortened(problem(80, 50), 100) is None  # not tall
    assert compress(np.full((20, 2), 1e200), np.ones(20), np.full(20, 0.05), False) is None
    assert shortened(problem(400, 100), 2) is None  # too few fits
