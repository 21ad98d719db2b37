"""Paths: equal to single fits, decreasing in λ, warm from one to the next."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, path, solve
from cyclade.linear.penalties import L1, MCP, ElasticNet
from cyclade.linear.tuning import CostModel, Tuning

ENGINE = Tuning(cost=CostModel(calls=-np.inf))  # small tables have a way of their own


def data(kind="squared", n=60, p=80):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    y = X[:, :4].sum(axis=1) + 0.5 * rng.standard_normal(n)
    if kind == "poisson":
        return X, rng.poisson(np.exp(0.3 * y)).astype(float)
    return X, y if kind in ("squared", "huber") else np.where(y > 0, 1.0, -1.0)


@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "squared_hinge", "huber"])
@pytest.mark.parametrize("penalty", [L1(1.0), ElasticNet(1.0, 0.7)], ids=repr)
@pytest.mark.parametrize("tuning", [None, ENGINE], ids=["default", "engine"])
def test_a_path_equals_single_fits(storage, loss, penalty, tuning):
    X, y = data(loss)
    rng, phi = np.random.default_rng(1), losses.get(loss)
    s, b = rng.uniform(0.5, 2.0, 60), 0.1 * rng.standard_normal(60)
    options = {"sample_weight": s, "offset": b, "fit_intercept": isinstance(penalty, ElasticNet)}
    found = path(
        storage(X), y, loss, penalty, n_alphas=25, alpha_ratio=0.05, tol=1e-10, tuning=tuning,
        **options,
    )  # fmt: skip
    assert found.reached
    assert found.coefs.shape == (80, 25)
    assert (np.diff(found.alphas) < 0).all()
    assert not found.coefs[:, 0].any()
    for k in (1, 12, 24):
        r, x = penalty.scaled(found.alphas[k]), found.coefs[:, k]
        u = s / s.sum() * phi.gradient(y, X @ x + found.intercepts[k] + b)
        away = [r.distance(*at, 0) for at in zip(x, X.T @ u, strict=True)]
        assert max(away) < 1e-3 * r.lam
        single = solve(X, y, loss, r, **options, tol=1e-11)
        assert found.objectives[k] == pytest.approx(single.objective, rel=1e-8)
        np.testing.assert_allclose(x, single.coef, atol=1e-3)


def test_a_path_gives_each_solution():
    X, y = data()
    found = path(X, y, n_alphas=4, alpha_ratio=0.1)
    last = found.at(3)
    np.testing.assert_array_equal(last.coef, found.coefs[:, 3])
    assert (last.intercept, last.objective) == (found.intercepts[3], found.objectives[3])
    assert last.certificate is found.certificates[3]
    assert last.passes == found.passes.sum()


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
def test_lams_are_put_in_order_and_certified_one_by_one():
    X, y = data()
    found = path(X, y, alphas=[0.05, 0.5, 0.1])
    np.testing.assert_array_equal(found.alphas, [0.5, 0.1, 0.05])
    assert [c.kind for c in found.certificates] == ["gap"] * 3
    short = path(X, y, alphas=[1e-5], tol=1e-12, max_iter=2)
    assert not short.reached


def test_a_nonconvex_path_is_stationary_everywhere():
    X, y = data()
    found = path(X, y, "squared", MCP(1.0), n_alphas=6, alpha_ratio=0.05, tol=1e-8)
    assert found.reached
    assert all(c.kind == "distance" for c in found.certificates)


def test_starts_reach_the_solver_and_are_left_alone():
    X, y = data()
    start = 0.1 * np.ones(80)
    found = path(X, y, alphas=[0.1], coef=start, intercept=1.0, tol=1e-10)
    single = solve(X, y, "squared", L1(0.1), tol=1e-10)
    assert found.objectives[0] == pytest.approx(single.objective, rel=1e-8)
    np.testing.assert_array_equal(start, 0.1 * np.ones(80))


@pytest.mark.parametrize("penalty", [L1(1.0), ElasticNet(1.0, 0.7), MCP(1.0, 3.0)], ids=repr)
def test_a_path_of_least_squares_is_near_stationary_whatever_the_tolerance(penalty):
    X, y = data()
    found = path(X, y, "squared", penalty, n_alphas=25, alpha_ratio=0.05, tol=0.1)
    for k, lam in enumerate(found.alphas):
        r, x = penalty.scaled(lam), found.coefs[:, k]
        g = X.T @ (X @ x + found.intercepts[k] - y) / len(y)
        assert max(r.distance(*at, 0) for at in zip(x, g, strict=True)) < 0.05 * lam
