"""Several λ of a path at once: the solutions of the working sets, and bounds that hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import path
from cyclade.linear.kernels.gram import minimise
from cyclade.linear.kernels.gram_path import segment
from cyclade.linear.penalties import L1, MCP, ElasticNet, WeightedL1
from cyclade.linear.penalty_bound import bind
from cyclade.linear.starts import segments
from cyclade.linear.tuning import Tuning

ENGINE = {"calls": 0.0, "path_passes": 0.0}  # small dense tables are solved otherwise
HERE, NEVER = Tuning(**ENGINE), Tuning(segment_price=-1.0, **ENGINE)


def categories(n=400, seed=0):
    """One-hot columns, a response from few of them, and weights."""
    rng = np.random.default_rng(seed)
    blocks = []
    for size in (3, 8, 40, 70):
        weights = 1.0 / np.arange(1, size + 1)
        chosen = rng.choice(size, n, p=weights / weights.sum())
        blocks.append(sp.csr_matrix((np.ones(n), chosen, np.arange(n + 1)), shape=(n, size)))
    X = sp.hstack(blocks).tocsc()
    X = X[:, np.diff(X.indptr) > 0]
    x = np.where(rng.random(X.shape[1]) < 0.15, rng.standard_normal(X.shape[1]), 0.0)
    return X, X @ x + 0.5 * rng.standard_normal(n), rng.random(n) + 0.5


def watched(monkeypatch):
    """What segments end in, and whether they were given up."""
    ends, seen = [], []
    judged, ahead = segments.End.judged, segments.Segments.ahead
    monkeypatch.setattr(
        segments.End, "judged", lambda self, tol: ends.append(self) or judged(self, tol)
    )

    def look(self, *rest):
        found = ahead(self, *rest)
        seen.append((self, 0 if found is None else len(found.coefs)))
        return found

    monkeypatch.setattr(segments.Segments, "ahead", look)
    return ends, seen


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", ["l1", "positive", "elastic net", "weighted"])
def test_solutions_are_those_of_working_sets(monkeypatch, name, intercept, dense):
    X, y, weights = categories()
    penalty = {
        "l1": L1(1.0),
        "positive": L1(1.0, positive=True),
        "elastic net": ElasticNet(1.0, 0.7),
        "weighted": WeightedL1(1.0, np.linspace(0.5, 2.0, X.shape[1])),
    }[name]
    X = np.asfortranarray(X.toarray()) if dense else X
    data = {"fit_intercept": intercept, "n_lams": 60, "lam_ratio": 0.02, "tol": 1e-9}
    data["sample_weight"] = weights if intercept else None
    slow = path(X, y, "squared", penalty, tuning=NEVER, **data)
    _, seen = watched(monkeypatch)
    fast = path(X, y, "squared", penalty, tuning=HERE, **data)
    assert sum(many for _, many in seen) > 20  # of 60 λ
    np.testing.assert_allclose(fast.objectives, slow.objectives, rtol=1e-8)
    z = [X @ found.coefs + found.intercepts for found in (fast, slow)]  # columns are dependent
    np.testing.assert_allclose(*z, atol=5e-4)
    best = np.minimum(fast.objectives, slow.objectives)
    for k, certificate in enumerate(fast.certificates):
        assert certificate.reached
        assert fast.objectives[k] - best[k] <= certificate.value + 1e-14


def test_columns_left_out_are_below_their_thresholds_at_every_lam(monkeypatch):
    X, y, _ = categories()
    ends, _ = watched(monkeypatch)
    path(X, y, "squared", L1(1.0), n_lams=60, lam_ratio=0.02, tuning=HERE)
    assert ends
    for end in ends:
        out = np.ones(X.shape[1], bool)
        out[end.cols] = False
        for lam, x, g in zip(end.lams, end.coefs, end.g, strict=True):
            u = np.asarray(X[:, end.cols] @ x) - y
            exact = X.T @ (u - u.mean()) / y.size
            assert np.abs(exact[out]).max(initial=0.0) <= lam * (1 + 1e-9)
            np.testing.assert_allclose(g, exact[end.cols], atol=1e-12)


def test_cycles_at_one_lam_after_another_follow_single_models():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((50, 12))
    G, b, lams = A.T @ A / 50, A.T @ rng.standard_normal(50) / 50, np.geomspace(0.1, 0.02, 5)
    x, c, L, unit = np.zeros(12), b.copy(), G.diagonal().copy(), L1(1.0).unit
    coefs, g, made = np.empty((5, 12)), np.empty((5, 12)), np.empty(5, np.int64)
    assert (
        segment(G, c, x, L, bind(L1(1.0), 12).parameters[0], unit, lams, 1e-10, 999, coefs, g, made)
        == 5
    )
    for lam, found, slopes in zip(lams, coefs, g, strict=True):
        known, x, c = bind(L1(lam), 12), np.zeros(12), b.copy()
        minimise(
            G, c, x, L, np.arange(12), known.parameters, known.zero_threshold, 1e-12, 999, False
        )
        np.testing.assert_allclose(found, x, atol=1e-8)
        np.testing.assert_allclose(slopes, G @ found - b, atol=1e-12)
    few = segment(G, b.copy(), np.zeros(12), L, 0, unit, lams, 1e-10, 1, coefs, g, made)
    assert few < 5  # one cycle is not enough for the last of them


@pytest.mark.parametrize("why", ["dear", "large", "offset", "loss", "nonconvex"])
def test_there_are_none_where_they_do_not_suit(monkeypatch, why):
    X, y, _ = categories()
    kwargs = {"n_lams": 40, "lam_ratio": 0.1, "tuning": HERE}
    loss, penalty = "squared", L1(1.0)
    if why == "dear":
        kwargs["tuning"] = NEVER
    elif why == "large":
        kwargs["tuning"] = Tuning(segment_entries=10, **ENGINE)
    elif why == "offset":
        kwargs["offset"] = np.random.default_rng(0).standard_normal(y.size)
    elif why == "loss":
        loss = "huber"
    else:
        penalty = MCP(1.0, 3.0)
    _, seen = watched(monkeypatch)
    found = path(X, y, loss, penalty, **kwargs)
    assert not any(many for _, many in seen)
    assert all(certificate.reached for certificate in found.certificates)


def test_they_end_where_cycles_are_slow(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((800, 60)) + 8.0 * rng.standard_normal((800, 1)))
    y = X[:, :5] @ np.arange(5.0) + rng.standard_normal(800)
    _, seen = watched(monkeypatch)
    found = path(X, y, "squared", L1(1.0), n_lams=60, lam_ratio=1e-3, tuning=HERE)
    assert seen[-1][0].over
    assert sum(many for _, many in seen) < 30
    assert all(certificate.reached for certificate in found.certificates)


def test_a_checkpoint_has_every_solution(tmp_path):
    X, y, _ = categories()
    kwargs = {"n_lams": 30, "lam_ratio": 0.1, "tuning": HERE}
    whole = path(X, y, "squared", L1(1.0), **kwargs)
    kept = path(X, y, "squared", L1(1.0), checkpoint=tmp_path / "kept", **kwargs)
    np.testing.assert_array_equal(kept.coefs, whole.coefs)
    again = path(X, y, "squared", L1(1.0), checkpoint=tmp_path / "kept", **kwargs)
    np.testing.assert_array_equal(again.coefs, whole.coefs)
