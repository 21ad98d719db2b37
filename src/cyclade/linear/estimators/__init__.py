"""Estimators in scikit-learn's manner; all are also names of `cyclade.linear`."""

from __future__ import annotations

from cyclade.linear.estimators.base import LinearModel
from cyclade.linear.estimators.classifiers import (
    SparseLogisticRegression,
    SparseLogisticRegressionCV,
    SparseSVC,
    SparseSVCCV,
)
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.generalized import (
    GeneralizedLinear,
    GeneralizedLinearClassifier,
    GeneralizedLinearClassifierCV,
    GeneralizedLinearCV,
)
from cyclade.linear.estimators.glm import (
    GammaRegressor,
    GammaRegressorCV,
    PoissonRegressor,
    PoissonRegressorCV,
)
from cyclade.linear.estimators.groups import (
    GroupLasso,
    GroupLassoCV,
    MultiTaskLasso,
    MultiTaskLassoCV,
    SparseGroupLasso,
    SparseGroupLassoCV,
)
from cyclade.linear.estimators.lasso import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    WeightedLasso,
    WeightedLassoCV,
)
from cyclade.linear.estimators.nonconvex import (
    LogSumRegression,
    LogSumRegressionCV,
    MCPRegression,
    MCPRegressionCV,
    SCADRegression,
    SCADRegressionCV,
)
from cyclade.linear.estimators.paths import CoefficientPath
from cyclade.linear.estimators.robust import (
    QuantileRegression,
    QuantileRegressionCV,
    RobustRegression,
    RobustRegressionCV,
)
from cyclade.linear.estimators.slope import SlopeRegression, SlopeRegressionCV
from cyclade.linear.estimators.stochastic import StochasticLinear, StochasticLinearClassifier
from cyclade.linear.plots import CVDisplay, PathDisplay, plot_cv, plot_path

__all__ = [
    "CVDisplay",
    "CoefficientPath",
    "CrossValidated",
    "ElasticNet",
    "ElasticNetCV",
    "GammaRegressor",
    "GammaRegressorCV",
    "GeneralizedLinear",
    "GeneralizedLinearCV",
    "GeneralizedLinearClassifier",
    "GeneralizedLinearClassifierCV",
    "GroupLasso",
    "GroupLassoCV",
    "Lasso",
    "LassoCV",
    "LinearModel",
    "LogSumRegression",
    "LogSumRegressionCV",
    "MCPRegression",
    "MCPRegressionCV",
    "MultiTaskLasso",
    "MultiTaskLassoCV",
    "PathDisplay",
    "PoissonRegressor",
    "PoissonRegressorCV",
    "QuantileRegression",
    "QuantileRegressionCV",
    "RobustRegression",
    "RobustRegressionCV",
    "SCADRegression",
    "SCADRegressionCV",
    "SlopeRegression",
    "SlopeRegressionCV",
    "SparseGroupLasso",
    "SparseGroupLassoCV",
    "SparseLogisticRegression",
    "SparseLogisticRegressionCV",
    "SparseSVC",
    "SparseSVCCV",
    "StochasticLinear",
    "StochasticLinearClassifier",
    "WeightedLasso",
    "WeightedLassoCV",
    "plot_cv",
    "plot_path",
]
