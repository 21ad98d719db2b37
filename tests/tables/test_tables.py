"""Tables in chunks of rows: the same solutions and certificates as in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import memory_limit
import numpy as np
import pytest
from scipy import sparse

from cyclade import linear
from cyclade.linear import (
    GeneralizedLinearClassifierCV,
    GeneralizedLinearCV,
    Lasso,
    RowChunks,
    WeightedLasso,
    WeightedLassoCV,
    losses,
    path,
    solve,
)
from cyclade.linear.kernels.block_gram import ONES
from cyclade.linear.losses import Loss, Quantile
from cyclade.linear.penalties import (
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    GroupL2,
    GroupMCP,
    Rows,
    Slope,
    SparseGroup,
    WeightedL1,
)  # fmt: skip
from cyclade.linear.penalties.joined import norm_table
from cyclade.linear.penalty_bound import bind
from cyclade.tables.chunks import Chunk, SlicedChunks
from cyclade.tables.fit import begin, minimise
from cyclade.tables.model import block_cycles
from cyclade.tables.passes import Column, Pass
from cyclade.tables.table import CheckedRows, TableProblem
from cyclade.tables.tuning import DEFAULT

SAME = 1e-8
rng = np.random.default_rng(0)
n, p = 240, 12
DENSE = rng.standard_normal((n, p)) + 0.3
DENSE[:, 5] += DENSE[:, 3]
DENSE *= rng.random((n, p)) < 0.7
Z = DENSE[:, 0] - 2.0 * DENSE[:, 3] + 0.5 * DENSE[:, 9]
TARGETS = {
    "real": Z + rng.standard_normal(n),
    "signs": np.where(Z + rng.standard_normal(n) > 0, 1.0, -1.0),
    "counts": rng.poisson(np.exp(np.clip(0.3 * Z, -3, 3))).astype(float),
    "positive": rng.gamma(2.0, np.exp(0.2 * Z)),
    "classes": np.argmax(np.stack([Z, -Z, DENSE[:, 1]], 1) + rng.gumbel(size=(n, 3)), axis=1),
    "two": np.stack([Z, 0.5 * Z - DENSE[:, 1]], axis=1) + rng.standard_normal((n, 2)),
}
WEIGHTS = rng.integers(0, 3, n).astype(float)
OFFSET = 0.3 * rng.standard_normal(n)
LOSSES = {
    "squared": "real", "huber": "real", "quantile": "real", "cauchy": "real", "welsch": "real",
    "geman_mcclure": "real", "tukey": "real", "logistic": "signs", "squared_hinge": "signs",
    "poisson": "counts", "gamma": "positive",
}  # fmt: skip
PENALTIES = {
    "l1": L1(0.03), "weighted": WeightedL1(0.03, np.linspace(0.5, 2.0, p)),
    "elastic_net": ElasticNet(0.03, 0.5), "box": Box(0.0, 0.5), "mcp": MCP(0.05, 3.0),
    "scad": SCAD(0.05, 3.7), "groups": GroupL2(0.03, 3),
    "positive_groups": GroupL2(0.03, 3, positive=True), "group_mcp": GroupMCP(0.03, 3.0, 3),
    "sparse_groups": SparseGroup(0.03, 0.5, [[0, 7, 2], [1, 3], [4, 5, 6, 8], [9, 10, 11]]),
}  # fmt: skip


def convex(penalty):
    return getattr(penalty, "convex", True)


def both(y, loss, penalty, X=DENSE, rows=50, tol=1e-9, **options):
    """The fit in chunks, once it was held against the one in memory."""
    inside = solve(X, y, loss, penalty, tol=tol, **options)
    found = solve(RowChunks(X, rows=rows), y, loss, penalty, tol=tol, **options)
    assert found.certificate.reached, found.certificate
    assert found.certificate.kind == inside.certificate.kind
    assert found.certificate.tolerance == pytest.approx(inside.certificate.tolerance, rel=1e-6)
    if convex(penalty):
        assert found.objective == pytest.approx(inside.objective, rel=SAME, abs=1e-12)
    else:  # stationary points, not always the same ones
        assert found.objective <= inside.objective * (1.0 + 0.02)
    assert found.coef.shape == inside.coef.shape
    assert found.coef.dtype == inside.coef.dtype
    assert np.shape(found.intercept) == np.shape(inside.intercept)
    return found


TWO_OFFSETS = np.stack([OFFSET, -OFFSET], axis=1)
CASES = [  # targets, loss, penalty and options
    *((TARGETS[LOSSES[loss]], loss, PENALTIES[penalty], data | {"fit_intercept": intercept})
      for loss in LOSSES for penalty in ("l1", "groups") for intercept in (False, True)
      for data in ({}, {"sample_weight": WEIGHTS, "offset": OFFSET})),
    *((TARGETS[LOSSES[loss]], loss, penalty, {"sample_weight": WEIGHTS})
      for loss in ("squared", "logistic") for penalty in PENALTIES.values()),
    *((TARGETS["classes"], "multinomial", penalty,
       {"sample_weight": WEIGHTS, "fit_intercept": intercept})
      for penalty in (L1(0.01), ElasticNet(0.03, 0.5), Rows(0.03)) for intercept in (False, True)),
    *((TARGETS["two"], loss, penalty, {"sample_weight": WEIGHTS, "offset": TWO_OFFSETS})
      for loss in ("squared", "huber") for penalty in (L1(0.05), Rows(0.05))),
]  # fmt: skip


@pytest.mark.parametrize(("y", "loss", "penalty", "options"), CASES)
def test_every_loss_and_penalty_agrees_with_memory(y, loss, penalty, options):
    both(y, loss, penalty, **options)


STORED = {form: sparse.csr_array(DENSE).asformat(form) for form in ("coo", "bsr", "lil")}
STORED |= {
    "csr": sparse.csr_matrix(DENSE), "csc": sparse.csc_array(DENSE), "F": np.asfortranarray(DENSE),
    "float32": DENSE.astype(np.float32), "list": [DENSE[:100], DENSE[100:]],
    "sparse list": [sparse.csr_matrix(DENSE[:100]), sparse.csr_matrix(DENSE[100:])],
}  # fmt: skip


@pytest.mark.parametrize("store", STORED)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_storage_agrees_with_memory(store, loss):
    X = STORED[store]
    inside = solve(
        DENSE if isinstance(X, list) else X, TARGETS[LOSSES[loss]], loss, L1(0.03), tol=1e-9
    )
    found = solve(RowChunks(X, rows=64), TARGETS[LOSSES[loss]], loss, L1(0.03), tol=1e-9)
    assert found.certificate.reached
    assert found.coef.dtype == inside.coef.dtype
    assert found.objective == pytest.approx(inside.objective, rel=SAME)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [L1(1.0), GroupL2(1.0, 3)], ids=["l1", "groups"])
def test_paths_agree_with_memory(loss, penalty):
    y = TARGETS[LOSSES[loss]]
    options = {"n_alphas": 6, "alpha_ratio": 0.05, "tol": 1e-9, "sample_weight": WEIGHTS}
    inside = path(DENSE, y, loss, penalty, **options)
    found = path(RowChunks(DENSE, rows=70), y, loss, penalty, **options)
    np.testing.assert_allclose(found.alphas, inside.alphas, rtol=1e-9)
    assert found.reached
    np.testing.assert_allclose(found.objectives, inside.objectives, rtol=SAME)
    assert found.coefs.shape == inside.coefs.shape


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", ["l1", "groups"])
def test_cross_validation_agrees_with_memory(loss, penalty):
    """Every loss: the same scores along the path, and the same final fit."""
    y = TARGETS[LOSSES[loss]]
    kind = GeneralizedLinearClassifierCV if LOSSES[loss] == "signs" else GeneralizedLinearCV
    penalty = GroupL2(1.0, 3) if penalty == "groups" else "l1"

    def fitted(X):
        model = kind(loss, penalty, n_alphas=4, alpha_ratio=0.1, cv=3, tol=1e-9)
        return model.fit(X, y, sample_weight=WEIGHTS)

    inside, found = fitted(DENSE), fitted(RowChunks(DENSE, rows=70))
    np.testing.assert_allclose(found.alphas_, inside.alphas_, rtol=1e-9)
    np.testing.assert_allclose(found.score_path_, inside.score_path_, rtol=1e-5, atol=1e-9)
    assert found.alpha_ == pytest.approx(inside.alpha_, rel=1e-9)
    assert found.objective_ == pytest.approx(inside.objective_, rel=SAME)


class Halves(Loss):
    """A loss without a conjugate, of the user."""

    bound = 1.0

    def value(self, y, z):
        return np.logaddexp(z - y, y - z) - np.log(2.0)

    def gradient(self, y, z):
        return np.tanh(z - y)


class Asymmetric:
    """A penalty of the user: λx above zero, 3λ|x| below."""

    convex = True

    def __init__(self, lam):
        self.lam = lam

    def value(self, x, j):
        return self.lam * (x if x > 0.0 else -3.0 * x)

    def prox(self, u, t, j):
        return max(u - t * self.lam, 0.0) if u > 0.0 else min(u + 3.0 * t * self.lam, 0.0)

    def distance(self, x, g, j):
        if x == 0.0:
            return max(-g - self.lam, g - 3.0 * self.lam, 0.0)
        return abs(g + (self.lam if x > 0.0 else -3.0 * self.lam))


def test_losses_and_penalties_of_the_user():
    both(TARGETS["real"], Halves(), L1(0.05))
    both(TARGETS["real"], "squared", Asymmetric(0.05))


@pytest.mark.parametrize(("loss", "scale"), [("poisson", 1e4), ("gamma", 1e-6)])
def test_the_intercept_may_be_far_from_its_start(loss, scale):
    y = scale * TARGETS[LOSSES[loss]]
    both(y, loss, L1(0.3 * (scale if loss == "poisson" else 1.0)))


def test_narrow_losses_are_approached_through_wider_ones():
    both(10.0 * TARGETS["real"], Quantile(0.3, smoothing=0.01), L1(0.1), tol=1e-6)


@pytest.mark.filterwarnings("ignore:.*without a certificate")
def test_the_certificate_of_a_float32_table_is_that_of_the_point_returned():
    rng = np.random.default_rng(0)
    X = (1e3 * rng.standard_normal((66, 25))).astype(np.float32)
    y, loss, penalty = X[:, 0] / 1e3 + rng.standard_normal(66), Quantile(0.4, 0.002), MCP(20.0)
    fit = solve(RowChunks(X, rows=20), y, loss, penalty, fit_intercept=False, tol=1e-6)
    wide, x = X.astype(np.float64), fit.coef.astype(np.float64)
    g = wide.T @ loss.gradient(y, wide @ x) / 66
    far = max(penalty.distance(x[j], g[j], j) for j in range(25))
    assert fit.certificate.value == pytest.approx(far, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("loss", ["cauchy", "huber"])
def test_the_units_of_an_unpenalised_column_do_not_decide_when_a_fit_ends(loss, unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 11))
    y = 5 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(200)
    penalty = WeightedL1(0.1, np.r_[0.0, np.ones(10)])
    plain = solve(RowChunks(X, rows=50), y, loss, penalty)
    X[:, 0] *= unit
    fit = solve(RowChunks(X, rows=50), y, loss, penalty)
    assert fit.certificate.reached
    np.testing.assert_allclose(fit.coef * np.r_[unit, np.ones(10)], plain.coef, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_largest_lambda_is_that_beside_unpenalised_columns(loss):
    penalty = WeightedL1(1.0, np.r_[0.0, 0.0, np.ones(p - 2)])
    y = TARGETS["signs" if loss == "logistic" else "real"]
    inside, found = (path(X, y, loss, penalty, n_alphas=3) for X in (DENSE, RowChunks(DENSE, 50)))
    np.testing.assert_allclose(found.alphas, inside.alphas, rtol=1e-6)


def test_a_start_is_taken_and_left_untouched():
    first = both(TARGETS["signs"], "logistic", L1(0.03))
    coef = first.coef.copy()
    again = solve(
        RowChunks(DENSE, rows=50), TARGETS["signs"], "logistic", L1(0.03), coef=coef,
        intercept=first.intercept, tol=1e-9,
    )  # fmt: skip
    assert len(again.history) == 1
    np.testing.assert_array_equal(coef, first.coef)


@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_steps_that_overshoot_are_shortened(loss):
    """From a start far away: F falls all the way, and a pass is made for every length tried."""
    draw, far = np.random.default_rng(5), np.full(15, 3.0)
    X = draw.standard_normal((2000, 15)) * (draw.random((2000, 15)) < 0.5)
    z = X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.3])
    y = np.where(z + draw.logistic(size=2000) > 0, 1.0, -1.0)
    y = draw.poisson(np.exp(0.5 * z)).astype(float) if loss == "poisson" else y
    chunks = Counted(RowChunks(X, rows=500), y, None, None)
    table = table_of(chunks, loss, L1(0.02))
    state = begin(table, far, 0.0)
    certificate = minimise(table, state, 1e-9, 10_000, lambda row: None)
    values = [row["objective"] for row in state.history]
    assert certificate.reached
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(values))
    inside = solve(X, y, loss, L1(0.02), tol=1e-10)
    assert state.measured.objective == pytest.approx(inside.objective, rel=1e-8)


def test_products_of_the_squared_loss_are_formed_once():
    chunks = Counted(RowChunks(DENSE, rows=50), TARGETS["real"], None, None)
    table = table_of(chunks, "squared", L1(0.01))
    state = begin(table, np.zeros(p), 0.0)
    minimise(table, state, 1e-10, 10_000, lambda row: None)
    asked = [list(task.new) for task in chunks.tasks if getattr(task, "new", None) is not None]
    every = [col for cols in asked for col in cols]
    assert len(every) == len(set(every))


class Counted(SlicedChunks):
    """Chunks that remember tasks and what they sent."""

    def __init__(self, *args):
        super().__init__(*args)
        self.tasks, self.sent = [], []

    def reduce(self, task, with_X=True):
        def watched(chunk):
            sums = task(chunk)
            self.sent.append(sum(np.size(v) for k, v in sums.items() if not k.startswith("list")))
            return sums

        self.tasks += [task] * with_X
        return super().reduce(watched, with_X)


def table_of(chunks, loss, penalty, fit_intercept=True):
    loss = losses.get(loss)
    seen = CheckedRows(chunks, loss, DEFAULT)
    column = Column(loss, None, None, seen.weight)
    return TableProblem(chunks, column, seen, bind(penalty, chunks.p), fit_intercept, DEFAULT)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "poisson"])
@pytest.mark.parametrize("lam", [0.2, 0.05, 0.02])
def test_no_chunk_sends_more_than_a_gradient_and_products(loss, lam):
    """In an outer iteration at most p and two triangles of |W| columns and the intercept.

    That is p + |W|² but for terms in |W|, and 20 a pass for losses, slopes and dual values. A step
    that has to be shortened costs one pass more; here only Huber's bends make one.
    """
    draw = np.random.default_rng(3)
    wide = draw.standard_normal((400, 150))
    z = wide[:, :8] @ np.linspace(-1.0, 1.0, 8)
    y = {
        "logistic": np.where(z + draw.standard_normal(400) > 0, 1.0, -1.0),
        "poisson": draw.poisson(np.exp(np.clip(0.3 * z, -2, 2))).astype(float),
    }.get(loss, z + draw.standard_normal(400))  # fmt: skip
    chunks = Counted(RowChunks(wide, rows=100), y, None, None)
    table = table_of(chunks, loss, L1(lam))
    state = begin(table, np.zeros(150), 0.0)
    chunks.sent.clear()
    before = table.reads
    certificate = minimise(table, state, 1e-8, 10_000, lambda row: None)
    assert certificate.reached
    passes = np.array(chunks.sent).reshape(-1, 4).max(axis=1)  # four chunks a pass
    for row in state.history[1:]:
        made = int(row["reads"]) - before
        own, passes = passes[:made], passes[made:]
        assert made <= (3 if loss == "huber" else 2)
        triangle = (row["working"] + 1) * (row["working"] + 2) // 2
        assert own.sum() <= max(made - 1, 1) * 150 + made * triangle + 20 * made, row
        before = int(row["reads"])
    assert not passes.size


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "squared_hinge", "poisson"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", [L1(0.05), ElasticNet(0.05, 0.5), GroupL2(0.05, 3)])
def test_gaps_are_never_too_small(loss, fit_intercept, penalty):
    """Far from the minimum too, where slopes are not zero: D is below min F."""
    y = TARGETS[LOSSES[loss]]
    best = solve(DENSE, y, loss, penalty, fit_intercept=fit_intercept, tol=1e-13).objective
    chunks = SlicedChunks(RowChunks(DENSE, rows=50), y, None, OFFSET * 0)
    table = table_of(chunks, loss, penalty, fit_intercept)
    for scale in (0.0, 0.01, 0.1, 0.5):
        x = scale * np.random.default_rng(1).standard_normal(p)
        c = scale if fit_intercept else 0.0
        found = table.reading(x, c, table.read(x, c))
        assert found.dual <= best + 1e-12 * (1.0 + abs(best))
        assert found.objective >= best - 1e-12


@pytest.mark.parametrize("form", ["flat", "shared", "by output"])
def test_cycles_over_blocks_follow_the_literal_ones(form):
    """Ten cycles, block by block, against proximal steps with the whole Hessian of a block."""
    T, k = (1, 6) if form == "flat" else (2, 3)
    G = np.stack([M.T @ M / n for M in rng.standard_normal((T, n, k))])
    G = G[:1] if form != "by output" else G
    starts = np.array([0, 2, 6]) if T == 1 else np.array([0, 2, 4, 6])
    table = norm_table(np.full(starts.size - 1, 0.05))
    whole = np.zeros((6, 6))
    for t in range(T):
        whole[t::T, t::T] = G[t if form == "by output" else 0]
    b, x = rng.standard_normal(6), np.zeros(6)
    for cycles in range(1, 11):
        found, made = block_cycles(
            G, b.copy(), np.zeros(6), starts, table, True, T, 0.0, cycles, DEFAULT
        )
        assert made == cycles
        for first, last in pairwise(starts):
            x = minimised(whole, b, x, first, last, 0.05)
        np.testing.assert_allclose(found, x, atol=1e-7)


def minimised(H, b, x, first, last, lam):
    """x with one block at the minimum, by thousands of proximal steps."""
    x, own = x.copy(), slice(first, last)
    L = np.linalg.eigvalsh(H[own, own])[-1]
    for _ in range(3000):
        v = x[own] + (b - H @ x)[own] / L
        size = np.linalg.norm(v)
        x[own] = v * max(1.0 - lam / (L * size), 0.0) if size else v
    return x


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(("loss", "outputs"), [("logistic", None), ("multinomial", 3)])
def test_passes_by_small_blocks_are_those_of_one(store, loss, outputs):
    """Whatever the cut into blocks and chunks, dense or sparse, the sums are the literal ones."""
    y = TARGETS["signs" if outputs is None else "classes"]
    column, cols, new = Column(losses.get(loss), outputs), np.array([0, 3]), np.array([ONES, 3, 8])
    x = np.array([0.1, -0.2])
    if outputs is not None:
        x = np.outer(x, [1.0, 0.5, -1.0])
    sums = []
    for entries, rows in ((2**20, n), (800, n), (2**20, 7)):
        for held in (new, np.array([ONES, 0, 3, 8])):  # without and with all columns of x
            task = Pass(
                column, replace(DEFAULT, cache=entries, chunk_rows=rows), cols, x, 0.3,
                dual=True, sides=True, squares=True, new=held,
            )  # fmt: skip
            found = task(Chunk(0, store(DENSE), y, WEIGHTS, None))
            if held is not new:
                found["products"] = sums[0]["products"]
            sums.append(found)
    z = DENSE[:, cols] @ x + 0.3
    u = column.loss.gradient(y, z)
    g = DENSE.T @ (WEIGHTS * u if outputs is None else WEIGHTS[:, None] * u)
    np.testing.assert_allclose(sums[0]["g"], g, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums[0]["squares"], (DENSE**2).T @ WEIGHTS, rtol=1e-12)
    np.testing.assert_allclose(sums[0]["value"], WEIGHTS @ column.loss.value(y, z), rtol=1e-12)
    for other in sums[1:]:
        for name, value in sums[0].items():
            np.testing.assert_allclose(value, other[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": TARGETS["real"][:-1]}, "y: X has 240 rows"),
        ({"sample_weight": -np.ones(n)}, "sample_weight must hold numbers >= 0"),
        ({"sample_weight": np.zeros(n)}, "at least one weight must not be zero"),
        ({"y": np.where(np.arange(n) == 3, np.nan, 1.0)}, "y must hold finite numbers"),
        ({"offset": np.zeros((n, 2))}, "offset: there are 1 outputs"),
        ({"penalty": Slope(0.1)}, "Slope is not to be had for tables in chunks"),
        ({"tol": -1.0}, "tol"),
        ({"coef": np.zeros(3)}, "coef: X has 12 columns"),
    ],
)
def test_bad_arguments_are_named(change, message):
    given = {"y": TARGETS["real"], "penalty": L1(0.1), **change}
    y, penalty = given.pop("y"), given.pop("penalty")
    with pytest.raises(ValueError, match=message):
        solve(RowChunks(DENSE, rows=50), y, "squared", penalty, **given)


@pytest.mark.parametrize("name", ["BestSubset", "BestSubsetCV", "CoxRegression", "SqrtLassoCV"])
def test_models_that_need_x_in_memory_say_so(name):
    model = getattr(linear, name)()
    with pytest.raises(ValueError, match=f"X must be in memory, not in chunks, for {name}"):
        model.fit(RowChunks(DENSE, rows=50), TARGETS["positive"])


def test_bad_tables_are_named():
    with pytest.raises(ValueError, match="same number of columns"):
        RowChunks([DENSE, DENSE[:, :3]])
    with pytest.raises(TypeError, match="shape and dtype"):
        RowChunks([[1.0, 2.0]])
    with pytest.raises(ValueError, match="at least one row"):
        RowChunks(np.empty((0, 3)))
    with pytest.raises(ValueError, match="rows"):
        RowChunks(DENSE, rows=0)
    spoilt = DENSE.copy()
    spoilt[7, 2] = np.nan
    with pytest.raises(ValueError, match="X: must hold finite numbers"):
        solve(RowChunks(spoilt, rows=50), TARGETS["real"], "squared", L1(0.1))


def test_one_weight_for_all_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.standard_normal(60)
    table = RowChunks(X, rows=25)
    alone = solve(table, y, alpha=0.1).objective
    assert solve(table, y, alpha=0.1, sample_weight=2.0).objective == alone
    assert Lasso(0.1).fit(table, y, sample_weight=2.0).objective_ == pytest.approx(alone)
    with pytest.raises(ValueError, match="at least one weight"):
        solve(table, y, alpha=0.1, sample_weight=0.0)
    with pytest.raises(ValueError, match="y: must hold real numbers, got dtype datetime64"):
        solve(table, np.arange(60).astype("M8[s]"), alpha=0.1)


def test_predictions_are_refused_where_rows_have_gaps():
    X = np.ones((60, 2))
    model = Lasso(0.1).fit(RowChunks(np.arange(120.0).reshape(60, 2), rows=25), np.arange(60.0))
    X[30, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinity .* in row 30"):
        model.predict(RowChunks(X, rows=25))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("rows", "limit", "peak"),
    [(0.3, 0.3, 0.2), pytest.param(4.0, 1.0, 1.0, marks=pytest.mark.slow)],
)
def test_rows_larger_than_memory_are_fitted(tmp_path, rows, limit, peak):
    """So many GiB of rows under a limit."""
    memory_limit.write(tmp_path, rows)
    found = memory_limit.run(tmp_path, limit)
    assert found["limit is real"]
    assert found["reached"] == [True, True]
    assert {0, 5} <= set(found["support"])
    assert found["peak"] < peak * 2**30


@pytest.mark.parametrize("y", [1, 2], ids=["one", "two"])
def test_adaptive_weights_are_those_of_memory(y):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 6))
    Y = X @ rng.standard_normal((6, y)) + rng.standard_normal((90, y))
    Y = Y[:, 0] if y == 1 else Y
    weights = rng.integers(0, 3, 90).astype(float)
    found, inside = WeightedLasso(0.05), WeightedLasso(0.05)
    found.fit(RowChunks(X, rows=40), Y, weights)
    inside.fit(X, Y, weights)
    np.testing.assert_allclose(found.weights_, inside.weights_, rtol=1e-6)
    assert found.objective_ == pytest.approx(inside.objective_, rel=1e-6)
    options = {"n_alphas": 4, "alpha_ratio": 0.1, "cv": 3}
    chosen = WeightedLassoCV(**options).fit(RowChunks(X, rows=40), Y)
    expected = WeightedLassoCV(**options).fit(X, Y)
    np.testing.assert_allclose(chosen.score_path_, expected.score_path_, rtol=1e-4)
