"""What an exact model keeps: a panel that grows, products of columns, one pass per check."""

from __future__ import annotations

import literal_ccd as reference
import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import path, starts
from cyclade.linear.loss_at import LossAt, SquaredLossAt
from cyclade.linear.losses import Squared
from cyclade.linear.panels.sparse import SharedPanel, SparsePanel
from cyclade.linear.penalties import L1, MCP, SCAD, Box, ElasticNet, LogSum, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem, as_design
from cyclade.linear.subproblem.coordinate import IncrementalPanelSolver, cycles
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.tuning import DEFAULT, Tuning

CYCLES = 12
STORAGES = [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix]


def data(even, n=30, p=21):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.3] = 0.0
    w = np.full(n, 1.0 / n) if even else rng.uniform(0.5, 2.0, n) / n
    return X, X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(n), w


def grown(X, y, w, centred, goes, tuning):
    """A panel that took its columns in one go after another, begun at zero; their places."""
    design = as_design(X, tuning=tuning)
    panel_solver = IncrementalPanelSolver(design.growing_panel(w, centred), design.p)
    for cols in goes:
        panel_solver.places(cols)
    at = panel_solver.places(np.unique(np.concatenate(goes)))
    slopes = -w * y
    panel_solver.start(np.zeros(design.p), slopes, float(slopes.sum()))
    panel_solver.residual()
    return panel_solver.panel, at


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("long", [0, 10**9])
def test_a_panel_that_grew_follows_core_cycle(long, storage, centred, even):
    tuning = Tuning(long_run=8 * long)
    X, y, w = data(even)
    goes = [np.array([7, 2, 19]), np.array([0, 11, 2]), np.array([3, 15, 4, 20, 8, 1, 9])]
    penalty = MCP(0.1, 3.0)
    known, (panel, at) = bind(penalty, X.shape[1]), grown(storage(X), y, w, centred, goes, tuning)
    if storage is sp.csc_matrix:
        assert type(panel) is (SharedPanel if even and not long else SparsePanel)
    m, ybar = (w @ X / w.sum(), w @ y / w.sum()) if centred else (np.zeros(X.shape[1]), 0.0)
    cols = panel.cols[at]
    A, t = X[:, cols] - m[cols], y - ybar
    run = reference.run(A, t, Squared(), penalty, K=CYCLES, sample_weight=w, total=1.0)
    for now in run[1:]:
        cycles(panel, at, known, 1, 0.0)
        np.testing.assert_allclose(panel.x[at], now.coef, rtol=1e-8, atol=1e-11)
    assert 0 < np.count_nonzero(now.coef) < at.size
    rest = np.sqrt(w) * (t - A @ now.coef)
    np.testing.assert_allclose(panel.residual(), rest, atol=1e-12)
    np.testing.assert_allclose(panel.means[at], m[cols], atol=1e-12)
    correlations = (A * np.sqrt(w)[:, None]).T @ rest
    np.testing.assert_allclose(panel.correlations(at), correlations, atol=1e-12)
    np.testing.assert_allclose(panel.correlations(at[::3]), correlations[::3], atol=1e-12)
    assert panel.entries(at) == (X[:, cols] != 0).sum() or storage is not sp.csc_matrix


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("storage", STORAGES)
def test_products_are_kept_while_a_panel_grows(storage, centred, even):
    X, y, w = data(even)
    p = X.shape[1]
    m = w @ X / w.sum() if centred else np.zeros(p)
    A = ((X - m) * np.sqrt(w)[:, None]).T
    known, design = bind(L1(0.05), p), as_design(storage(X), tuning=Tuning(long_run=0))
    panel_solver = IncrementalPanelSolver(design.growing_panel(w, centred), p)
    gram, slopes = Gram(), -w * y
    for cols in (np.array([7, 2, 19]), np.array([0, 11, 2, 7]), np.arange(p)):
        at = panel_solver.places(cols)
        panel_solver.start(np.zeros(p), slopes, float(slopes.sum()))
        panel_solver.residual()
        panel, order = panel_solver.panel, at[::2]
        gram.take(panel, known, order, panel.correlations(at), at)
        assert set(order) <= set(gram.columns) <= set(at)
        np.testing.assert_allclose(gram.G, A[gram.cols] @ A[gram.cols].T, atol=1e-12)
        gram.minimise(1e-14, 100_000)
        gram.give(panel)
        np.testing.assert_allclose(panel.correlations(gram.columns), gram.c, atol=1e-11)
        distances = known.distances(gram.cols, gram.x, -gram.c)
        assert distances.max() < 1e-12


@pytest.mark.parametrize("small", [0, 1_000])
def test_newton_steps_in_either_loop(small):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20)) * np.geomspace(1, 0.05, 20) + rng.standard_normal((60, 1))
    y, w = X @ rng.standard_normal(20), np.full(60, 1 / 60)
    known = bind(L1(1e-4), 20)
    panel = as_design(np.asfortranarray(X)).panel(np.arange(20), w, False)
    panel.start(np.sqrt(w) * y, np.zeros(20))
    gram = Gram(Tuning(small_gram=small))
    gram.take(panel, known, np.arange(20), panel.correlations())
    done = gram.minimise(1e-12, 100_000)
    assert known.distances(gram.cols, gram.x, -gram.c).max() < 1e-10
    assert done < 2_000  # plain cycles need many times that


@pytest.mark.parametrize("small", [0, 1_000])
@pytest.mark.parametrize("seed", range(6))
def test_newton_steps_go_on_until_columns_no_longer_leave(small, seed):
    """Beside a component that all columns share, most of those that cycles take in must leave."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((3_000, 60))
    X, y = 1e4 * rng.standard_normal((3_000, 1)) + noise, noise[:, 0] - noise[:, 1]
    G, b = X.T @ X / 3_000, X.T @ y / 3_000
    known = bind(L1(0.01 * float(np.abs(b).max())), 60)
    gram = Gram.of(G, b, np.zeros(60), np.arange(60), known, Tuning(small_gram=small))
    assert gram.minimise(1e-3, 2_000) < 2_000
    assert known.distances(gram.cols, gram.x, -gram.c).max() < 1e-1


@pytest.mark.parametrize(
    "penalty", [L1(0.5), ElasticNet(0.5, 0.5), Box(-0.2, 0.3, 0.3), MCP(0.5), LogSum(0.5, 0.5)]
)
def test_a_check_is_distances_and_value_in_one_pass(penalty):
    rng = np.random.default_rng(1)
    x, g = rng.uniform(-0.2, 0.3, 50) * (rng.random(50) < 0.5), rng.standard_normal(50)
    known = bind(penalty, 50)
    distances, largest, r, finite = known.check(x, g)
    np.testing.assert_allclose(distances, [penalty.distance(x[j], g[j], j) for j in range(50)])
    assert largest == distances.max()
    assert r == pytest.approx(sum(penalty.value(x[j], j) for j in range(50)), rel=1e-12)
    assert finite
    for bad in (np.nan, np.inf, -np.inf):
        assert not known.check(x, np.append(g[:-1], bad))[3]


def test_columns_by_what_they_are():
    rng = np.random.default_rng(2)
    weights = np.where(rng.random(200) < 0.1, 0.0, 1.0)
    x = rng.standard_normal(200) * (rng.random(200) < 0.2)
    g, known = 2.0 * rng.standard_normal(200), bind(WeightedL1(1.0, weights), 200)
    distances = np.maximum(np.abs(g) - weights, 0.0)
    found = known.candidates(x, g, distances, 0.75, None)
    rest = (x == 0) & (distances == 0)
    np.testing.assert_array_equal(found.support, np.flatnonzero(x))
    np.testing.assert_array_equal(found.violating, np.flatnonzero((x == 0) & (distances > 0)))
    near = np.flatnonzero(rest & (weights > 0) & (np.abs(g) > 0.75))
    np.testing.assert_array_equal(found.close, near)


def test_a_look_at_squares_is_a_look_at_any_loss():
    rng = np.random.default_rng(3)
    y, z, s = rng.standard_normal((3, 40))
    s = np.abs(s) / np.abs(s).sum()
    quick, plain = SquaredLossAt(Squared(), y, s, z), LossAt(Squared(), y, s, z)
    np.testing.assert_allclose(quick.u, plain.u)
    np.testing.assert_allclose(quick.slopes, plain.slopes)
    assert quick.value == pytest.approx(plain.value, rel=1e-12)
    for shrink in (1.0, 0.3):
        assert quick.dual(shrink) == pytest.approx(plain.dual(shrink), rel=1e-11)


def test_the_best_intercept_of_squares_is_that_of_any_loss():
    X, y, w = data(even=False)
    design, s, x = as_design(X), w / w.sum(), np.linspace(-1.0, 1.0, X.shape[1])
    offset = np.linspace(0.0, 3.0, y.size)
    problem = Problem(design, y, s, offset, Squared(), bind(L1(1.0), design.p), True)
    quick, c = problem.settle(x, 7.0)
    plain, d = problem.shifted(problem.predict(x, 7.0), 7.0)
    assert c == pytest.approx(d, rel=1e-13)
    np.testing.assert_allclose(quick.z, problem.predict(x, c), atol=1e-13)
    assert quick.value == pytest.approx(plain.value, rel=1e-13)
    assert abs(quick.balance[0]) <= 1e-15 * quick.balance[1]


@pytest.mark.parametrize("weights", [False, True])
def test_long_sparse_columns_give_what_dense_ones_give(weights):
    rng = np.random.default_rng(4)
    n, p = 400, 30
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.5)
    y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
    s = rng.uniform(0.5, 2.0, n) if weights else None
    given = X.copy()
    sparse = path(sp.csc_matrix(X), y, n_alphas=12, sample_weight=s, tol=1e-10)
    dense = path(X, y, n_alphas=12, sample_weight=s, tol=1e-10)
    assert sparse.reached
    assert dense.reached
    np.testing.assert_allclose(sparse.coefs, dense.coefs, atol=1e-5)
    np.testing.assert_allclose(sparse.objectives, dense.objectives, rtol=1e-9)
    np.testing.assert_array_equal(X, given)


@pytest.mark.parametrize("penalty", [MCP(0.7, 2.5), SCAD(0.7, 3.2), LogSum(0.7, 0.4)], ids=repr)
def test_a_straighter_penalty_bends_less_from_the_same_slope(penalty):
    convex = penalty.convex_part()
    for times in (2.0, 4.0):
        other = penalty.straighter(times)
        assert type(other) is type(penalty)
        assert other.threshold(0) == pytest.approx(penalty.threshold(0))
        for x in (0.1, 0.5, 1.0, 3.0):
            assert penalty.value(x, 0) <= other.value(x, 0) + 1e-15
            assert other.value(x, 0) <= convex.value(x, 0) + 1e-15
    assert penalty.straighter(1e9).value(1.0, 0) == pytest.approx(convex.value(1.0, 0))


def test_a_nonconvex_penalty_is_bent_step_by_step_from_its_convex_part():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 150))
    y = X[:, :12] @ rng.choice([-1.0, 1.0], 12) + 0.5 * rng.standard_normal(60)
    g = X.T @ (y - y.mean()) / 60
    lam = 0.05 * float(np.abs(g).max())
    *path_of_l1, four, two = (stage[0] for stage in starts.easier(MCP(lam, 3.0), True, g, DEFAULT))
    assert all(type(r) is L1 for r in path_of_l1)
    lams = [r.lam for r in path_of_l1]
    assert lams == sorted(lams, reverse=True)
    assert len(lams) > 1
    assert lams[-1] == lam
    assert (four.lam, four.gamma, two.lam, two.gamma) == (lam, 12.0, lam, 6.0)


def test_products_of_shared_columns_that_were_not_in_the_working_set_are_centred():
    """Where nearly all columns are in, products of all are formed; the others had no means yet."""
    rng = np.random.default_rng(0)
    X = sp.csc_matrix(rng.standard_normal((60, 6)) + 100.0)
    weights = np.full(60, 1 / 60)
    begins, rows = X.indptr.astype(np.uint64), X.indices.astype(np.uint32)
    panel = SharedPanel(X.data, rows, begins, np.arange(5), weights, True)
    G = panel.products(np.empty(0, np.int64), np.arange(6), np.empty((0, 0)))
    np.testing.assert_allclose(G, np.cov(X.toarray().T, bias=True), atol=1e-9)
