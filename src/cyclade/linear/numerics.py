"""Rounding: what counts as zero, in multiples of eps.

Kernels that need such a number write it at their top.

>>> SUM == of_sum(np.float64) < of_sum(np.float32)
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)  # the least number with all its bits
SUM = 4 * EPS  # of a sum over rows: smaller parts of it are rounding
SOLVED = 2**9 * EPS  # of the terms of an equation: what may be left of it; ridge of a factor
FLAT = 2**12 * EPS  # of a curvature or weight: less is none, so that much is taken instead
STIFF = 1 / FLAT  # times as curved as its loss: a model so stiff makes no steps


def eps(dtype: Any) -> float:
    """Of numbers in this precision."""
    return float(np.finfo(dtype).eps)


def of_sum(dtype: Any) -> float:
    """Of a sum of numbers in this precision: smaller parts are rounding."""
    return 4 * eps(dtype)


def of_product(dtype: Any) -> float:
    """Of the norms of two long vectors in this precision: an error of their product, at most."""
    return 2**13 * eps(dtype)
