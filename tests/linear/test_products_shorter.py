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


def tall(rng, n=400, p=7, shift=0.0, dtype=np.float64, order="F"):
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + shift * np.arange(p)
    return np.asarray(X, dtype, order=order)


def loss(X, y, s, x, c):
    return 0.5 * float(s @ (y - X @ x - c) ** 2)


def compress(X, y, s, fit_intercept):
    """The shorter table, its targets, the loss that is left, and what gives intercepts."""
    bound = bind(L1(1.0), X.shape[1])
    design = as_design(X, tuning=ALWAYS)
    found = shortened(
        Problem(design, y, s, np.zeros(y.size), Squared(), bound, fit_intercept, ALWAYS), 10_000
    )
    if found is None:
        return None
    small, moments, constant = found
    return small.design.X, small.y, constant, moments


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shift", "order", "dtype"), [
    (0.0, "F", np.float64), (1e6, "C", np.float64), (3.0, "F", np.float32),
])  # fmt: skip
def test_the_loss_is_the_same_at_every_point(fit_intercept, weighted, shift, order, dtype):
    rng = np.random.default_rng(0)
    X = tall(rng, shift=shift, order=order, dtype=dtype)
    y = rng.standard_normal(400) + 5.0
    s = rng.random(400) if weighted else np.ones(400)
    s /= s.sum()
    R, t, constant, moments = compress(X, y, s, fit_intercept)
    assert R.shape == (7, 7)
    for _ in range(5):
        x = rng.standard_normal(7)
        c = moments.intercepts(x)
        assert fit_intercept or c == 0.0
        found = 0.5 * np.mean((t - R @ x) ** 2) + constant
        exact = loss(X.astype(float), y, s, x, c)
        scale = 1e-8 if shift > 1e3 else 1e-12
        assert found == pytest.approx(exact, rel=scale)
        if fit_intercept:  # no other intercept is better
            assert exact <= loss(X.astype(float), y, s, x, c + 1e-3)


def test_dependent_columns_leave_fewer_rows():
    rng = np.random.default_rng(1)
    X = tall(rng, p=4)
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.zeros(400)])
    y = rng.standard_normal(400)
    R, t, constant, moments = compress(X, y, np.full(400, 1 / 400), True)
    assert R.shape == (4, 6)
    x = rng.standard_normal(6)
    found = 0.5 * np.mean((t - R @ x) ** 2) + constant
    exact = loss(X, y, np.full(400, 1 / 400), x, moments.intercepts(x))
    assert found == pytest.approx(exact, rel=1e-12)


def test_nothing_is_compressed_where_numbers_overflow():
    X = np.full((20, 2), 1e200)
    assert compress(X, np.ones(20), np.full(20, 0.05), False) is None


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "penalty",
    [GroupL2(1.0, 2), SparseGroup(1.0, 0.5, 2), Slope(1.0), MCP(1.0, 3.0), L1(1.0)],
    ids=repr,
)
def test_whole_paths_are_those_on_all_rows(penalty, fit_intercept):
    rng = np.random.default_rng(2)
    X = tall(rng, n=2000, p=8, shift=0.3)
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


def test_a_path_is_compressed_where_that_pays():
    def problem(n, p):
        y = np.empty(n)  # not read
        return Problem(as_design(np.empty((n, p))), y, y, y, Squared(), bind(L1(1.0), p), True)

    assert shortened(problem(80, 50), 100) is None  # not tall
    assert shortened(problem(400, 100), 2) is None  # too few fits
