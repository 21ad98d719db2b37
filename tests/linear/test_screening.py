"""Screening: columns that are skipped are safe to skip, and certificates are those of all."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, path, solve
from cyclade.linear.kernels.columns import bound_gradient
from cyclade.linear.loss_at import loss_at
from cyclade.linear.penalties import L1, MCP, Box, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem, as_design
from cyclade.linear.screening import Gradient, Reader
from cyclade.linear.state import begin, judge, rebase
from cyclade.linear.tuning import CostModel, Tuning

N, P = 40, 300
KINDS = ["dense", "rows", "float32", "sparse"]


def matrix(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P)) * np.geomspace(3.0, 0.1, P)
    if kind == "sparse":
        return sp.csc_array(X * (rng.random((N, P)) < 0.2))
    if kind == "float32":
        return np.asfortranarray(X, np.float32)
    return np.ascontiguousarray(X) if kind == "rows" else np.asfortranarray(X)


def dense(X):
    return np.asarray(X.todense() if sp.issparse(X) else X, np.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_not_read_is_below_its_threshold_and_the_rest_is_exact(kind, seed):
    X = matrix(kind)
    design, rng = as_design(X, uneven=kind != "float32"), np.random.default_rng(seed)
    reader, zero_threshold = Reader(design, many=True), rng.uniform(10.0, 40.0, P)
    x = np.where(rng.random(P) < 0.03, 1.0, 0.0)
    v, unread = rng.standard_normal(N), 0
    for step in np.geomspace(1.0, 1e-4, 12):
        v = (1.0 + 0.3 * step) * v + step * rng.standard_normal(N)
        found = reader.at(v, x, zero_threshold)
        true = dense(X).T @ v
        known = np.ones(P, bool) if found.known is None else found.known
        close = 1e-4 if kind == "float32" else 1e-10
        np.testing.assert_allclose(found.g[known], true[known], rtol=close, atol=close)
        assert (np.abs(true[~known]) < zero_threshold[~known]).all()
        assert (np.abs(found.g[~known]) < zero_threshold[~known]).all()
        assert known[x != 0].all()
        unread += np.count_nonzero(~known)
        cols = np.flatnonzero(rng.random(P) < 0.2)
        np.testing.assert_allclose(found.exactly(cols), true[cols], rtol=close, atol=close)
    assert unread > 0 if kind != "rows" else unread == 0  # rows: columns would have to be picked


def test_a_smaller_threshold_lets_more_columns_be_read():
    design, rng = as_design(matrix("dense")), np.random.default_rng(3)
    reader, v = Reader(design, many=True), rng.standard_normal(N)
    nowhere = np.zeros(P)
    reader.at(v, nowhere, np.full(P, 20.0))
    found = reader.at(v + 1e-2 * rng.standard_normal(N), nowhere, np.full(P, 20.0))
    before = np.count_nonzero(found.known)
    found.read_undecided(nowhere, np.full(P, 8.0))
    assert 0 <= before < np.count_nonzero(found.known) < P
    found.read_undecided(
        nowhere, np.full(P, 1e-3)
    )  # nearly all: in one pass, and later ones go by it
    assert found.known is None
    assert reader.v is found.v


@pytest.mark.parametrize("angle", [1.0, 1e-2, 1e-4, 1e-7, 0.0])
def test_bounds_start_from_two_gradients(angle):
    X, rng = matrix("dense"), np.random.default_rng(4)
    v0, across, far = rng.standard_normal((3, N))
    v1 = 1.5 * v0 + angle * across
    g0, g1, out = X.T @ v0, X.T @ v1, np.empty(P)
    rounding = 1e4 * np.finfo(np.float64).eps
    for v in (v0, v1, 3.0 * v1 - 2.0 * v0, v1 + 0.1 * angle * far, far):
        error = bound_gradient(v, v0, g0, v1, g1, rounding, out)
        assert (np.abs(out - X.T @ v) <= error * np.linalg.norm(X, axis=0)).all()
        nearest = np.linalg.lstsq(np.stack([v0, v1], axis=1), v)[0]
        least = np.linalg.norm(v - nearest @ [v0, v1])
        assert error <= 1.01 * least + (1e-5 if angle else 1e-9) * np.linalg.norm(v)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_never_screened_out(bad):
    reader, v = Reader(as_design(matrix("dense")), many=True), np.ones(N)
    reader.at(v, np.zeros(P), np.full(P, 1e3))
    with np.errstate(invalid="ignore"):
        found = reader.at(np.where(np.arange(N) == 3, bad, v), np.zeros(P), np.full(P, 1e3))
    assert found.known is None
    assert not np.isfinite(found.g).any()


PENALTIES = [
    L1(1.0),
    L1(1.0, positive=True),
    ElasticNet(1.0, 0.7),
    WeightedL1(1.0, np.linspace(0.5, 2.0, P)),
    Box(-0.2, 0.3, 1.0),
    MCP(1.0, 3.0),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_certificates_of_a_path_are_those_of_all_columns(monkeypatch, penalty, loss, fit_intercept):
    X, rng = matrix("dense"), np.random.default_rng(1)
    y = X[:, :5] @ rng.standard_normal(5) + rng.standard_normal(N)
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    read, some = [], Gradient._read
    monkeypatch.setattr(
        Gradient, "_read", lambda self, cols: (read.append(cols.size), some(self, cols))[1]
    )
    phi, s, options = losses.get(loss), np.full(N, 1 / N), {"fit_intercept": fit_intercept}
    start = Problem(as_design(X), y, s, np.zeros(N), phi, bind(L1(1.0), P), fit_intercept)
    lams = float(np.abs(start.null_gradient).max()) * np.geomspace(0.9, 0.05, 25)
    engine = Tuning(cost=CostModel(calls=-np.inf))  # small tables have a way of their own
    found = path(X, y, phi, penalty, alphas=lams, tol=1e-5, tuning=engine, **options)
    assert len(read) > 5  # the shortcut was taken
    for k, (lam, certificate) in enumerate(zip(lams.tolist(), found.certificates, strict=True)):
        problem = start.at(penalty.scaled(lam))
        problem.reader = None
        x = np.ascontiguousarray(found.coefs[:, k])
        here = loss_at(phi, y, s, problem.predict(x, float(found.intercepts[k])))
        alone = judge(problem, x, here, problem.gradient(here.slopes, x))
        assert alone.gradient.known is None
        assert alone.objective == pytest.approx(found.objectives[k], rel=1e-12)
        scale = problem.null.scale
        if certificate.kind == "distance":
            assert alone.distance == pytest.approx(certificate.value, rel=1e-6, abs=1e-10 * lam)
        else:  # the best dual point so far may be an earlier one: never a worse bound
            assert certificate.value <= alone.gap + 1e-12 * scale
            assert certificate.tolerance == pytest.approx(1e-5 * scale)
        if penalty.convex:
            least = solve(X, y, phi, penalty.scaled(lam), tol=1e-11, **options).objective
            if certificate.kind == "gap":  # what it must not promise less than
                assert certificate.value >= found.objectives[k] - least - 1e-10 * scale
            assert found.objectives[k] == pytest.approx(least, abs=2e-5 * scale)


def test_a_state_rebased_to_a_smaller_threshold_is_measured_as_if_all_were_read():
    X, rng = matrix("dense"), np.random.default_rng(2)
    y = X[:, :5] @ rng.standard_normal(5) + rng.standard_normal(N)
    design, s = as_design(X), np.full(N, 1 / N)
    problem = Problem(
        design, y, s, np.zeros(N), losses.get("squared"), bind(L1(5.0), P), False,
        reader=Reader(design, many=True),
    )  # fmt: skip
    begin(problem, np.zeros(P), 0.0)
    x = np.where(np.arange(P) == 0, 1e-3, 0.0)
    state = begin(problem, x, 0.0)
    assert state.measured.gradient.known is not None
    for lam in (3.0, 1.0, 0.3):
        smaller = problem.at(L1(lam))
        rebase(smaller, state)
        g = X.T @ (s * (X @ x - y))
        np.testing.assert_allclose(
            state.measured.distances, smaller.penalty.check(x, g)[0], atol=1e-12
        )
