"""Losses that are curved in a narrow window only, approached through wider ones.

The Huber loss with δ far below the spread of the residuals, or a quantile with hardly any
smoothing, is all but piecewise linear: φ'' is zero on nearly all rows, and quadratic models tell
nothing about the next step. Wider windows with the same slopes far out are easy, and each solution
is a good start for the next: along them the rows inside the window hardly change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class Softening:
    """From x = 0 through easier losses, each solved to `tol`."""

    def __init__(self, easier: list[Any], tol: float, report: Any) -> None:
        self.easier, self.tol, self.report = easier, tol, report

    def advance(self, problem: Any, state: Any, max_passes: int) -> Any:
        """The state at the solution for the last of the easier losses."""
        from cyclade.linear.starts.continuation import Continuation
        from cyclade.linear.state import begin
        from cyclade.linear.working_set import minimise

        x, c, passes = np.zeros(problem.size), 0.0 * state.c, 0
        for loss in self.easier:
            left = (max_passes - passes) // 2
            if left > 0:
                at = problem.with_loss(loss)
                easier = Continuation().advance(at, begin(at, x, c), left)
                minimise(at, easier, max(self.tol, problem.tuning.soft_tol), left, self.report)
                x, c, passes = easier.x, easier.c, passes + easier.passes
        start = begin(problem, x, c)
        start.passes = passes
        return start


def softer(
    loss: Any, penalty: Any, y: Array, offset: Array, fit_intercept: bool = True,
    tuning: Tuning = DEFAULT,
) -> list[Any]:  # fmt: skip
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
    ratio = tuning.window_first * spread / width
    if not tuning.window_first / tuning.window_narrow < ratio < np.inf:
        return []
    stages = int(np.ceil(np.log(ratio) / np.log(tuning.window_step)))
    most = tuning.window_stages
    step = tuning.window_step if stages <= most else ratio ** (1.0 / most)
    return [loss.widened(step**k) for k in range(min(stages, most), 0, -1)]
