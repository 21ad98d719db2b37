"""Cycles over columns where they lie: `core.cycle` again; working sets of all columns."""

from __future__ import annotations

import literal_ccd as reference
import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import solve, working_set
from cyclade.linear.losses import Squared
from cyclade.linear.panels.dense import SharedDensePanel
from cyclade.linear.penalties import L1, MCP, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import as_design, as_problems
from cyclade.linear.state import begin
from cyclade.linear.subproblem.coordinate import cycles
from cyclade.linear.tuning import CostModel, Tuning

CYCLES = 12
SMALL = {"cost": CostModel(calls=-np.inf), "long_run": 0}  # else small tables are solved otherwise
IN_PLACE = Tuning(**SMALL)
COPIED = {**SMALL, "long_run": 2**40}
NEVER = Tuning(**COPIED)


def data(n=60, p=21, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1)) + rng.random(p)
    X[rng.random((n, p)) < 0.3] = 0.0
    return X, X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(n), np.full(n, 1.0 / n)


def begun(X, y, w, centred):
    panel = as_design(X, tuning=IN_PLACE).growing_panel(w, centred)
    panel.extend(np.arange(X.shape[1]))
    panel.start(np.sqrt(w) * (y - (w @ y) * centred), np.zeros(X.shape[1]))
    return panel


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    "penalty",
    [L1(0.05), L1(0.05, positive=True), ElasticNet(0.1, 0.5), Box(-0.2, 0.3, 0.01), MCP(0.1, 3.0)],
    ids=repr,
)
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_columns_in_place_follow_core_cycle(penalty, centred, shift):
    """Means of 10⁵ times the spread, too."""
    X, y, w = data()
    X = np.asfortranarray(X + shift * centred)
    known, panel = bind(penalty, X.shape[1]), begun(X, y, w, centred)
    order = np.array([7, 2, 19, 0, 11, 3, 15, 4, 20, 8, 1])
    A = (X - X.mean(axis=0) * centred)[:, order]
    t = y - y.mean() * centred
    run = reference.run(A, t, Squared(), penalty, K=CYCLES, sample_weight=w, total=1.0)
    tolerance = 1e-7 if shift and centred else 1e-11
    rounding = 1e-8 if shift and centred else 1e-11
    for now in run[1:]:
        cycles(panel, order, known, 1, 0.0)
        np.testing.assert_allclose(panel.x[order], now.coef, atol=tolerance)
    assert np.count_nonzero(now.coef) > 0
    rest = np.sqrt(w) * (t - A @ now.coef)
    np.testing.assert_allclose(panel.residual(), rest, atol=10 * tolerance)
    centred_columns = (X - X.mean(axis=0) * centred) * np.sqrt(w)[:, None]
    np.testing.assert_allclose(panel.correlations(), centred_columns.T @ rest, atol=10 * tolerance)
    old, new = np.arange(5), np.arange(5, X.shape[1])
    G = panel.products(old[:0], old, np.empty((0, 0)))
    G = panel.products(old, new, G)
    np.testing.assert_allclose(
        G,
        centred_columns.T @ centred_columns,
        atol=rounding,
    )
    dx = np.linspace(-1.0, 1.0, 5)
    panel.advance(old, dx)
    np.testing.assert_allclose(
        panel.residual(), rest - centred_columns[:, :5] @ dx, atol=10 * tolerance
    )


def test_float32_columns_have_a_residual_in_float64():
    X, y, w = data()
    X32 = np.asfortranarray(X, np.float32)
    panel = as_design(X32, tuning=Tuning(cache=0, long_run=0)).growing_panel(w, True)
    panel.extend(np.arange(X.shape[1]))
    panel.start(np.sqrt(w) * (y - w @ y), np.zeros(X.shape[1]))
    cycles(panel, np.arange(X.shape[1]), bind(L1(0.05), X.shape[1]), CYCLES, 0.0)
    assert panel.R.dtype == np.float64
    A = X32.astype(np.float64)
    rest = np.sqrt(w) * (y - y.mean() - (A - A.mean(axis=0)) @ panel.x)
    np.testing.assert_allclose(panel.residual(), rest, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix])
@pytest.mark.parametrize(
    "penalty",
    [L1(0.003), L1(0.003, positive=True), ElasticNet(0.005, 0.5),
     WeightedL1(0.003, np.linspace(0.1, 2.0, 21)), Box(-0.2, 0.3, 0.003), MCP(0.05, 3.0)],
    ids=repr,
)  # fmt: skip
def test_solutions_are_those_of_working_sets(monkeypatch, penalty, storage, fit_intercept):
    X, y, _ = data()
    options = {"fit_intercept": fit_intercept, "tol": 1e-10}
    found = solve(storage(X), y, "squared", penalty, **options, tuning=IN_PLACE)
    assert found.certificate.reached
    monkeypatch.setattr(working_set, "most_violate", lambda problem, state: False)
    exact = solve(storage(X), y, "squared", penalty, **options, tuning=NEVER)
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-9)
    np.testing.assert_allclose(found.coef, exact.coef, atol=2e-4)
    assert found.intercept == pytest.approx(exact.intercept, abs=1e-3)


def test_working_sets_of_long_columns_are_not_copied():
    X, y, w = data()
    design = as_design(np.asfortranarray(X), tuning=IN_PLACE)
    assert type(design.growing_panel(w, True)) is SharedDensePanel
    assert type(design.growing_panel(w * y**2, True)) is not SharedDensePanel


@pytest.mark.parametrize(("divisor", "all_of_them"), [(3, False), (300, True)])
def test_the_working_set_is_all_columns_where_most_violate(divisor, all_of_them):
    X, y, _ = data()
    lam = float(np.abs((X - X.mean(axis=0)).T @ y).max()) / y.size
    for storage in (np.asfortranarray, sp.csc_matrix):
        penalty = L1(lam / divisor)
        (problem,) = as_problems(as_design(storage(X)), y, Squared(), penalty, (None, None, True))
        state = begin(problem, np.zeros(X.shape[1]), 0.0)
        assert working_set.most_violate(problem, state) is all_of_them
        chosen = working_set.choose(problem, state)
        assert (chosen.size == X.shape[1]) is all_of_them
        state.on_path = True  # there the last working set is nearly right
        assert not working_set.most_violate(problem, state)
