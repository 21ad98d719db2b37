"""Losses that bend in a narrow window only, approached through wider ones.

The Huber loss with δ far below the spread of the residuals, or a quantile with hardly any
smoothing, is all but piecewise linear: φ'' is zero on nearly all rows, and quadratic models tell
nothing about the next step. Wider windows with the same slopes far out are easy, and each solution
is a good start for the next: along them the rows inside the window hardly change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NARROW = 0.03  # of the spread: windows below it are approached
WIDE = 0.1  # of the spread: the first window is no narrower
STEP = 3.0  # from one window to the next, if that makes no more than MOST of them
MOST = 20
ROUGH = 1e-9  # the tightest tolerance on the way: a wider window must be left where it is done with


def softer(
    loss: Any, penalty: Any, y: Array, offset: Array, fit_intercept: bool = True
) -> list[Any]:
    """Losses to solve first, widest window first; none where the loss is wide enough.

    Nonconvex penalties come down in λ instead, since the way there decides where they end.

    Examples
    --------
    >>> from cyclade.linear.losses import Quantile
    >>> from cyclade.linear.penalties import L1
    >>> softer(Quantile(0.5, smoothing=0.01), L1(0.1), np.arange(6.0), np.zeros(6))
    [Quantile(q=0.5, smoothing=0.27), Quantile(q=0.5, smoothing=0.09),
     Quantile(q=0.5, smoothing=0.03)]
    """
    width = getattr(loss, "width", None)
    if width is None or not getattr(penalty, "convex", False):
        return []
    residuals = y - (offset[:, None] if y.ndim > offset.ndim else offset)
    if fit_intercept:
        residuals = residuals - np.median(residuals, axis=0)
    spread = float(np.median(np.abs(residuals)))
    ratio = WIDE * spread / width
    if not WIDE / NARROW < ratio < np.inf:
        return []
    stages = int(np.ceil(np.log(ratio) / np.log(STEP)))
    step = STEP if stages <= MOST else ratio ** (1.0 / MOST)
    return [loss.widened(step**k) for k in range(min(stages, MOST), 0, -1)]
