"""Arguments that fits in memory and fits of tables in chunks check alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade._checks import whole_number
from cyclade.linear import penalties
from cyclade.linear.checks import between, numbers
from cyclade.linear.losses import Loss

Array = NDArray[Any]


def is_separable(loss: Loss, penalty: Any, y_ndim: int) -> bool:
    """Whether neither loss nor penalty joins the outputs: each is a problem of its own."""
    joined = loss.target == "classes" or isinstance(penalty, penalties.BlockPenalty)
    return y_ndim == 2 and not joined


def as_start(p: int, coef: Any, intercept: Any) -> tuple[Any, Any]:
    """Checked starting points, or None where none was given."""
    if coef is not None:
        coef = numbers("coef", coef, np.float64)
        if coef.shape[:1] != (p,) or coef.ndim > 2:
            raise ValueError(
                f"coef: X has {p} columns, so a start must have as many rows, "
                f"got shape {coef.shape}"
            )
    return coef, None if intercept is None else numbers("intercept", intercept, np.float64)


def default_lams(penalty: Any, g0: Array, n_lams: int, lam_ratio: float) -> Array:
    """λ_max, …, lam_ratio · λ_max in geometric progression."""
    count = whole_number("n_lams", n_lams, 1)
    between("lam_ratio", lam_ratio)
    if not hasattr(penalty, "lam_max"):
        raise TypeError(f"penalty: {type(penalty).__name__} lacks lam_max(g0); give lams instead")
    largest = float(penalty.lam_max(g0))
    if not 0 < largest < np.inf:
        raise ValueError(f"lams: λ_max is {largest} for these data, so lams must be given")
    return np.asarray(largest * np.geomspace(1.0, lam_ratio, count))


def check_lams(lams: Any) -> Array:
    """Positive finite λ in decreasing order."""
    given: Array = np.atleast_1d(np.asarray(lams, np.float64))
    if given.ndim != 1 or given.size == 0 or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("lams: must be one or more positive finite numbers")
    return np.sort(given)[::-1].copy()
