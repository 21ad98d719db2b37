"""Penalties that a user writes: the same kernels, compiled with the user's methods."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import path, solve
from cyclade.linear.kernels.jit import rebound
from cyclade.linear.penalties import L1, MCP, Box, ElasticNet
from cyclade.linear.penalty_bound import bind


class Mine:
    """λ|x| + ½ μ_j x²."""

    convex = True

    def __init__(self, lam, mu):
        self.lam, self.mu, self.label = lam, np.asarray(mu, float), "not a number"

    def value(self, x, j):
        return self.lam * abs(x) + 0.5 * self.mu[j] * x * x

    def prox(self, u, t, j):
        v = abs(u) - self.lam * t
        if v <= 0.0:
            return 0.0
        return (v if u > 0 else -v) / (1.0 + self.mu[j] * t)

    def distance(self, x, g, j):
        if x == 0.0:
            return max(abs(g) - self.lam, 0.0)
        return abs(g + self.mu[j] * x + (self.lam if x > 0 else -self.lam))

    def scaled(self, lam):
        return Mine(lam, self.mu)


class WithThreshold(Mine):
    def threshold(self, j):
        return self.lam


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 30))
    return X, X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(50)


@pytest.mark.parametrize(("kind", "storage"), [(Mine, np.asarray), (WithThreshold, sp.csr_matrix)])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_written_penalty_gives_what_the_shipped_one_gives(kind, storage, loss):
    X, y = data()
    mine = solve(storage(X), y, loss, kind(0.05, np.full(30, 0.05)), tol=1e-9)
    ours = solve(X, y, loss, ElasticNet(0.1, 0.5), tol=1e-12)
    assert mine.certificate.kind == "distance"
    assert mine.certificate.reached
    np.testing.assert_allclose(mine.coef, ours.coef, atol=1e-6)
    assert mine.objective == pytest.approx(ours.objective, abs=1e-9)


def test_another_lam_needs_no_new_compilation_and_paths_work():
    X, y = data()
    first = bind(Mine(0.1, np.zeros(30)), 30)
    second = bind(Mine(0.2, np.ones(30)), 30)
    assert first.functions is second.functions
    assert type(first.parameters) is type(second.parameters)
    found = path(X, y, "squared", Mine(1.0, np.zeros(30)), alphas=[0.5, 0.1], tol=1e-8)
    ours = path(X, y, "squared", L1(1.0), alphas=[0.5, 0.1], tol=1e-11)
    np.testing.assert_allclose(found.coefs, ours.coefs, atol=1e-5)
    with pytest.raises(TypeError, match="lacks lam_max"):
        path(X, y, "squared", Mine(1.0, np.zeros(30)))


def test_missing_methods_are_named():
    X, y = data()

    class Half:
        convex = True

        def value(self, x, j):
            return 0.0

    with pytest.raises(TypeError, match=r"Half lacks prox\(u, t, j\) and distance\(x, g, j\)"):
        solve(X, y, "squared", Half())


def test_what_cannot_be_compiled_is_named():
    X, y = data()

    class Odd(Mine):
        def prox(self, u, t, j):
            return self.label.upper()

    with pytest.raises(TypeError, match=r"Odd\.prox could not be compiled"):
        solve(X, y, "squared", Odd(0.1, np.zeros(30)))


def test_rebound_changes_only_the_names_given():
    def text(x):
        return shift(x) + 1.0  # noqa: F821

    twin = rebound(text, {"shift": rebound(lambda x: 2.0 * x, {}, cache=False)}, cache=False)
    assert twin(3.0) == 7.0


def test_derivatives_of_penalties_that_are_flat_far_out():
    known = bind(MCP(0.5, 3.0), 5)
    x = np.array([-4.0, -0.6, 0.3, 1.4, 2.0])
    slope, bend = known.derivatives(np.arange(5), x)
    inside = np.abs(x) < 1.5
    np.testing.assert_allclose(slope, np.where(inside, np.sign(x) * 0.5 - x / 3, 0.0), atol=1e-12)
    np.testing.assert_allclose(bend, np.where(inside, -1 / 3, 0.0), atol=1e-6)
    bounded = bind(Box(-0.2, 0.3, 0.1), 2)
    assert np.isinf(bounded.derivatives(np.arange(2), np.array([-0.2, 0.3]))[1]).all()
