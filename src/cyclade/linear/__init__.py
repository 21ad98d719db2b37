"""Linear models: losses and penalties in any pair, by cyclic coordinate descent.

    min over (x, c) of  Σ_i s_i φ(y_i, z_i) / Σ_i s_i + r(x),   z = Xx + c + offset

`solve` fits once and `path` along a sequence of λ; estimators in scikit-learn's manner are built on
them. Estimators, kernels, numba and SciPy are loaded when they are first used.
"""

from __future__ import annotations

from typing import Any

from cyclade._extras import needs
from cyclade.linear import estimators
from cyclade.linear.api import path, solve
from cyclade.linear.checks import chunked
from cyclade.linear.results import Certificate, PathResult, Solution

__all__ = ["Certificate", "PathResult", "RowChunks", "Solution", "path", "solve"]


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
    return sorted([*__all__, *estimators.WHERE, "losses", "penalties"])
