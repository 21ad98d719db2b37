"""Problems to solve, test and measure on: F(x) = f(x) + r(x) with f = (1/n) Σ_i f_i.

Each is a `Problem`: data in, and out come f, its gradient by blocks, a starting point, and where
one exists a bound L_j on the curvature of every block. ``problem.minimize()`` solves it.
"""

from cyclade.problems.base import LocalCurvature, Problem
from cyclade.problems.completion import MatrixCompletion, NuclearCompletion
from cyclade.problems.factorisation import NMF
from cyclade.problems.linear import (
    LinearModel,
    LogisticRegression,
    PhaseRetrieval,
    PLQuadratic,
    RobustRegression,
)
from cyclade.problems.losses import (
    GemanMcClure,
    Intensity,
    Logistic,
    Loss,
    Squared,
    Tukey,
    Welsch,
)

__all__ = [
    "NMF",
    "GemanMcClure",
    "Intensity",
    "LinearModel",
    "LocalCurvature",
    "Logistic",
    "LogisticRegression",
    "Loss",
    "MatrixCompletion",
    "NuclearCompletion",
    "PLQuadratic",
    "PhaseRetrieval",
    "Problem",
    "RobustRegression",
    "Squared",
    "Tukey",
    "Welsch",
]
