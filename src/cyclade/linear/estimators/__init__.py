"""Estimators in scikit-learn's manner; all are also names of `cyclade.linear`."""

from __future__ import annotations

from cyclade.linear.estimators.base import LinearModel
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.data import CoefficientPath
from cyclade.linear.estimators.generalized import (
    GeneralizedLinear,
    GeneralizedLinearClassifier,
    GeneralizedLinearClassifierCV,
    GeneralizedLinearCV,
)  # fmt: skip
from cyclade.linear.estimators.least_squares import (
    ElasticNet,
    ElasticNetCV,
    GroupLasso,
    GroupLassoCV,
    Lasso,
    LassoCV,
    LogSumRegression,
    LogSumRegressionCV,
    MCPRegression,
    MCPRegressionCV,
    MultiTaskLasso,
    MultiTaskLassoCV,
    SCADRegression,
    SCADRegressionCV,
    SlopeRegression,
    SlopeRegressionCV,
    SparseGroupLasso,
    SparseGroupLassoCV,
    WeightedLasso,
    WeightedLassoCV,
)  # fmt: skip
from cyclade.linear.estimators.likelihoods import (
    GammaRegressor,
    GammaRegressorCV,
    PoissonRegressor,
    PoissonRegressorCV,
    SparseLogisticRegression,
    SparseLogisticRegressionCV,
    SparseSVC,
    SparseSVCCV,
)  # fmt: skip
from cyclade.linear.estimators.robust import (
    QuantileRegression,
    QuantileRegressionCV,
    RobustRegression,
    RobustRegressionCV,
)  # fmt: skip
from cyclade.linear.estimators.stochastic import StochasticLinear, StochasticLinearClassifier
from cyclade.linear.plots import CVDisplay, PathDisplay, plot_cv, plot_path

__all__ = [
    "CVDisplay", "CoefficientPath", "CrossValidated", "ElasticNet", "ElasticNetCV",
    "GammaRegressor", "GammaRegressorCV", "GeneralizedLinear", "GeneralizedLinearCV",
    "GeneralizedLinearClassifier", "GeneralizedLinearClassifierCV", "GroupLasso",
    "GroupLassoCV", "Lasso", "LassoCV", "LinearModel", "LogSumRegression", "LogSumRegressionCV",
    "MCPRegression", "MCPRegressionCV", "MultiTaskLasso", "MultiTaskLassoCV", "PathDisplay",
    "PoissonRegressor", "PoissonRegressorCV", "QuantileRegression", "QuantileRegressionCV",
    "RobustRegression", "RobustRegressionCV", "SCADRegression", "SCADRegressionCV",
    "SlopeRegression", "SlopeRegressionCV", "SparseGroupLasso", "SparseGroupLassoCV",
    "SparseLogisticRegression", "SparseLogisticRegressionCV", "SparseSVC", "SparseSVCCV",
    "StochasticLinear", "StochasticLinearClassifier", "WeightedLasso", "WeightedLassoCV",
    "plot_cv", "plot_path",
]  # fmt: skip
