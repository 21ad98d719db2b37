"""Estimators in scikit-learn's manner; all are also names of `cyclade.linear`."""

from __future__ import annotations

from cyclade.linear import plots
from cyclade.linear.estimators import generalized, least_squares, likelihoods, robust, stochastic
from cyclade.linear.estimators.base import LinearModel
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.generalized import *  # noqa: F403
from cyclade.linear.estimators.least_squares import *  # noqa: F403
from cyclade.linear.estimators.likelihoods import *  # noqa: F403
from cyclade.linear.estimators.paths import CoefficientPath
from cyclade.linear.estimators.robust import *  # noqa: F403
from cyclade.linear.estimators.stochastic import *  # noqa: F403
from cyclade.linear.plots import *  # noqa: F403

__all__ = ["CoefficientPath", "CrossValidated", "LinearModel"]
__all__ += generalized.__all__ + least_squares.__all__ + likelihoods.__all__ + plots.__all__
__all__ += robust.__all__ + stochastic.__all__
