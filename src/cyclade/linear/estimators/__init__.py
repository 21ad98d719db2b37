"""Estimators in scikit-learn's manner; all are also names of `cyclade.linear`.

Each is loaded from its module when it is first asked for: one of them needs few of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES: dict[str, str] = {
    "cyclade.linear.estimators.base": "LinearModel",
    "cyclade.linear.estimators.cross_validated": "CrossValidated",
    "cyclade.linear.estimators.paths": "CoefficientPath",
    "cyclade.linear.estimators.least_squares": (
        "ElasticNet ElasticNetCV GroupLasso GroupLassoCV Lasso LassoCV LogSumRegression "
        "LogSumRegressionCV MCPRegression MCPRegressionCV MultiTaskLasso MultiTaskLassoCV "
        "SCADRegression SCADRegressionCV SlopeRegression SlopeRegressionCV SparseGroupLasso "
        "SparseGroupLassoCV WeightedLasso WeightedLassoCV"
    ),
    "cyclade.linear.estimators.likelihoods": (
        "GammaRegressor GammaRegressorCV PoissonRegressor PoissonRegressorCV "
        "SparseLogisticRegression SparseLogisticRegressionCV SparseSVC SparseSVCCV"
    ),
    "cyclade.linear.estimators.robust": (
        "QuantileRegression QuantileRegressionCV RobustRegression RobustRegressionCV"
    ),
    "cyclade.linear.estimators.generalized": (
        "GeneralizedLinear GeneralizedLinearCV GeneralizedLinearClassifier "
        "GeneralizedLinearClassifierCV"
    ),
    "cyclade.linear.estimators.stochastic": "StochasticLinear StochasticLinearClassifier",
    "cyclade.linear.plots": "CVDisplay PathDisplay plot_cv plot_path",
}
WHERE = {name: module for module, names in MODULES.items() for name in names.split()}
__all__ = list(WHERE)


def __getattr__(name: str) -> Any:
    """An estimator, from its module."""
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)
