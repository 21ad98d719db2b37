"""Problems to solve, test and measure on: F(x) = f(x) + r(x) with f = (1/n) Σ_i f_i.

A `LinearProblem` has f, its gradient by blocks, a starting point, and where one exists a bound L_j
on the curvature of every block; ``problem.minimize()`` solves it. `Linear` is a function for
`minimize`. Losses are those of `cyclade.linear.losses`; some are named here too.
"""

from cyclade.linear.losses import GemanMcClure, Logistic, Loss, Squared, Tukey, Welsch
from cyclade.problems.linear import (
    Intensity,
    LinearProblem,
    LogisticRegression,
    PhaseRetrieval,
    PLQuadratic,
)
from cyclade.problems.residual import Linear

__all__ = [
    "GemanMcClure",
    "Intensity",
    "Linear",
    "LinearProblem",
    "Logistic",
    "LogisticRegression",
    "Loss",
    "PLQuadratic",
    "PhaseRetrieval",
    "Squared",
    "Tukey",
    "Welsch",
]
