"""Pivots: the factor follows the support, and the corner they end at is the minimum."""

import numba
import numpy as np
import pytest
from pivots_twin import literal_pivots
from scipy.linalg import cholesky, solve_triangular

from cyclade.linear import solve
from cyclade.linear.kernels.linalg import append, remove
from cyclade.linear.kernels.pivots import pivots
from cyclade.linear.losses import Cauchy
from cyclade.linear.penalties import L1
from cyclade.linear.subproblem.active_set import ActiveSetNewton


def products(seed, n, m):
    """G and b of m columns and n rows: b has to lie in the range of G, or there is no minimum."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    return A @ A.T / n, A @ rng.standard_normal(n) / np.sqrt(n)


@numba.njit
def taken_out(L, S, k, q, y):
    """`remove` is for kernels only."""
    remove(L, S, k, q, y)


@numba.njit
def put_in(L, G, S, k, j):
    """`append` too."""
    return append(L, G, S, k, j)


@pytest.mark.parametrize("place", [0, 3, 8, 13])
def test_the_factor_follows_columns_in_and_out(place):
    G, _ = products(0, 30, 20)
    S = np.random.default_rng(1).permutation(20)
    L = np.full((20, 20), np.nan)
    L[:14, :14] = cholesky(G[np.ix_(S[:14], S[:14])], lower=True)
    v = np.random.default_rng(2).standard_normal(14)
    y = solve_triangular(L[:14, :14], v, lower=True)
    taken_out(L, S, 14, place, y)
    left = S[:13].copy()
    np.testing.assert_allclose(np.tril(L[:13, :13]) @ y[:13], np.delete(v, place), atol=1e-12)
    np.testing.assert_allclose(
        np.tril(L[:13, :13]), cholesky(G[np.ix_(left, left)], lower=True), atol=1e-12
    )
    assert put_in(L, G, S, 13, 19)
    S[13] = 19
    np.testing.assert_allclose(
        np.tril(L[:14, :14]) @ np.tril(L[:14, :14]).T, G[np.ix_(S[:14], S[:14])], atol=1e-12
    )


def run(G, b, lam, x, most=1_000):
    m, S = len(b), np.flatnonzero(x)
    L, order = np.zeros((m, m)), np.zeros(m, np.int64)
    L[: S.size, : S.size] = cholesky(G[np.ix_(S, S)], lower=True) if S.size else 0.0
    order[: S.size] = S
    x, c = x.copy(), b - G @ x
    done, k, kept_out = pivots(G, c, x, lam, L, order, S.size, most, 1e-10)
    assert k == np.count_nonzero(x)
    assert kept_out == 0
    np.testing.assert_allclose(c, b - G @ x, atol=1e-9)
    return x, c, done


@pytest.mark.parametrize(("n", "m"), [(60, 40), (25, 40)])
@pytest.mark.parametrize("warm", [False, True])
def test_pivots_end_at_the_minimum(n, m, warm):
    rng = np.random.default_rng(5)
    (G, b), lam = products(4, n, m), rng.uniform(0.02, 0.3, m)
    x = np.where(rng.random(m) < 0.4, rng.standard_normal(m), 0.0) if warm else np.zeros(m)
    x, c, _ = run(G, b, lam, x)
    assert 0 < np.count_nonzero(x) <= min(n, m)
    at = x != 0
    np.testing.assert_allclose(c[at], (lam * np.sign(x))[at], atol=1e-9)
    assert (np.abs(c[~at]) <= lam[~at] + 1e-9).all()


def started(G, x):
    """A factor of G on the support of x, with room for all, and the support."""
    m, S = len(x), np.flatnonzero(x)
    L, order = np.full((m, m), np.nan), np.full(m, -1)
    L[: S.size, : S.size] = cholesky(G[np.ix_(S, S)], lower=True) if S.size else 0.0
    order[: S.size] = S
    return L, order, S.size


def trajectories_agree(G, b, lam, x, goal=1e-9):
    """Stop after 0, 1, 2, … changes: each time the kernel is where its literal twin is."""
    twin = list(literal_pivots(G, b, x, lam, goal))
    for most in range(len(twin) + 3):
        there, support, kept_out = twin[min(most, len(twin) - 1)]
        L, order, size = started(G, x)
        new, c = x.copy(), b - G @ x
        done, k, out = pivots(G, c, new, lam, L, order, size, most, goal)
        assert done == min(most, len(twin) - 1)
        assert list(order[:k]) == support
        np.testing.assert_allclose(new, there, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(c, b - G @ there, rtol=1e-8, atol=1e-9)
        S = order[:k]
        factor = np.tril(L[:k, :k])
        np.testing.assert_allclose(factor @ factor.T, G[np.ix_(S, S)], rtol=1e-8, atol=1e-9)
        assert out >= kept_out
    return len(twin), twin[-1], out


@pytest.mark.parametrize(("n", "m"), [(60, 40), (25, 40), (40, 40)])
@pytest.mark.parametrize("warm", [False, True])
def test_pivots_go_where_their_literal_twin_goes(n, m, warm):
    rng = np.random.default_rng(11)
    (G, b), lam = products(10, n, m), rng.uniform(0.02, 0.3, m)
    G = G + 1e-6 * np.eye(m)
    x = np.where(rng.random(m) < 0.4, rng.standard_normal(m), 0.0) if warm else np.zeros(m)
    moves, (_, support, _), out = trajectories_agree(G, b, lam, x)
    assert moves > 10
    assert len(support) > 5
    assert out == 0


def test_pivots_keep_out_what_is_bent_down_as_their_twin_does():
    rng = np.random.default_rng(2)
    m, n = 30, 45
    A = rng.standard_normal((m, n))
    w = np.where(rng.random(n) < 0.2, -0.8, 1.0)
    G, b = (A * w) @ A.T / n, A @ rng.standard_normal(n) / np.sqrt(n)
    x = np.zeros(m)
    x[[3, 11, 17]] = 0.1, -0.2, 0.3
    assert np.linalg.eigvalsh(G).min() < 0
    moves, (_, support, _), out = trajectories_agree(G, b, np.full(m, 0.1), x)
    assert moves > 5
    assert out > 0
    assert np.linalg.eigvalsh(G[np.ix_(support, support)]).min() > 0


def test_pivots_never_raise_the_objective_and_keep_to_their_number():
    (G, b), lam = products(7, 25, 40), np.full(40, 0.1)
    values = []
    for most in range(1, 30):
        x, _, done = run(G, b, lam, np.zeros(40), most)
        assert done <= most
        values.append(0.5 * x @ G @ x - b @ x + lam @ np.abs(x))
    assert (np.diff(values) <= 1e-12).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_nearly_as_many_columns_as_rows_with_outliers(fit_intercept, monkeypatch):
    made, inner = [], ActiveSetNewton.step
    monkeypatch.setattr(ActiveSetNewton, "step", lambda *a: made.append(inner(*a)) or made[-1])
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 400))
    X[:, 1:] += 1.5 * X[:, :-1]
    y = X[:, ::40].sum(axis=1) / 5.0 + 0.05 * rng.standard_normal(120)
    y[:12] += 20.0 * rng.standard_t(1, size=12)
    lam = 2e-4
    fit = solve(X, y, Cauchy(1.0), L1(lam), fit_intercept=fit_intercept, tol=1e-5)
    assert fit.certificate.reached
    u = X @ fit.coef + fit.intercept - y
    g = X.T @ (u / (1.0 + u * u)) / 120
    at = fit.coef != 0
    assert np.abs(g[at] + lam * np.sign(fit.coef[at])).max() <= 1.1e-5 * lam
    assert (np.abs(g[~at]) <= lam * (1 + 1.1e-5)).all()
    assert any(made)
