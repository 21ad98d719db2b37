"""The step η Λ_j^{−1} of each block: given, found by a line search, or from estimated curvature."""

from cyclade.steps.backtracking import Backtracking
from cyclade.steps.base import Eta, LineSearchError, Rated, Steps, as_schedule
from cyclade.steps.curvature import Curvature, power_iteration
from cyclade.steps.fixed import Fixed
from cyclade.steps.matrix import Matrix
from cyclade.steps.searched import Searched

__all__ = [
    "Backtracking",
    "Curvature",
    "Eta",
    "Fixed",
    "LineSearchError",
    "Matrix",
    "Rated",
    "Searched",
    "Steps",
    "as_schedule",
    "power_iteration",
]
