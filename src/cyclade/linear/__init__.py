"""Linear models: losses and penalties in any pair, by cyclic coordinate descent.

    min over (x, c) of  Σ_i s_i φ(y_i, z_i) / Σ_i s_i + r(x),   z = Xx + c + offset

`solve` fits once and `path` along a sequence of λ; estimators in scikit-learn's manner are built on
them. Estimators, kernels, numba and SciPy are loaded when they are first used.
"""
# ruff: noqa: F403 - names are re-exported, and `estimators` has their list

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclade._extras import needs
from cyclade.linear import estimators
from cyclade.linear.api import path as path
from cyclade.linear.api import solve as solve
from cyclade.linear.checks import chunked
from cyclade.linear.results import Certificate as Certificate
from cyclade.linear.results import PathResult as PathResult
from cyclade.linear.results import Solution as Solution

if TYPE_CHECKING:  # type checkers and editors read these imports, and nothing else does
    from cyclade.linear.cox import concordance as concordance
    from cyclade.linear.cox import survival as survival
    from cyclade.linear.estimators.base import LinearModel as LinearModel
    from cyclade.linear.estimators.covariance import *
    from cyclade.linear.estimators.cross_validated import CrossValidated as CrossValidated
    from cyclade.linear.estimators.fitted import CoefficientPath as CoefficientPath
    from cyclade.linear.estimators.frames import FrameEncoder as FrameEncoder
    from cyclade.linear.estimators.generalized import *
    from cyclade.linear.estimators.hazards import *
    from cyclade.linear.estimators.least_squares import *
    from cyclade.linear.estimators.likelihoods import *
    from cyclade.linear.estimators.robust import *
    from cyclade.linear.estimators.square_root import *
    from cyclade.linear.estimators.subset import *
    from cyclade.linear.graphical import *
    from cyclade.linear.plots import *
    from cyclade.linear.statistics.criteria import select as select
    from cyclade.linear.statistics.deviances import *
    from cyclade.linear.statistics.intervals import *
    from cyclade.linear.statistics.knockoffs import *
    from cyclade.linear.statistics.stability import *

__all__ = sorted(
    [*estimators.__all__, "Certificate", "PathResult", "RowChunks", "Solution", "path", "solve"]
)


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
