"""The compiled loops are `core.cycle`: the same points, cycle after cycle."""

from __future__ import annotations

import literal_ccd as reference
import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear.losses import Squared
from cyclade.linear.penalties import L1, MCP, SCAD, Box, ElasticNet, LogSum, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import as_design
from cyclade.linear.subproblem.coordinate import cycles
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.tuning import DEFAULT, Tuning

CYCLES = 12
PENALTIES = [
    L1(1.5),
    L1(1.5, positive=True),
    ElasticNet(3.0, 0.5),
    WeightedL1(1.5, np.linspace(0.1, 2.0, 21)),
    Box(-0.2, 0.3, 0.3),
    MCP(3.0, 3.0),
    SCAD(3.0, 3.7),
    LogSum(1.5, 0.5),
]


def data(n=30, p=21):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.3] = 0.0
    return X, X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def slow(X, y, w, penalty):
    """x_1, …, x_K through core.cycle, with one coordinate a block and exact L_j."""
    run = reference.run(X, y, Squared(), penalty, K=CYCLES, sample_weight=w, total=1.0)
    return [now.coef for now in run[1:]]


def begun(X, y, w, centred=False, tuning=DEFAULT):
    p = X.shape[1]
    panel = as_design(X, tuning=tuning).panel(np.arange(p), w, centred)
    panel.start(np.sqrt(w) * (y - (w @ y) / w.sum() * centred), np.zeros(p))
    return panel


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix])
def test_a_panel_follows_core_cycle(penalty, storage):
    X, y, w = data()
    known, panel = bind(penalty, X.shape[1]), begun(storage(X), y, w)
    for x in slow(X, y, w, penalty):
        cycles(panel, np.arange(X.shape[1]), known, 1, 0.0)
        np.testing.assert_allclose(panel.x[: x.size], x, rtol=1e-10, atol=1e-13)
    assert np.count_nonzero(x) > 0


@pytest.mark.parametrize("storage", [np.asfortranarray, sp.csc_matrix])
def test_in_an_order_of_some_columns(storage):
    X, y, w = data()
    order = np.array([7, 2, 19, 0, 11, 3, 15, 4, 20, 8])
    known, panel = bind(L1(1.5), X.shape[1]), begun(storage(X), y, w)
    for x in slow(X[:, order], y, w, L1(1.5)):
        cycles(panel, order, known, 1, 0.0)
        np.testing.assert_allclose(panel.x[order], x, rtol=1e-10, atol=1e-13)
    others = np.setdiff1d(np.arange(X.shape[1]), order)
    assert not panel.x[others].any()


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("storage", [np.asfortranarray, sp.csc_matrix])
def test_products_of_columns_follow_core_cycle(penalty, storage):
    X, y, w = data()
    p = X.shape[1]
    known, panel, gram = bind(penalty, p), begun(storage(X), y, w), Gram()
    gram.take(panel, known, np.arange(5), panel.correlations())
    gram.take(panel, known, np.arange(p), panel.correlations())  # the products grow
    run = known.functions["gram_cycles"]
    for x in slow(X, y, w, penalty):
        run(gram.G, gram.c, gram.x, gram.L, gram.cols, known.parameters, 1, 0.0)
        np.testing.assert_allclose(gram.x, x, rtol=1e-9, atol=1e-12)
    gram.give(panel)
    np.testing.assert_allclose(panel.residual(), np.sqrt(w) * (y - X @ x), atol=1e-10)
    np.testing.assert_allclose(panel.correlations(), gram.c, atol=1e-9)


@pytest.mark.parametrize("storage", [np.asfortranarray, sp.csc_matrix])
def test_centring_is_profiling_the_intercept_out(storage):
    X, y, w = data()
    means, ybar = w @ X / w.sum(), w @ y / w.sum()
    known, panel = bind(L1(1.5), X.shape[1]), begun(storage(X), y, w, centred=True)
    for x in slow(X - means, y - ybar, w, L1(1.5)):
        cycles(panel, np.arange(X.shape[1]), known, 1, 0.0)
        np.testing.assert_allclose(panel.x[: x.size], x, rtol=1e-9, atol=1e-12)
    rest = np.sqrt(w) * (y - ybar - (X - means) @ x)
    np.testing.assert_allclose(panel.residual(), rest, atol=1e-11)
    np.testing.assert_allclose(panel.means, means, atol=1e-12)
    A = ((X - means) * np.sqrt(w)[:, None]).T
    every = np.arange(X.shape[1])
    G = panel.products(every[:0], every, np.empty((0, 0)))
    np.testing.assert_allclose(G, A @ A.T, atol=1e-10)
    np.testing.assert_allclose(panel.product(x), x @ A, atol=1e-10)


def test_float32_stays_float32():
    tuning = Tuning(cache=0)  # a small X would be worked on in float64
    X, y, w = data()
    known = bind(L1(1.5), X.shape[1])
    for storage in (np.asfortranarray, sp.csc_matrix):
        panel = begun(storage(X.astype(np.float32)), y, w, tuning=tuning)
        for x in slow(X, y, w, L1(1.5)):
            cycles(panel, np.arange(X.shape[1]), known, 1, 0.0)
            np.testing.assert_allclose(panel.x[: x.size], x, atol=2e-5)
        assert panel.x.dtype == panel.R.dtype == np.float32
