"""Estimators in scikit-learn's manner; all are also names of `cyclade.linear`.

Each is loaded from its module when it is first asked for: one of them needs few of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

TWINS = {  # each of these has a twin that chooses alpha, `…CV`
    "least_squares": "ElasticNet GroupLasso Lasso LogSumRegression MCPRegression MultiTaskLasso "
    "SCADRegression SlopeRegression SparseGroupLasso WeightedLasso",
    "likelihoods": "GammaRegressor PoissonRegressor SparseLogisticRegression SparseSVC",
    "robust": "QuantileRegression RobustRegression",
    "square_root": "SqrtLasso",
    "hazards": "CoxRegression",
    "generalized": "GeneralizedLinear GeneralizedLinearClassifier",
    "subset": "BestSubset",
}
OTHERS = {
    "estimators.base": "LinearModel",
    "estimators.cross_validated": "CrossValidated",
    "estimators.fitted": "CoefficientPath",
    "cox": "concordance survival",
    "estimators.covariance": "GraphicalLasso GraphicalLassoCV GraphicalSolution graphical_lasso",
    "statistics.criteria": "select",
    "statistics.stability": "StabilitySelection stability_selection",
    "statistics.knockoffs": "KnockoffSelection fixed_knockoffs gaussian_knockoffs knockoff_filter",
    "statistics.deviances": "d2_score deviance residuals",
    "statistics.intervals": "Inference inference",
    "estimators.frames": "FrameEncoder",
    "plots": "CVDisplay PathDisplay plot_cv plot_path",
}
MODULES = {
    f"estimators.{module}": f"{names} {names.replace(' ', 'CV ')}CV"
    for module, names in TWINS.items()
} | OTHERS
WHERE = {
    name: f"cyclade.linear.{module}" for module, names in MODULES.items() for name in names.split()
} | dict.fromkeys(("StochasticLinear", "StochasticLinearClassifier"), "cyclade.rows.estimators")
__all__ = list(WHERE)


def __getattr__(name: str) -> Any:
    """An estimator, from its module."""
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)
