"""`penalty_weights` in every estimator, and group penalties by name and by names of features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from estimator_cases import CASES, TIGHT, data, distances
from sklearn.base import clone

from cyclade import linear
from cyclade.linear import penalties

WEIGHTS = np.array([0.0, 0.5, 1.0, 2.0, 1.0, 0.7, 0.0, 3.0])


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_takes_weights(name):
    model, kind = CASES[name]
    X, y = data(kind, n=60)
    weights = WEIGHTS
    if "groups" in name:
        weights = WEIGHTS[: 8 // model.groups]
    model = clone(model).set_params(penalty_weights=weights, **TIGHT).fit(X, y)
    assert distances(model, X, y) <= 1e-5
    penalty = model._data(X, y, None, None).at(model.alpha)
    plain = clone(model).set_params(penalty_weights=None)._data(X, y, None, None).at(model.alpha)
    x = np.linspace(-1.0, 1.0, 8) if "positive" not in name else np.linspace(0.1, 1.0, 8)
    if isinstance(penalty, penalties.BlockPenalty):
        for k, at in enumerate(penalty.blocks(8)):
            assert penalty.value(x[at], k) == pytest.approx(weights[k] * plain.value(x[at], k))
    elif plain.convex:
        for j in range(8):
            assert penalty.value(x[j], j) == pytest.approx(weights[j] * plain.value(x[j], j))


def test_weights_are_scales_of_columns():
    X, y = data("real")
    w = np.array([1.0, 0.5, 2.0, 4.0, 1.0, 0.1, 3.0, 1.0])
    one = linear.Lasso(0.1, penalty_weights=w, **TIGHT).fit(X, y)
    other = linear.Lasso(0.1, **TIGHT).fit(X / w, y)
    np.testing.assert_allclose(one.coef_ * w, other.coef_, atol=1e-9)
    same = linear.WeightedLasso(0.1, weights=w, **TIGHT).fit(X, y)
    np.testing.assert_allclose(one.coef_, same.coef_, atol=1e-9)


def test_weights_go_through_paths_and_cross_validation():
    X, y = data("real", n=80)
    w = np.r_[0.0, np.ones(7)]
    path = linear.ElasticNet(l1_ratio=0.5, penalty_weights=w).path(X, y, n_alphas=8)
    first = path.coefs[:, 0]
    assert first[0] != 0.0  # unpenalised
    np.testing.assert_array_equal(first[1:], 0.0)  # at λ_max of the others
    assert path.coefs[1:, 1].any()
    for kind in (linear.LassoCV, linear.MCPRegressionCV, linear.GroupLassoCV):
        model = kind(n_alphas=6, cv=3, penalty_weights=w).fit(X, y)
        assert model.coef_[0] != 0.0
        assert model.alphas_[0] == pytest.approx(model.path(X, y, n_alphas=2).alphas[0])
    labels = np.where(y > 0, "yes", "no")
    model = linear.SparseLogisticRegressionCV(n_alphas=5, cv=3, penalty_weights=w, relaxed=True)
    assert model.fit(X, labels).coef_[0, 0] != 0.0


def test_adaptive_and_relaxed_fits_take_weights():
    X, y = data("real", n=80)
    w = np.r_[0.0, 2.0, np.ones(6)]
    adaptive = linear.WeightedLasso(0.1, penalty_weights=w, **TIGHT).fit(X, y)
    plain = linear.WeightedLasso(0.1, weights=w * adaptive.weights_, **TIGHT).fit(X, y)
    np.testing.assert_allclose(adaptive.coef_, plain.coef_, atol=1e-8)
    chosen = linear.WeightedLassoCV(n_alphas=5, cv=3, penalty_weights=w).fit(X, y)
    assert chosen.coef_[0] != 0.0
    relaxed = linear.Lasso(0.3, penalty_weights=w, relaxed=True, **TIGHT).fit(X, y)
    on = np.flatnonzero(relaxed.coef_)
    best = np.linalg.lstsq(np.column_stack([X[:, on], np.ones(80)]), y)[0]
    assert 0 in on
    np.testing.assert_allclose(relaxed.coef_[on], best[:-1], atol=1e-6)


def test_weights_by_names():
    X, y = data("real")
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = linear.Lasso(0.1, penalty_weights={"c": 0.0, "a": 2.0}, **TIGHT).fit(frame, y)
    full = np.array([2.0, 1, 0, 1, 1, 1, 1, 1])
    same = linear.Lasso(0.1, penalty_weights=full, **TIGHT).fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-10)


@pytest.mark.parametrize(
    ("model", "weights", "message"),
    [
        (linear.Lasso(0.1), [1.0, 2.0], "penalty_weights must have one number for each of the 8"),
        (linear.Lasso(0.1), [-1.0] * 8, "penalty_weights must be finite numbers >= 0"),
        (linear.Lasso(0.1), {"z": 1.0}, "penalty_weights: X has no feature 'z'"),
        (linear.SlopeRegression(0.1), np.ones(8), "penalty_weights must be None: Slope"),
        (linear.GroupLasso(0.1, groups=2), np.ones(8), "for each of the 4 groups, got 8"),
        (linear.GroupLasso(0.1, groups=2), {0: 0.0}, "give one number for each of the 4 groups"),
    ],
)
def test_refusals(model, weights, message):
    X, y = data("real")
    with pytest.raises(ValueError, match=message):
        model.set_params(penalty_weights=weights).fit(X, y)


@pytest.mark.parametrize(
    "penalty", [penalties.MCP(0.3), penalties.SCAD(0.3), penalties.LogSum(0.3)]
)
def test_the_convex_part_of_a_weighted_nonconvex_penalty_has_its_slopes(penalty):
    weighted = penalty.weighted(np.array([0.0, 1.0, 3.0]))
    for other in (weighted.convex_part(), weighted.straighter(2.0)):
        for j in range(3):
            assert other.threshold(j) == pytest.approx(weighted.threshold(j))


def test_groups_by_names_and_by_name_of_the_penalty():
    X, y = data("real")
    frame, names = pd.DataFrame(X, columns=list("abcdefgh")), ["ab", "cdef", "gh"]
    lists, numbers = [list(group) for group in names], [[0, 1], [2, 3, 4, 5], [6, 7]]
    labels = np.where(y > 0, "yes", "no")
    for kind, loss, target in (
        (linear.GeneralizedLinear, "squared", y),
        (linear.GeneralizedLinearClassifier, "logistic", labels),
    ):
        expected = kind(loss, penalties.GroupL2(0.1, numbers)).fit(X, target).coef_
        for penalty, groups in (
            (penalties.GroupL2(groups=lists), 1),
            ("group_l2", lists),
            ("group_l2", dict(zip(names, lists, strict=True))),
            ("group_l2", list("aabbbbcc")),
        ):
            model = kind(loss, penalty, alpha=0.1, groups=groups).fit(frame, target)
            np.testing.assert_allclose(model.coef_, expected, atol=1e-10)
    model = linear.GeneralizedLinearCV("huber", "sparse_group", groups=lists, n_alphas=5, cv=3)
    assert model.fit(frame, y).coef_.any()
    with pytest.raises(ValueError, match="groups hold names; X must be a dataframe"):
        linear.GeneralizedLinear("squared", penalties.GroupL2(groups=lists)).fit(X, y)
    with pytest.raises(ValueError, match="X has no feature named 'z'"):
        linear.GeneralizedLinear("squared", "group_l2", groups=[["z"]]).fit(frame, y)
