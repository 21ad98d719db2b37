"""scikit-learn's own checks of every estimator, in full and with default parameters."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cyclade import linear
from cyclade.linear import estimators

ALL = [
    kind()
    for kind in (getattr(estimators, name) for name in estimators.__all__)
    if isinstance(kind, type)
    and issubclass(kind, linear.LinearModel)
    and kind not in (linear.LinearModel, linear.CrossValidated)
]
SINGLE = [model for model in ALL if not isinstance(model, linear.CrossValidated)]
CHOOSING = [model for model in ALL if isinstance(model, linear.CrossValidated)]
# Estimators of one kind of target and output differ in a loss or a penalty, which other tests are
# about. So one of each kind is checked here and every one by `make test-all`; …CV twins here with
# few alphas, on which nothing here depends.
KINDS = (
    linear.Lasso, linear.WeightedLasso, linear.GroupLasso, linear.MultiTaskLasso,
    linear.RobustRegression, linear.PoissonRegressor, linear.SparseLogisticRegression,
    linear.SparseSVC, linear.GeneralizedLinearClassifier, linear.CoxRegression,
    linear.StochasticLinear, linear.StochasticLinearClassifier,
)  # fmt: skip
TWINS = (linear.ElasticNetCV, linear.MultiTaskLassoCV, linear.SparseLogisticRegressionCV)
QUICK = [kind() for kind in KINDS] + [kind(n_alphas=3, alpha_ratio=0.05, cv=2) for kind in TWINS]
OTHERS = [model for model in ALL if type(model) not in KINDS]


def check_manners(estimator, check):
    name = getattr(check, "func", check).__name__
    sampled = isinstance(estimator, linear.StochasticLinear | linear.StochasticLinearClassifier)
    if sampled and name.startswith("check_sample_weight_equivalence"):
        # As scikit-learn has it for its own SGD: tables of 15 and 31 rows are not sampled alike,
        # and the check asks for seven digits.
        pytest.skip("a stochastic method on different rows: equal to solver accuracy only")
    check(estimator)


def test_every_estimator_is_checked():
    assert (len(SINGLE), len(CHOOSING)) == (23, 21)


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(QUICK)
def test_estimators_keep_the_manners_of_scikit_learn(estimator, check):
    check_manners(estimator, check)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@parametrize_with_checks(OTHERS)
def test_the_others_keep_them_with_default_parameters(estimator, check):
    check_manners(estimator, check)
