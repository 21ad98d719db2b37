"""The second start on nonconvex paths: never to a higher objective, often to a lower one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from cyclade.linear import path, starts
from cyclade.linear.penalties import L1, MCP, SCAD


def crowded(seed: int, n: int = 60, p: int = 120):
    """Columns that stand in for one another: many minima."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, p)) + rng.standard_normal((n, p))
    X /= np.linalg.norm(X, axis=0) / np.sqrt(n)
    truth = np.zeros(p)
    truth[:: p // 8] = rng.choice([-3.0, 2.0], truth[:: p // 8].size)
    return X, X @ truth + rng.standard_normal(n)


@pytest.mark.parametrize("penalty", [MCP(1.0, 3.0), SCAD(1.0, 3.7)], ids=["MCP", "SCAD"])
def test_the_lower_of_two_points_is_gone_on_with(penalty, monkeypatch):
    """At every comparison; and some of them are won by either side."""
    won = []
    literal = starts.Companion.advance

    def watched(self, problem, state, max_passes):
        compared = self._compared
        before = state.x.copy()
        chosen = literal(self, problem, state, max_passes)
        if self._compared != compared:
            assert chosen.measured.objective <= state.measured.objective
            won.append(chosen is not state)
        else:
            assert chosen is state
            np.testing.assert_array_equal(state.x, before)
        return chosen

    monkeypatch.setattr(starts.Companion, "advance", watched)
    for seed in range(6):
        X, y = crowded(seed)
        found = path(X, y, "squared", penalty, n_alphas=30, alpha_ratio=0.05, tol=1e-7)
        assert found.reached
    assert any(won)
    assert not all(won)


def test_objectives_are_lower_on_the_whole(monkeypatch):
    """Over seeds, at the last λ, against the path that keeps to its minimum."""
    gains = []
    for seed in range(12):
        X, y = crowded(seed)
        settings = {"n_alphas": 40, "alpha_ratio": 0.03, "tol": 1e-7}
        with_one = path(X, y, "squared", MCP(1.0, 3.0), **settings)
        with monkeypatch.context() as patch:
            patch.setattr(starts.Companion, "advance", lambda self, p, state, most: state)
            without = path(X, y, "squared", MCP(1.0, 3.0), **settings)
        gains.append(np.log(without.objectives[-1] / with_one.objectives[-1]))
    assert np.mean(gains) > 0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_points_are_stationary_and_passes_counted(loss):
    """The certificate is of the point that is returned, whichever start it came from."""
    X, y = crowded(3)
    y = np.sign(y) if loss == "logistic" else y
    found = path(X, y, loss, MCP(1.0, 5.0), n_alphas=20, alpha_ratio=0.1, tol=1e-6)
    assert found.reached
    assert (found.passes >= 0).all()
    for k, lam in enumerate(found.alphas):
        z = X @ found.coefs[:, k] + found.intercepts[k]
        slopes = z - y if loss == "squared" else -y * expit(-y * z)
        g, x = X.T @ slopes / y.size, found.coefs[:, k]
        steep = np.maximum(lam - np.abs(x) / 5.0, 0.0)
        off = np.where(x != 0, np.abs(g + np.sign(x) * steep), np.maximum(np.abs(g) - lam, 0.0))
        assert off.max() <= 1e-6 * lam * (1 + 1e-6)


def test_convex_paths_have_none(monkeypatch):
    """One minimum needs no second start."""
    monkeypatch.setattr(starts.Companion, "advance", lambda *args: pytest.fail("compared"))
    X, y = crowded(0)
    assert path(X, y, "squared", L1(1.0), n_alphas=10).reached
