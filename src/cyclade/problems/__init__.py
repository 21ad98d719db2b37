"""Problems to solve, test and measure on: F(x) = f(x) + r(x) with f = (1/n) Σ_i f_i.

Each is a `Problem`: data in, and out come f, its gradient by blocks, a starting point, and where
one exists a bound L_j on the curvature of every block. ``problem.minimize()`` solves it. Losses are
those of `cyclade.linear.losses`; some are named here too.
"""

from cyclade.linear.losses import GemanMcClure, Logistic, Loss, Squared, Tukey, Welsch
from cyclade.problems.base import LocalCurvature, Problem
from cyclade.problems.completion import MatrixCompletion, NuclearCompletion
from cyclade.problems.factorisation import NMF
from cyclade.problems.linear import (
    Intensity,
    LinearProblem,
    LogisticRegression,
    PhaseRetrieval,
    PLQuadratic,
)
from cyclade.problems.residual import Linear

__all__ = [
    "NMF",
    "GemanMcClure",
    "Intensity",
    "Linear",
    "LinearProblem",
    "LocalCurvature",
    "Logistic",
    "LogisticRegression",
    "Loss",
    "MatrixCompletion",
    "NuclearCompletion",
    "PLQuadratic",
    "PhaseRetrieval",
    "Problem",
    "Squared",
    "Tukey",
    "Welsch",
]
