"""Linear models: losses and penalties in any pair, by cyclic coordinate descent.

    min over (x, c) of  Σ_i s_i φ(y_i, z_i) / Σ_i s_i + r(x),   z = Xx + c + offset

`solve` fits once and `path` along a sequence of λ; estimators in scikit-learn's manner are built on
them. Estimators, kernels, numba and SciPy are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclade._extras import needs
from cyclade.linear import estimators
from cyclade.linear.api import path, solve
from cyclade.linear.checks import chunked
from cyclade.linear.results import Certificate, PathResult, Solution

if TYPE_CHECKING:  # type checkers and editors read these imports, and nothing else does
    from cyclade.linear.cox import concordance, survival
    from cyclade.linear.estimators.base import LinearModel
    from cyclade.linear.estimators.covariance import (
        GraphicalLasso,
        GraphicalLassoCV,
        GraphicalSolution,
        graphical_lasso,
    )
    from cyclade.linear.estimators.cross_validated import CrossValidated
    from cyclade.linear.estimators.fitted import CoefficientPath
    from cyclade.linear.estimators.frames import FrameEncoder
    from cyclade.linear.estimators.generalized import (
        GeneralizedLinear,
        GeneralizedLinearClassifier,
        GeneralizedLinearClassifierCV,
        GeneralizedLinearCV,
    )
    from cyclade.linear.estimators.hazards import CoxRegression, CoxRegressionCV
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
    )
    from cyclade.linear.estimators.likelihoods import (
        GammaRegressor,
        GammaRegressorCV,
        PoissonRegressor,
        PoissonRegressorCV,
        SparseLogisticRegression,
        SparseLogisticRegressionCV,
        SparseSVC,
        SparseSVCCV,
    )
    from cyclade.linear.estimators.robust import (
        QuantileRegression,
        QuantileRegressionCV,
        RobustRegression,
        RobustRegressionCV,
    )
    from cyclade.linear.estimators.square_root import SqrtLasso, SqrtLassoCV
    from cyclade.linear.estimators.subset import BestSubset, BestSubsetCV
    from cyclade.linear.plots import CVDisplay, PathDisplay, plot_cv, plot_path
    from cyclade.linear.statistics.criteria import select
    from cyclade.linear.statistics.deviances import d2_score, deviance, residuals
    from cyclade.linear.statistics.intervals import Inference, inference
    from cyclade.linear.statistics.knockoffs import (
        KnockoffSelection,
        fixed_knockoffs,
        gaussian_knockoffs,
        knockoff_filter,
    )
    from cyclade.linear.statistics.stability import StabilitySelection, stability_selection

__all__ = [
    "BestSubset", "BestSubsetCV", "CVDisplay", "Certificate", "CoefficientPath", "CoxRegression",
    "CoxRegressionCV", "CrossValidated", "ElasticNet", "ElasticNetCV", "FrameEncoder",
    "GammaRegressor", "GammaRegressorCV", "GeneralizedLinear", "GeneralizedLinearCV",
    "GeneralizedLinearClassifier", "GeneralizedLinearClassifierCV", "GraphicalLasso",
    "GraphicalLassoCV", "GraphicalSolution", "GroupLasso", "GroupLassoCV", "Inference",
    "KnockoffSelection", "Lasso", "LassoCV", "LinearModel", "LogSumRegression",
    "LogSumRegressionCV", "MCPRegression", "MCPRegressionCV", "MultiTaskLasso", "MultiTaskLassoCV",
    "PathDisplay", "PathResult", "PoissonRegressor", "PoissonRegressorCV", "QuantileRegression",
    "QuantileRegressionCV", "RobustRegression", "RobustRegressionCV", "RowChunks", "SCADRegression",
    "SCADRegressionCV", "SlopeRegression", "SlopeRegressionCV", "Solution", "SparseGroupLasso",
    "SparseGroupLassoCV", "SparseLogisticRegression", "SparseLogisticRegressionCV", "SparseSVC",
    "SparseSVCCV", "SqrtLasso", "SqrtLassoCV", "StabilitySelection", "StochasticLinear",
    "StochasticLinearClassifier", "WeightedLasso", "WeightedLassoCV", "concordance", "d2_score",
    "deviance", "fixed_knockoffs", "gaussian_knockoffs", "graphical_lasso", "inference",
    "knockoff_filter", "path", "plot_cv", "plot_path", "residuals", "select", "solve",
    "stability_selection", "survival",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Estimators and `RowChunks`, from their own packages."""
    if name == "RowChunks":
        return chunked("chunks").RowChunks
    if name not in estimators.WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs("cyclade.linear", "linear"):
        return getattr(estimators, name)


def __dir__() -> list[str]:
    """What users need, estimators included; other modules can be imported all the same."""
    return sorted([*__all__, "losses", "penalties"])
