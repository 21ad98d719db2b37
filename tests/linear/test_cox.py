"""Cox models against the partial likelihood written out and their own rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimator_cases import weighs_and_reads

from cyclade.linear import CoxRegression, CoxRegressionCV, concordance, penalties, survival
from cyclade.linear.cox import Cox


def draw(n: int = 120, p: int = 5, seed: int = 0) -> tuple[np.ndarray, dict[str, Any]]:
    """Columns far from zero, tied times, censoring, strata, late entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 3.0
    died = rng.exponential(np.exp(-(X[:, 0] - 0.5 * X[:, 1])))
    left = rng.exponential(2.0 * np.median(died), n)
    time = np.ceil(8.0 * np.minimum(died, left)) / 8.0
    entry = np.where(rng.random(n) < 0.5, 0.9 * time * rng.random(n), 0.0)
    return X, {"time": time, "event": died <= left, "entry": entry, "strata": np.arange(n) % 3}


def literal(y: np.ndarray, w: np.ndarray, z: np.ndarray, ties: str) -> float:
    """Minus the partial log-likelihood over Σw, by its definition."""
    F = 0.0
    for stratum in np.unique(y["stratum"]):
        inside = y["stratum"] == stratum
        for t in np.unique(y["time"][inside & y["event"]]):
            dead = inside & y["event"] & (y["time"] == t)
            risk = inside & (y["time"] >= t) & (y["entry"] < t)
            e, m = w * np.exp(z), int(dead.sum())
            F -= float((w * z)[dead].sum())
            for k in range(m):
                part = k / m if ties == "efron" else 0.0
                F += w[dead].sum() / m * float(np.log(e[risk].sum() - part * e[dead].sum()))
    return F / float(w.sum())


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("more", [(), ("entry",), ("strata",), ("entry", "strata")])
def test_the_loss_is_the_partial_likelihood(ties: str, more: tuple[str, ...]) -> None:
    X, given = draw()
    y = survival(given["time"], given["event"], **{name: given[name] for name in more})
    rng, rows = np.random.default_rng(1), np.arange(120.0)
    w, z = rng.integers(1, 4, y.size).astype(float), X @ rng.standard_normal(5)
    loss = Cox(y, w, ties)
    assert loss.value(rows, z).mean() == pytest.approx(literal(y, w, z, ties), abs=1e-12)
    h = 1e-5 * np.eye(y.size)[:12]
    found = [(literal(y, w, z + d, ties) - literal(y, w, z - d, ties)) / 2e-5 for d in h]
    np.testing.assert_allclose(loss.gradient(rows, z)[:12] / y.size, found, atol=1e-9)
    # The quadratic model lies above the Hessian, whose other part is −Σ p pᵀ.
    d = rng.standard_normal(y.size)
    ahead, behind = loss.gradient(rows, z + 1e-5 * d), loss.gradient(rows, z - 1e-5 * d)
    assert d @ (loss.curvature(rows, z) * d) >= d @ (ahead - behind) / 2e-5 - 1e-6


def test_large_predictions_do_not_overflow() -> None:
    y = survival([1.0, 2.0, 3.0], [1, 1, 1])
    z = np.array([-2000.0, 0.0, 900.0])
    value = Cox(y, np.ones(3)).value(np.arange(3.0), z).mean()
    assert value == pytest.approx((900 + 2000 + 900) / 3)
    assert np.isfinite(Cox(y, np.ones(3)).gradient(np.arange(3.0), -z)).all()


def test_weights_are_repetitions_under_breslow_and_sparse_is_dense() -> None:
    X, given = draw()
    model = CoxRegression(0.02, tol=1e-10)
    pair = weighs_and_reads(model, X, survival(**given), atol=1e-8)
    for mine, theirs in zip(*(fit.baseline_ for fit in pair), strict=True):
        np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-6)


GROUPS = [[0, 1], [2, 3, 4]]
MODELS = {
    "l1": {}, "elastic net": {"l1_ratio": 0.5}, "mcp": {"penalty": "mcp"},
    "scad": {"penalty": "scad"}, "positive": {"penalty": penalties.L1(1.0, positive=True)},
    "groups": {"penalty": "group_l2", "groups": GROUPS},
    "group mcp": {"penalty": "group_mcp", "groups": GROUPS},
    "sparse groups": {"penalty": penalties.SparseGroup(1.0, 0.5, GROUPS)},
    "penalty weights": {"penalty_weights": np.array([1.0, 0.5, 2.0, 1.0, 0.0])},
    "efron": {"ties": "efron"},
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_every_penalty_meets_its_optimality_conditions_along_paths(name: str) -> None:
    """dist(−g, ∂r(x)) with g from differences of the literal likelihood, at every alpha."""
    X, given = draw()
    y, options = survival(**given), {**MODELS[name], "tol": 1e-9}
    model, ones = CoxRegression(**options), np.ones(len(X))
    path = model.path(X, y, n_alphas=4)
    data = model._data(X, y, None, None)
    for alpha, x in zip(path.alphas, path.coefs.T, strict=True):
        penalty, ties = data.at(float(alpha)), options.get("ties", "breslow")
        g = [
            (literal(y, ones, X @ (x + h), ties) - literal(y, ones, X @ (x - h), ties)) / 2e-5
            for h in 1e-5 * np.eye(5)
        ]
        blocks = penalty.blocks(5) if hasattr(penalty, "blocks") else range(5)
        far = [penalty.distance(x[at], np.array(g)[at], k) for k, at in enumerate(blocks)]
        assert max(far) < 1e-5
    free = int(name == "penalty weights")
    assert np.count_nonzero(np.abs(path.coefs[:, 0]) > 1e-6) == free
    chosen = CoxRegressionCV(n_alphas=4, cv=2, **MODELS[name]).fit(X, y)
    assert chosen.certificate_.reached
    assert chosen.score(X, y) > 0.6


def test_cross_validation_scores_the_likelihood_of_the_held_out_rows() -> None:
    X, given = draw()
    y = survival(**given)
    folds = [(np.arange(0, 80), np.arange(80, 120)), (np.arange(40, 120), np.arange(40))]
    model = CoxRegressionCV(alphas=[0.1, 0.02], cv=folds).fit(X, y)
    for k, (train, test) in enumerate(folds):
        coef = CoxRegression(0.02).fit(X[train], y[train]).coef_
        wanted = -literal(y[test], np.ones(test.size), X[test] @ coef, "breslow")
        assert model.score_path_[1, k] == pytest.approx(wanted, abs=1e-5)


def test_survival_curves_and_the_baseline() -> None:
    """Without features the curve is exp(−Nelson–Aalen)."""
    y = survival([1.0, 2.0, 3.0, 4.0], [1, 0, 1, 1])
    model = CoxRegression(1.0).fit(np.zeros((4, 1)), y)
    curve = model.survival(np.zeros((1, 1)), [0.5, 1.0, 2.5, 3.0, 9.0])[0]
    np.testing.assert_allclose(-np.log(curve), [0.0, 0.25, 0.25, 0.75, 1.75], atol=1e-12)


def test_the_default_tolerance_is_that_of_other_models_and_no_intercept_is_shown() -> None:
    X, given = draw()
    y = survival(**given)
    model = CoxRegression(0.02).fit(X, y)
    assert model.certificate_.tolerance == pytest.approx(1e-6 * 0.02)
    assert "intercept" not in model.summary()
    assert "features selected" in model.summary()
    single = CoxRegression(0.02).fit(X.astype(np.float32), y)  # a warning would be an error
    np.testing.assert_allclose(single.coef_, model.coef_, atol=1e-4)


@pytest.mark.parametrize("seed", [0, 38])
def test_slow_progress_is_no_standstill(seed: int) -> None:
    """Times that nearly follow from X: F no longer falls by more than rounding, distances do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((150, 12))
    z = X[:, 0] * 2 - X[:, 3] + 0.3 * rng.standard_normal(150)
    y = survival(time=np.exp(-z), event=rng.random(150) < 0.7)
    assert CoxRegression(alpha=0.01).fit(X, y).certificate_.reached


def test_strata_are_named_by_number() -> None:
    X, given = draw()
    model = CoxRegression(0.02).fit(X, survival(**given))
    for wrong in (3, None):  # no baseline is taken silently
        with pytest.raises(ValueError, match=f"stratum must be .* between 0 and 2, got {wrong}"):
            model.survival(X[:1], [1.0], stratum=wrong)
    assert model.survival(X[:1], [1.0], stratum=2).shape == (1, 1)


def test_concordance_counts_pairs() -> None:
    _, given = draw()
    y = survival(given["time"], given["event"])
    rng = np.random.default_rng(0)
    z, w = rng.integers(0, 9, y.size).astype(float), rng.random(y.size)
    t, d = y["time"], y["event"]
    known = d[:, None] & ((t > t[:, None]) | ((t == t[:, None]) & ~d))
    right = (z[:, None] > z) + 0.5 * (z[:, None] == z)
    pairs = known * w[:, None] * w
    assert concordance(y, z, w) == pytest.approx((pairs * right).sum() / pairs.sum())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones((4, 3)), "two columns"),
        (np.c_[np.arange(4.0), [0, 1, 2, 0]], "event must hold"),
        (np.c_[[0.0, np.nan, 1, 2], np.ones(4)], "time must hold finite"),
        (np.c_[[0.0, -3.0, 1, 2], np.ones(4)], "time must hold numbers >= 0, but one is -3"),
        (np.c_[np.arange(4.0), np.zeros(4)], "at least one event"),
        (np.array(["a", "b", "c", "d"]), "as numbers"),
        (np.zeros(4, [("a", float), ("b", float)]), "one field of booleans"),
    ],
)
def test_targets_are_checked(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CoxRegression().fit(np.eye(4), y)


def test_entries_are_before_times_and_ties_are_named() -> None:
    with pytest.raises(ValueError, match="entry must hold numbers below time"):
        survival([1.0, 2.0], [1, 1], entry=[0.0, 2.0])
    with pytest.raises(ValueError, match="ties"):
        CoxRegression(ties="exact").fit(np.eye(2), survival([1.0, 2.0], [1, 1]))


def test_structured_targets_of_scikit_survival() -> None:
    X, given = draw()
    theirs = np.empty(120, [("death", bool), ("days", float)])
    theirs["death"], theirs["days"] = given["event"], given["time"]
    ours = CoxRegression(0.02).fit(X, survival(given["time"], given["event"])).coef_
    np.testing.assert_array_equal(CoxRegression(0.02).fit(X, theirs).coef_, ours)
