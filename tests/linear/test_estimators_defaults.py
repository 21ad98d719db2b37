"""Defaults that fit the data, grids by number, rows in groups, weights inside the folds."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from estimator_cases import data
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from cyclade import linear

RELATIVE = [
    (linear.SparseLogisticRegression, "two"),
    (linear.SparseLogisticRegression, "three"),
    (linear.SparseSVC, "three"),
    (linear.GroupLasso, "real"),
    (linear.MCPRegression, "real"),
    (linear.RobustRegression, "real"),
    (linear.PoissonRegressor, "counts"),
    (linear.GeneralizedLinear, "real"),
    (linear.GeneralizedLinearClassifier, "two"),
    (linear.StochasticLinear, "real"),
]


@pytest.mark.parametrize(("kind", "target"), RELATIVE)
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_the_default_alpha_is_a_tenth_of_the_largest(kind, target, unit):
    X, y = data(target)
    X = X * unit
    model = kind(tol=1e-3, max_iter=500).fit(X, y)
    largest = model.path(X, y, n_alphas=2, alpha_ratio=0.9).alphas[0]
    assert model.alpha_ == pytest.approx(0.1 * largest)
    assert model.coef_.any()


def test_penalties_with_a_lambda_of_their_own_keep_it():
    X, y = data("real")
    model = linear.GeneralizedLinear("squared", linear.penalties.L1(0.2)).fit(X, y)
    assert model.alpha_ is None
    np.testing.assert_array_equal(model.coef_, linear.Lasso(0.2).fit(X, y).coef_)
    with pytest.raises(ValueError, match="alpha must be given: no alpha makes all"):
        linear.PoissonRegressor(l1_ratio=0.0).fit(*data("counts"))


@pytest.mark.parametrize("kind", [linear.Lasso, linear.ElasticNet, linear.MultiTaskLasso])
def test_the_default_of_scikit_learn_says_when_it_selects_nothing(kind):
    X, y = data("table" if kind is linear.MultiTaskLasso else "real")
    y = 1e-3 * y
    with pytest.warns(
        UserWarning, match=r"alpha=1, the default, selects no feature; .* below"
    ) as w:
        kind().fit(X, y)
    assert w[0].filename == __file__
    assert kind(alpha=None).fit(X, y).coef_.any()
    assert not kind(alpha=2.0).fit(X, y).coef_.any()  # chosen, so nothing is said


def test_a_number_of_alphas_is_no_alpha():
    X, y = data("real")
    by_number = linear.LassoCV(alphas=7, cv=3).fit(X, y)
    np.testing.assert_array_equal(
        by_number.alphas_, linear.LassoCV(n_alphas=7, cv=3).fit(X, y).alphas_
    )
    assert linear.Lasso().path(X, y, alphas=np.int64(5)).alphas.shape == (5,)
    assert linear.Lasso().path(X, y, alphas=0.5).alphas.tolist() == [0.5]
    with pytest.raises(ValueError, match="n_alphas must be an integer >= 1"):
        linear.LassoCV(alphas=0).fit(X, y)


class TestRowsInGroups:
    X, y = data("real")
    groups = np.arange(40) // 5

    def expected(self):
        folds = list(GroupKFold(4).split(self.X, self.y, self.groups))
        return linear.LassoCV(alphas=4, cv=folds).fit(self.X, self.y).score_path_

    def test_groups_reach_the_splitter(self):
        model = linear.LassoCV(alphas=4, cv=GroupKFold(4)).fit(self.X, self.y, groups=self.groups)
        np.testing.assert_array_equal(model.score_path_, self.expected())
        with pytest.raises(ValueError, match="groups must have one entry for each of the 40 rows"):
            linear.LassoCV(cv=GroupKFold(4)).fit(self.X, self.y, groups=[1, 2])
        with pytest.raises(ValueError, match="groups"):
            linear.LassoCV(cv=GroupKFold(4)).fit(self.X, self.y)

    def test_groups_are_routed(self):
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer

        with sklearn.config_context(enable_metadata_routing=True):
            choosing = linear.LassoCV(alphas=4, cv=GroupKFold(4))
            pipe = make_pipeline(FunctionTransformer(), choosing)
            pipe.fit(self.X, self.y, groups=self.groups)
            scores = cross_val_score(
                choosing, self.X, self.y, cv=GroupKFold(2), params={"groups": self.groups}
            )
        np.testing.assert_array_equal(pipe[-1].score_path_, self.expected())
        assert scores.shape == (2,)


def test_adaptive_weights_see_no_held_out_row():
    X, y = data("real")
    folds = KFold(3)
    options = {"tol": 1e-10}
    model = linear.WeightedLassoCV(alphas=5, cv=folds, n_jobs=2, **options).fit(X, y)
    for k, (train, test) in enumerate(folds.split(X)):
        path = linear.WeightedLasso(**options).path(X[train], y[train], alphas=model.alphas_)
        errors = (y[test, None] - X[test] @ path.coefs - path.intercepts) ** 2
        np.testing.assert_allclose(model.mse_path_[:, k], errors.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(model.weights_, linear.WeightedLasso().fit(X, y).weights_)
