"""Several classes: Newton models with the whole Hessian, by columns and by products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from classes_twin import bounds, hessians, literal_cycles
from sklearn.datasets import load_iris, load_wine

from cyclade.linear import SparseLogisticRegressionCV, solve
from cyclade.linear.api import lam_max
from cyclade.linear.losses import Multinomial
from cyclade.linear.panels.dense import DenseDesign
from cyclade.linear.panels.group import OutputPanel
from cyclade.linear.panels.group import bounds as panel_bounds
from cyclade.linear.panels.sparse import SparseDesign
from cyclade.linear.penalties import L1, ElasticNet, Rows
from cyclade.linear.penalty_bound import bind
from cyclade.linear.subproblem.classes import RowGram
from cyclade.linear.tuning import Tuning

BY_COLUMNS = Tuning(most_columns=0)


def data(n=40, p=8, T=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 1.0
    x = rng.standard_normal((p, T)) * (rng.random((p, 1)) < 0.5)
    z = X @ x
    return X, (z + rng.gumbel(size=z.shape)).argmax(axis=1).astype(float)


def probabilities(n, T, rng, scale=2.0):
    e = np.exp(scale * rng.standard_normal((n, T)))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0, 30.0])
def test_diagonal_lies_above_the_hessian(scale):
    rng = np.random.default_rng(0)
    p = probabilities(50, 6, rng, scale)
    np.testing.assert_allclose(panel_bounds(p), bounds(p), rtol=1e-12, atol=1e-15)
    pairs = zip(bounds(p), hessians(p), strict=True)
    least = [np.linalg.eigvalsh(np.diag(d) - H)[0] for d, H in pairs]
    assert min(least) > -1e-15


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("entrywise", [True, False])
def test_cycles_are_the_literal_ones(storage, intercept, entrywise):
    rng = np.random.default_rng(1)
    X, _ = data()
    X[rng.random(X.shape) < 0.3] = 0.0
    n, k, T = *X.shape, 4
    p, s, lam = probabilities(n, T, rng), rng.random(n), 0.3
    s /= s.sum()
    g_z, x = 0.1 * rng.standard_normal((n, T)), rng.standard_normal((k, T))
    g_z -= g_z.mean(axis=1, keepdims=True)  # as those of the loss
    if storage == "dense":
        design, A = DenseDesign(np.asfortranarray(X)), X - (s @ X) * intercept
    else:
        design, A = SparseDesign(sp.csc_array(X)), X
    penalty = bind(L1(lam) if entrywise else Rows(lam), k, T)

    def solve_row(v, D, j):
        if entrywise:
            return np.sign(v) * np.maximum(np.abs(v) - lam, 0.0) / D
        if np.linalg.norm(v) <= lam:
            return np.zeros(T)
        low, high = 0.0, 1e6  # of ‖u‖, with u = v / (D + λ/‖u‖)
        for _ in range(200):
            mid = 0.5 * (low + high)
            low, high = (mid, high) if np.linalg.norm(v / (D + lam / mid)) > mid else (low, mid)
        return v / (D + lam / mid)

    panel = OutputPanel(design, s[:, None] * p, intercept, penalty, p)
    panel.include(np.arange(k))
    panel.start(-g_z, x.reshape(-1).copy())
    count = 10
    past = np.zeros((count + 1, k, T)), np.zeros((count + 1, n + 1, T))
    assert panel.cycles(np.arange(k), penalty.table, count, 0.0, past)[0] == count
    literal = literal_cycles(A, p, s, g_z, x, solve_row, intercept, count)
    H = hessians(p)
    for cycle, (point, c) in enumerate(literal, start=1):
        np.testing.assert_allclose(past[0][cycle], point, rtol=1e-9, atol=1e-9)
        moved = past[1][cycle][-1]
        np.testing.assert_allclose(moved - moved.mean(), c - c.mean(), rtol=1e-8, atol=1e-9)
    dz = A @ (point - x) + c
    shift = panel.moved() - dz  # classes moved alike change nothing
    assert np.ptp(shift) < 1e-8
    value = np.vdot(g_z, dz) + 0.5 * np.einsum("i,it,itv,iv->", s, dz, H, dz)
    assert panel.loss() == pytest.approx(value, rel=1e-9, abs=1e-12)


def test_cycles_on_products_are_the_literal_ones():
    rng = np.random.default_rng(2)
    k, m = 5, 3
    B = rng.standard_normal((40, k * m))
    G, b, lam = B.T @ B / 40, rng.standard_normal(k * m), np.full(k, 0.4)
    rows = RowGram(G, b.copy(), np.zeros(k * m), m, lam)
    x = np.zeros(k * m)
    for _ in range(10):
        rows.cycles(1, 0.0)
        for j in range(k):
            own = slice(m * j, m * j + m)
            L = np.linalg.eigvalsh(G[own, own])[-1]
            for _ in range(500):  # proximal steps on the block alone
                u = x[own] + (b - G @ x)[own] / L
                x[own] = u * max(0.0, 1.0 - lam[j] / L / max(np.linalg.norm(u), 1e-300))
        np.testing.assert_allclose(rows.x, x, atol=1e-9)
        np.testing.assert_allclose(rows.c, b - G @ rows.x, atol=1e-12)


def test_newton_steps_on_products_end_where_cycles_do():
    rng = np.random.default_rng(3)
    B = rng.standard_normal((30, 12)) @ rng.standard_normal((12, 12))
    G, b, lam = B.T @ B / 30, 5.0 * rng.standard_normal(12), np.full(4, 1.0)
    newton, plain = (RowGram(G, b.copy(), np.zeros(12), 3, lam) for _ in range(2))
    few = newton.minimise(1e-11, 10_000)
    many, _ = plain.cycles(1_000_000, 1e-11)
    np.testing.assert_allclose(newton.x, plain.x, atol=1e-7)
    assert few < many / 3


@pytest.mark.parametrize("penalty", [Rows(1.0), L1(1.0), ElasticNet(1.0, 0.5)])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_both_ways_end_at_the_same_point(penalty, intercept, storage):
    X, y = data()
    weights = np.random.default_rng(3).random(len(y))
    top = lam_max(X, y, Multinomial(), penalty, weights, None, intercept)
    penalty = penalty.scaled(top / 20)
    X = sp.csc_array(X) if storage == "sparse" else X
    more = {"sample_weight": weights, "fit_intercept": intercept, "tol": 1e-11}
    ways = [
        solve(X, y, "multinomial", penalty, tuning=tuning, **more) for tuning in (None, BY_COLUMNS)
    ]
    for found in ways:
        assert found.certificate.reached
    z = [X @ found.coef for found in ways]  # l1 may leave a choice that probabilities do not see
    z = [part - part.mean(axis=1, keepdims=True) for part in z]
    np.testing.assert_allclose(z[0], z[1], atol=1e-4)
    assert ways[0].objective == pytest.approx(ways[1].objective, rel=1e-10)


@pytest.mark.parametrize("penalty", [Rows(1.0), L1(1.0)])
def test_small_alphas_are_certified_in_few_cycles(penalty):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 20)), rng.integers(0, 3, 60)
    top = lam_max(X, y, Multinomial(), penalty, None, None, True)
    found = solve(X, y, "multinomial", penalty.scaled(top / 1000))
    assert found.certificate.reached
    assert len(found.history) < 10  # there were 1,168 checks at λ_max/100
    assert found.passes < 2_000


@pytest.mark.filterwarnings("ignore:.* in scale")
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_cross_validation_with_defaults_takes_few_passes(load):
    """Every fit of every fold is certified: a warning is an error."""
    X, y = load(return_X_y=True)
    model = SparseLogisticRegressionCV().fit(X, y)
    assert model.certificate_.reached
    assert model.n_iter_ < 2_000  # 702 and 533
    assert model.score(X, y) > 0.9


def test_classes_far_apart():
    """Probabilities underflow; models, intercepts and gaps stay finite."""
    X, y = np.repeat(np.eye(3), 10, axis=0) * 1e3, np.repeat(np.arange(3.0), 10)
    for tuning in (None, BY_COLUMNS):
        found = solve(X, y, "multinomial", Rows(1e-4), tuning=tuning)
        assert found.certificate.reached


def test_offsets_and_dual_of_softmax():
    X, y = data()
    offset = np.random.default_rng(4).standard_normal((len(y), 4))
    found = solve(X, y, "multinomial", Rows(0.05), offset=offset, tol=1e-10)
    assert found.certificate.reached
    z = X @ found.coef + found.intercept + offset
    p = Multinomial().mean(z)
    p[np.arange(len(y)), y.astype(int)] -= 1.0
    g = X.T @ p / len(y)
    norms = np.linalg.norm(found.coef, axis=1)
    inside = norms > 0
    slope = 0.05 * found.coef[inside] / norms[inside][:, None]
    np.testing.assert_allclose(g[inside], -slope, atol=1e-6)
    assert (np.linalg.norm(g[~inside], axis=1) <= 0.05 + 1e-6).all()
