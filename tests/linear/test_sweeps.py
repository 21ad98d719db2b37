"""Cycles over all columns where they lie: `core.cycle` again, and the solutions of working sets."""

from __future__ import annotations

from dataclasses import replace

import literal_ccd as reference
import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import path, solve
from cyclade.linear.designs import as_design
from cyclade.linear.kernels import columns
from cyclade.linear.losses import Squared
from cyclade.linear.panels.dense import SharedDensePanel
from cyclade.linear.penalties import L1, MCP, SCAD, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem, as_problems
from cyclade.linear.state import begin
from cyclade.linear.subproblem import sweeps
from cyclade.linear.tuning import Tuning

CYCLES = 12
SMALL = {
    "calls": 0.0,
    "forecast_passes": (0.0, 0.0, 0.0, 0.0),
    "sampled_tall": np.inf,
    "in_place_bytes": (0, 0),
}  # else small tables are solved otherwise
SWEEPS = Tuning(**SMALL)
COPIED = {**SMALL, "in_place_bytes": (2**40, 2**40)}
NEVER = Tuning(sweep_share=np.inf, sweep_share_apart=np.inf, **COPIED)


def data(n=60, p=21, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1)) + rng.random(p)
    X[rng.random((n, p)) < 0.3] = 0.0
    return X, X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(n), np.full(n, 1.0 / n)


def begun(X, y, w, centred):
    panel = as_design(X).shared_panel(w, centred)
    panel.extend(np.arange(X.shape[1]))
    panel.start(np.sqrt(w) * (y - (w @ y) * centred), np.zeros(X.shape[1]))
    return panel


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_norms_that_wait_until_a_column_moves_change_nothing(centred, kind):
    X, y, w = data()
    known, columns = bind(L1(0.05), X.shape[1]), sp.csc_matrix(X.astype(kind))
    before, later = begun(columns, y, w, centred), as_design(columns).shared_panel(w, centred)
    later.start(np.sqrt(w) * (y - (w @ y) * centred), np.zeros(X.shape[1]))
    for panel in (before, later):
        panel.prepare(panel.cols)
        panel.choose(panel.cols)
        panel.cycles(known, CYCLES, 0.0)
    np.testing.assert_array_equal(before.x, later.x)
    moved = before.x != 0
    np.testing.assert_allclose(later.L[moved], before.L[moved], rtol=1e-6)
    assert centred or not later.L[~moved].all()


def test_zeros_come_along_the_further_columns_have_moved():
    X, y, w = data()
    problem = Problem(
        as_design(sp.csc_matrix(X)), y, w, np.zeros(y.size), Squared(), bind(L1(0.1), X.shape[1]),
        False,
    )  # fmt: skip
    sweep, penalty = (
        sweeps.Sweeps(problem, begin(problem, np.zeros(X.shape[1]), 0.0)),
        problem.penalty,
    )
    sweep.panel.place(np.zeros(X.shape[1]))
    slopes = np.linspace(0.0, 0.099, X.shape[1])
    tuning, sizes = problem.tuning, []
    for move in (0.0, 0.1, 0.2, 0.5):
        near = sweep.near(penalty, slopes, move)
        limit = min(tuning.near * 0.1, 0.1 - tuning.sweep_reach[0] * move)
        np.testing.assert_array_equal(near, np.flatnonzero(slopes >= limit))
        sizes.append(near.size)
    assert sizes == sorted(sizes)
    assert sizes[-1] == X.shape[1]


@pytest.mark.parametrize("storage", [np.asfortranarray, sp.csc_matrix])
@pytest.mark.parametrize("centred", [True, False])
def test_cycles_leave_the_slopes_they_met(storage, centred):
    X, y, w = data()
    panel, known = begun(storage(X), y, w, centred), bind(L1(0.05), X.shape[1])
    panel.seen = np.full(X.shape[1], np.nan)
    for j in (3, 7, 0):
        before = panel.correlations(np.array([j]))
        panel.choose(np.array([j]))
        panel.cycles(known, 1, 0.0)
        assert panel.seen[j] == pytest.approx(before[0], rel=1e-12)
    assert np.isnan(panel.seen[[1, 2, 4]]).all()


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    "penalty",
    [L1(0.05), L1(0.05, positive=True), ElasticNet(0.1, 0.5), Box(-0.2, 0.3, 0.01), MCP(0.1, 3.0)],
    ids=repr,
)
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_columns_in_place_follow_core_cycle(penalty, centred, shift):
    """A mean of 10⁵ times the spread leaves nothing of products: columns are visited singly."""
    X, y, w = data()
    X = np.asfortranarray(X + shift * centred)
    known, panel = bind(penalty, X.shape[1]), begun(X, y, w, centred)
    order = np.array([7, 2, 19, 0, 11, 3, 15, 4, 20, 8, 1])
    panel.choose(order)
    assert panel.width == (1 if shift and centred else 4)
    A = (X - X.mean(axis=0) * centred)[:, order]
    t = y - y.mean() * centred
    run = reference.run(A, t, Squared(), penalty, K=CYCLES, sample_weight=w, total=1.0)
    tolerance = 1e-7 if panel.width == 1 else 1e-11
    for now in run[1:]:
        panel.cycles(known, 1, 0.0)
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
        G, centred_columns.T @ centred_columns, atol=1e-11 if panel.width == 4 else 1e-8
    )
    dx = np.linspace(-1.0, 1.0, 5)
    panel.advance(old, dx)
    np.testing.assert_allclose(
        panel.residual(), rest - centred_columns[:, :5] @ dx, atol=10 * tolerance
    )


def test_float32_columns_have_a_residual_in_float64():
    X, y, w = data()
    X32 = np.asfortranarray(X, np.float32)
    panel = as_design(X32, tuning=Tuning(max_widened=0)).shared_panel(w, True)
    panel.extend(np.arange(X.shape[1]))
    panel.start(np.sqrt(w) * (y - w @ y), np.zeros(X.shape[1]))
    panel.choose(np.arange(X.shape[1]))
    panel.cycles(bind(L1(0.05), X.shape[1]), CYCLES, 0.0)
    assert panel.R.dtype == np.float64
    A = X32.astype(np.float64)
    rest = np.sqrt(w) * (y - y.mean() - (A - A.mean(axis=0)) @ panel.x)
    np.testing.assert_allclose(panel.residual(), rest, atol=1e-12)


def counted(monkeypatch):
    """The calls of `sweeps.improve`."""
    made, improve = [], sweeps.Sweeps.run

    def count(self, *args):
        made.append(1)
        improve(self, *args)

    monkeypatch.setattr(sweeps.Sweeps, "run", count)
    return made


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix])
@pytest.mark.parametrize(
    "penalty",
    [L1(0.003), L1(0.003, positive=True), ElasticNet(0.005, 0.5),
     WeightedL1(0.003, np.linspace(0.1, 2.0, 21)), Box(-0.2, 0.3, 0.003)],
    ids=repr,
)  # fmt: skip
def test_solutions_are_those_of_working_sets(monkeypatch, penalty, storage, fit_intercept):
    X, y, _ = data()
    options = {"fit_intercept": fit_intercept, "tol": 1e-10}
    exact = solve(storage(X), y, "squared", penalty, **options, tuning=NEVER)
    made = counted(monkeypatch)
    found = solve(storage(X), y, "squared", penalty, **options, tuning=SWEEPS)
    assert made
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-9)
    np.testing.assert_allclose(found.coef, exact.coef, atol=2e-4)
    assert found.intercept == pytest.approx(exact.intercept, abs=1e-3)


def test_columns_that_depend_on_one_another_are_left_to_products(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((300, 1)) + 0.03 * rng.standard_normal((300, 60)))
    y = X @ rng.standard_normal(60)
    made = counted(monkeypatch)
    found = solve(X, y, "squared", L1(1e-4), tol=1e-7, tuning=SWEEPS)
    assert len(made) == 1
    assert found.certificate.reached
    exact = solve(X, y, "squared", L1(1e-4), tol=1e-7, tuning=NEVER)
    assert found.objective == pytest.approx(exact.objective, rel=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray])
@pytest.mark.parametrize("penalty", [L1(1e-3), ElasticNet(1e-3, 0.9), Box(-0.2, 0.3, 1e-3)])
def test_steps_on_products_of_all_columns(monkeypatch, penalty, storage, fit_intercept):
    """With the gradient of all rows, products in float32 lead to solutions of any precision."""
    rng = np.random.default_rng(1)
    X = storage(rng.standard_normal((300, 1)) + 0.3 * rng.standard_normal((300, 40)) + 5.0)
    y = X @ rng.standard_normal(40) + rng.standard_normal(300)
    options = {"fit_intercept": fit_intercept, "tol": 1e-10}
    exact = solve(X, y, "squared", penalty, **options, tuning=NEVER)
    steps, step = [], sweeps.Sweeps.step
    monkeypatch.setattr(sweeps.Sweeps, "step", lambda *args: steps.append(step(*args)) or steps[-1])
    tuning = replace(SWEEPS, sweep_products=np.inf, cost=replace(SWEEPS.cost, product=1e-9))
    found = solve(X, y, "squared", penalty, **options, tuning=tuning)
    assert steps
    assert all(steps)
    assert found.certificate.reached
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)
    np.testing.assert_allclose(found.coef, exact.coef, atol=1e-4)


def test_products_too_large_for_float32_are_not_stepped_on():
    X, y, _ = data()
    X += X.mean(axis=1, keepdims=True) * 5.0
    tuning = replace(SWEEPS, sweep_products=np.inf, cost=replace(SWEEPS.cost, product=1e-9))
    found = solve(1e25 * X, y, "squared", L1(1e23), tuning=tuning)
    assert found.certificate.reached
    exact = solve(X, y, "squared", L1(1e-2), tuning=NEVER)
    assert found.objective == pytest.approx(exact.objective, rel=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_steps_on_products_that_rounding_spoils_are_not_taken(fit_intercept):
    """Columns share a component of 1e3 beside 1: in float32 their products are not definite."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(1e3 * rng.standard_normal((3_000, 1)) + rng.standard_normal((3_000, 300)))
    y = X[:, :20] @ rng.standard_normal(20) + rng.standard_normal(3_000)
    options = {"fit_intercept": fit_intercept, "tol": 1e-12}
    found = solve(X, y, "squared", L1(1e-3), **options)
    assert found.certificate.reached
    exact = solve(X, y, "squared", L1(1e-3), **options, tuning=NEVER)
    assert abs(found.objective - exact.objective) <= found.certificate.tolerance


@pytest.mark.parametrize("case", ["wide", "large λ", "nonconvex", "weights", "path", "by rows"])
def test_other_problems_have_working_sets(monkeypatch, case):
    X, y, _ = data(15 if case == "wide" else 60)
    made = counted(monkeypatch)
    penalty = SCAD(0.003, 3.7) if case == "nonconvex" else L1(1.0 if case == "large λ" else 0.003)
    X = np.ascontiguousarray(X) if case == "by rows" else np.asfortranarray(X)
    weights = np.linspace(0.5, 1.5, len(y)) if case == "weights" else None
    if case == "path":
        path(X, y, "squared", penalty, lams=[0.01, 0.003], tuning=SWEEPS)
    else:
        tuning = replace(SWEEPS, max_turned=0)  # a copy of X would pay
        solve(X, y, "squared", penalty, sample_weight=weights, tuning=tuning)
    assert not made


@pytest.mark.parametrize(("entries", "swept"), [(3, True), (60, False)])
def test_fewer_columns_are_many_where_they_hardly_share_rows(monkeypatch, entries, swept):
    """A quarter of the columns violates; with 3 entries each that is less than one in a row."""
    rng = np.random.default_rng(0)
    n, p = 400, 200
    rows = np.concatenate([rng.choice(n, entries, replace=False) for _ in range(p)])
    values, starts = rng.standard_normal(p * entries), np.arange(0, p * entries + 1, entries)
    X = sp.csc_matrix((values, rows, starts), (n, p))
    y = rng.standard_normal(n)
    pull = np.abs(X.T @ y) / n
    made = counted(monkeypatch)
    solve(X, y, "squared", L1(float(np.quantile(pull, 0.75))), fit_intercept=False, tuning=SWEEPS)
    assert bool(made) is swept


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_working_sets_of_long_columns_are_not_copied(fit_intercept):
    X, y, w = data()
    X, tuning = np.asfortranarray(X), Tuning(sweep_share=np.inf, sweep_share_apart=np.inf, **SMALL)
    assert type(as_design(X, tuning=tuning).growing_panel(w, True)) is SharedDensePanel
    assert type(as_design(X, tuning=tuning).growing_panel(w * y**2, True)) is not SharedDensePanel
    for penalty in (L1(0.01), MCP(0.05, 3.0)):
        exact = solve(
            X, y, "squared", penalty, fit_intercept=fit_intercept, tol=1e-10, tuning=NEVER
        )
        found = solve(
            X, y, "squared", penalty, fit_intercept=fit_intercept, tol=1e-10, tuning=tuning
        )
        assert found.objective == pytest.approx(exact.objective, rel=1e-9)
        np.testing.assert_allclose(found.coef, exact.coef, atol=1e-4)


def test_zeros_that_a_move_may_reach_stay_in_a_cycle():
    """Of sparse columns, which hardly share rows, only those near their threshold do."""
    slopes = np.array([0.9, 0.6, 0.6, 0.2])
    for storage, chosen in ((np.asfortranarray, [0, 1, 2, 3]), (sp.csc_matrix, [0, 3])):
        X, y, _ = data(p=4)
        (problem,) = as_problems(as_design(storage(X)), y, Squared(), L1(1.0), (None, None, True))
        swept = sweeps.Sweeps(problem, begin(problem, np.zeros(4), 0.0))
        swept.panel.x = np.array([0.0, 0.0, 0.0, 1.0])
        np.testing.assert_array_equal(swept.near(problem.penalty, slopes), [0, 3])
        np.testing.assert_array_equal(swept.near(problem.penalty, slopes, 0.5), chosen)
        np.testing.assert_array_equal(swept.near(problem.penalty, None), np.arange(4))


def test_coordinates_are_listed_as_numpy_lists_them():
    rng = np.random.default_rng(2)
    x, g = np.where(rng.random(200) < 0.3, rng.standard_normal(200), 0.0), rng.standard_normal(200)
    x[5], limits = np.nan, rng.random(200)
    np.testing.assert_array_equal(columns.nonzeros(x), np.flatnonzero(x))
    for reach in (0.0, 0.1, 2.0):
        near = np.minimum(0.75 * limits, limits - reach)
        listed = columns.pressing(x, g, limits, 0.75, reach)
        np.testing.assert_array_equal(listed, np.flatnonzero((x != 0) | (np.abs(g) >= near)))


def test_fewer_columns_are_many_where_products_are_out_of_reach(monkeypatch):
    """A quarter of the columns violates, as above, with more entries in a row than two."""
    rng = np.random.default_rng(0)
    X = sp.random(400, 200, 0.15, "csc", random_state=rng, data_rvs=rng.standard_normal)
    y = rng.standard_normal(400)
    lam = float(np.quantile(np.abs(X.T @ y) / 400, 0.75))
    made = counted(monkeypatch)
    for most, swept in ((4_000, False), (20, True)):
        tuning = replace(SWEEPS, max_gram_columns=most)
        found = solve(X, y, "squared", L1(lam), fit_intercept=False, tuning=tuning)
        assert bool(made) is swept
        assert found.certificate.reached
