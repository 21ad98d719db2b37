"""Continuation: through larger λ, straighter penalties and wider losses to a start.

A working set chosen at zero for a small λ is mostly wrong, and a nonconvex problem has many
minima. So λ is lowered in a few steps, with one working set each, roughly solved. For a nonconvex
penalty that is done with its convex part, down to the λ wanted; from there the penalty is made
nonconvex step by step. That mostly ended in lower minima than following it down in λ.

Losses that are curved in a narrow window only are approached through wider ones (`Softening`).
The Huber loss with δ far below the spread of the residuals, or a quantile with hardly any
smoothing, is all but piecewise linear: φ'' is zero on nearly all rows, and quadratic models tell
nothing about the next step. Wider windows with the same slopes far out are easy, and each solution
is a good start for the next: along them the rows inside the window hardly change.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits
from cyclade.linear.problem import Problem
from cyclade.linear.starts.predictor import lams_between, warm_start
from cyclade.linear.state import State, begin, rebase
from cyclade.linear.subproblem import newton
from cyclade.linear.tuning import DEFAULT, Tuning
from cyclade.linear.working_set import improve, minimise, most_violate

Array = NDArray[Any]


class Continuation:
    """From x = 0 near the solution, where a scalar penalty has a λ to follow."""

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """Bring a state at x = 0 near the solution; any other is left alone."""
        if problem.penalty.is_scalar and not state.x.any():
            approach(problem, state, max_passes)
        return state


def approach(problem: Problem, state: State, max_passes: int) -> None:
    """One working set, roughly solved, at each of a few λ on the way."""
    convex = problem.penalty.convex
    if problem.loss.convex and convex:
        if most_violate(problem, state) or newton.suits(problem, state):  # all at once
            return
        if not problem.loss.quadratic and warm_start(problem, state, max_passes):
            return
    for at, lam, distance in easier(
        problem.penalty.penalty, convex, problem.loss.convex, state.measured.g, problem.tuning
    ):
        if state.passes >= max_passes:
            break
        stage = problem.at(at)
        rebase(stage, state)
        improve(stage, state, distance * lam, lam, max_passes)
    rebase(problem, state)


def easier(
    penalty: Any, convex: bool, easy: bool, g: Array, tuning: Tuning
) -> list[tuple[Any, float, float]]:
    """Penalties on the way from zero, each with its λ and the distance in λ that is enough.

    `g` is the gradient at zero; `convex` is of the penalty, `easy` says that the loss is convex.
    """
    guide = penalty if convex else _convex_part(penalty)
    if not all(hasattr(guide, name) for name in ("lam", "scaled", "lam_max")):
        return []
    largest, lam, (step, rough) = float(guide.lam_max(g)), float(guide.lam), tuning.lam_step
    if not 0 < lam < largest < math.inf or (convex and easy and lam > step**2 * largest):
        return []
    stages = [(guide.scaled(at), at, rough) for at in lams_between(largest, lam, step)]
    if not convex:
        bent = [penalty.straighter(times) for times in tuning.straighter]
        stages += [(at, lam, tuning.rough) for at in (guide, *bent)]
    return stages


def _convex_part(penalty: Any) -> Any:
    known = hasattr(penalty, "split") and hasattr(penalty, "straighter")
    return penalty.split()[0] if known else None


class Softening:
    """From x = 0 through easier losses, each solved to `tol`."""

    def __init__(self, easier: list[Any], tol: float, report: Any) -> None:
        self.easier, self.tol, self.report = easier, tol, report

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The state at the solution for the last of the easier losses."""
        x, c, passes = np.zeros(problem.size), 0.0 * state.c, 0
        for loss in self.easier:
            left = (max_passes - passes) // 2
            if left > 0:
                at = problem.with_loss(loss)
                easier = Continuation().advance(at, begin(at, x, c), left)
                minimise(at, easier, self.tol, left, self.report)
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
    if not tuning.window_step < ratio < np.inf:
        return []
    stages = int(np.ceil(np.log(ratio) / np.log(tuning.window_step)))
    most = min(stages, limits.WINDOWS)
    step = tuning.window_step if stages <= most else ratio ** (1.0 / most)
    return [loss.widened(step**k) for k in range(most, 0, -1)]
