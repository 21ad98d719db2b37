"""Bad input is refused before any work, by name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from estimator_cases import CASES, data
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import cyclade
from cyclade import linear
from cyclade.linear.penalties import MCP

X, Y = data("real")


def refused(message, model, X=X, y=Y, **options):
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(X, y, **options)


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "a", True])
def test_alpha_must_be_a_number(alpha):
    for name in ("lasso", "tasks", "multinomial"):
        model = clone(CASES[name][0]).set_params(alpha=alpha)
        refused("alpha must be a finite number >= 0", model, *data(CASES[name][1]))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (linear.Lasso(tol=0.0), "tol must be a finite number > 0, got 0.0"),
        (linear.Lasso(tol="tight"), "tol must be a finite number > 0, got 'tight'"),
        (linear.Lasso(max_iter=0), "max_iter must be an integer >= 1, got 0"),
        (linear.Lasso(max_iter=2.5), "max_iter must be an integer >= 1, got 2.5"),
        (linear.Lasso(fit_intercept="no"), "fit_intercept must be True or False, got 'no'"),
        (linear.Lasso(warm_start="no"), "warm_start must be True or False, got 'no'"),
        (linear.Lasso(verbose="no"), "verbose must be True or False, got 'no'"),
        (linear.ElasticNet(0.1, l1_ratio=1.5), "l1_ratio must be between 0 and 1"),
        (linear.WeightedLasso(0.1, weights="equal"), "weights must be 'adaptive' or one number"),
        (linear.WeightedLasso(0.1, weights=[1.0]), "weights must have one entry for each of the 8"),
        (linear.WeightedLasso(0.1, gamma=-1.0), "gamma must be a finite number > 0"),
        (linear.GroupLasso(0.1, groups=[[0, 1], [1, 2]]), "groups overlap: feature 1"),
        (linear.GroupLasso(0.1, groups=[[0, 1], [3]]), "groups miss feature 2"),
        (linear.GroupLasso(0.1, groups=2, group_weights=[1.0]), "one entry for each of the 4"),
        *((linear.GroupLasso(0.1, groups=groups), "groups must be one size, sizes that add up to")
          for groups in (2.0, None, [2, 3], "abc", [])),
        (linear.GroupLasso(0.1, groups="columns"), "goes by the names of a dataframe, and X has"),
        # Every feature by itself, or all in one group: nobody can tell.
        (linear.GroupLasso(0.1, groups=[1] * 8), "ones may be sizes or labels"),
        (linear.RobustRegression(0.1, loss="squared"), "loss must be one of huber, cauchy"),
        (linear.RobustRegression(0.1, penalty="l7"), "penalty must be one of l1"),
        (linear.RobustRegression(0.1, scale=0.0), "scale must be a finite number > 0"),
        (linear.RobustRegression(0.1, scale="big"), "scale must be one of auto"),
        (linear.QuantileRegression(0.1, quantile=1.0), "quantile must be strictly between 0 and 1"),
        (linear.QuantileRegression(0.1, smoothing=-1.0), "smoothing must be a finite number > 0"),
        (linear.GeneralizedLinear("logistic"), "is for labels; use GeneralizedLinearClassifier"),
        (linear.GeneralizedLinear("hubber"), "there is no 'hubber'"),
        (linear.GeneralizedLinear("Gaussian"), "(did you mean 'squared'?)"),
        (linear.GeneralizedLinear("least squares"), "(did you mean 'squared'?)"),
        (linear.Lasso(0.1, positive=[True] * 8), "positive must be True or False; bounds of"),
        (linear.SqrtLasso(0.1, positive="yes"), "positive must be True or False; bounds of"),
        (linear.GroupLasso(0.1, positive=np.ones(8)), "positive must be True or False; bounds of"),
        (linear.GeneralizedLinear(penalty="l11"), "got 'l11' (did you mean 'l1'?)"),
        (linear.GeneralizedLinear(penalty=MCP), "give an object, MCP(...), not the class"),
    ],
)  # fmt: skip
def test_parameters_are_named(model, message):
    refused(message, model)


@pytest.mark.parametrize(
    ("reg", "message"),
    [
        (cyclade.L1(0.1), "this L1 is for minimize .* use cyclade.linear.penalties.L1"),
        (cyclade.NonNegative(), "this NonNegative is .* use one of cyclade.linear.penalties"),
    ],
)
@pytest.mark.parametrize("alpha", [None, 0.1])
def test_regularisers_of_minimize_are_told_apart(reg, message, alpha):
    with pytest.raises(TypeError, match=message):
        linear.GeneralizedLinear(penalty=reg, alpha=alpha).fit(X, Y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "sample_weight must be 1D with one entry for each of the 40 rows"),
        (np.ones((40, 1)), "sample_weight must be 1D"),
        (np.r_[np.nan, np.ones(39)], "sample_weight must hold finite numbers"),
        (np.r_[np.inf, np.ones(39)], "sample_weight must hold finite numbers"),
        (np.r_[-1.0, np.ones(39)], "sample_weight must hold numbers >= 0"),
        (np.zeros(40), "at least one weight must not be zero"),
        (["a"] * 40, "sample_weight must hold numbers"),
    ],
)
def test_weights_are_checked(weights, message):
    refused(message, linear.Lasso(0.1), sample_weight=weights)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (np.ones(3), "offset must have the shape (40,) of the predictions, got (3,)"),
        (np.ones((40, 2)), "offset must have the shape (40,)"),
        (np.full(40, np.nan), "offset must hold finite numbers"),
    ],
)
def test_offsets_are_checked(offset, message):
    for model, y in ((linear.PoissonRegressor(0.1), abs(Y)), (linear.SparseSVC(0.1), Y > 0)):
        refused(message, model, y=y, offset=offset)
        with pytest.raises(ValueError, match=re.escape(message)):
            model.fit(X, y).predict(X, offset=offset)


def test_targets_are_checked():
    refused("Poisson: y must hold finite numbers >= 0", linear.PoissonRegressor(0.1), y=Y)
    refused("Gamma: y must hold finite numbers > 0", linear.GammaRegressor(0.1), y=0 * Y)
    refused("for one task use Lasso", linear.MultiTaskLasso(0.1))
    for model in (linear.SparseLogisticRegression(0.1), linear.SparseSVC(0.1)):
        refused("at least 2 classes", model, y=np.ones(40))
        refused("Unknown label type", model, y=Y)
    labels = np.arange(40) % 3
    lost = {"y": labels, "sample_weight": (labels > 0).astype(float)}
    refused("all rows of class", linear.SparseLogisticRegression(0.1), **lost)
    refused("is for numbers", linear.GeneralizedLinearClassifier("squared"), y=labels)


def test_alphas_are_checked():
    for alphas, message in [
        ([], "alphas must be one or more numbers > 0"),
        ([0.1, 0.0], "alphas must be one or more numbers > 0"),
        ([np.nan], "alphas must hold finite numbers"),
        ([[1.0, 0.5]], "> 0 in one list"),
        (0, "n_alphas must be an integer >= 1"),
        (True, "n_alphas must be an integer >= 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            linear.Lasso().path(X, Y, alphas=alphas)
        refused(message, linear.LassoCV(alphas=alphas))
    with pytest.raises(ValueError, match="n_alphas must be an integer >= 1"):
        linear.Lasso().path(X, Y, n_alphas=0)
    with pytest.raises(ValueError, match="alpha_ratio must be strictly between 0 and 1"):
        linear.Lasso().path(X, Y, alpha_ratio=1.0)
    with pytest.raises(ValueError, match="alphas must be given: no alpha makes all"):
        linear.ElasticNet(l1_ratio=0.0).path(X, Y)


def test_fits_that_stop_early_say_so():
    early = {"max_iter": 1, "tol": 1e-14}
    for model in (linear.Lasso(1e-4, **early), linear.LassoCV(alphas=[1e-4], **early)):
        with pytest.warns(ConvergenceWarning, match="stopped without a certificate of optimality"):
            model.fit(X, Y)
        assert not model.certificate_.reached
    with pytest.warns(ConvergenceWarning, match="at [0-9]+ of 5 alphas"):
        linear.Lasso(max_iter=1, tol=1e-14).path(X, Y, n_alphas=5)


def test_unfitted_models_say_so():
    with pytest.raises(NotFittedError):
        linear.Lasso().predict(X)
    with pytest.raises(NotFittedError):
        linear.plot_cv(linear.LassoCV())
    model = linear.SlopeRegression(0.1, weights=[1.0])
    refused("weights", model)  # after X was looked at
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("kind", ["object", "dates", "zones", "periods"])
def test_a_column_of_text_or_dates_is_named(kind):
    pandas = pytest.importorskip("pandas")
    dates = {
        "dates": pandas.Timestamp("2020-01-01"),
        "zones": pandas.Timestamp("2020-01-01", tz="UTC"),
        "periods": pandas.Period("2020-01"),
    }
    column = dates.get(kind)
    if column is None:
        column = pandas.Series(["a", "b"] * (len(X) // 2), dtype=kind)
    table = pandas.DataFrame(X).assign(city=column)
    table.columns = table.columns.astype(str)
    message = "X: its entries must be real numbers; encode or drop column 'city'"
    refused(message, linear.Lasso(0.1), table)
    model = linear.Lasso(0.1).fit(table.assign(city=1.0), Y)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.predict(table)


def test_labels_that_are_no_sizes_are_groups():
    linear.GroupLasso(0.1, groups=[7] * X.shape[1]).fit(X, Y)
    linear.GroupLasso(0.1, groups=[1]).fit(X[:, :1], Y)
