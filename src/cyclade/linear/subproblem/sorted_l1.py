"""Sorted l1: quadratic models of the loss, minimised by cycles over clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.quadratic import Model, step_length
from cyclade.linear.sorted_l1.problem import SlopeProblem
from cyclade.linear.sorted_l1.quadratic import Descent
from cyclade.linear.sorted_l1.sorting import sorted_residuals

if TYPE_CHECKING:
    from cyclade.linear.sorted_l1.engine import State

Array = NDArray[Any]

FORCING = 0.1  # what part of its first distance a curved model is minimised to


def minimise_over(problem: SlopeProblem, state: State, W: Array, eps: float, most: int) -> None:
    """Minimise over the coordinates W (and the intercept) until they are eps-stationary."""
    lam, damping = problem.lam[: W.size], 1.0
    while state.passes < most and W.size:
        worst = distance_on(problem, state, W)
        if worst <= eps:
            return
        model = Model(problem, state.loss_at, damping, state.trust)
        descent = state.descent or Descent(problem.panel(W, model.w), lam)
        if model.exact:
            state.descent = descent
        goal = 0.3 * eps if model.exact else max(0.3 * eps, FORCING * worst)
        x = state.x[W]
        new, made = descent.minimise(model.start(), x, goal, most - state.passes)
        if not made:
            return  # the intercept alone is off, or rounding: a check of all columns mends it
        state.passes += made
        dx = new - x
        dz, dc = model.move(descent.panel, dx)
        t, there = step_length(model, W, x, dx, problem.loss_at(model.z + dz))
        if t < 1.0:
            state.trust = min(1.0, 3.0 * state.trust)
        if t == 1.0:
            state.x[W] = new  # sums would part members of a cluster by rounding
        elif t > 0.0:
            state.x[W] = x + t * dx
        if t > 0.0:
            state.loss_at, state.c = there, state.c + t * dc
            damping = max(1.0, damping / 4)
        else:
            damping *= 8
        if damping > 1e12 or model.exact:
            return


def distance_on(problem: SlopeProblem, state: State, W: Array) -> float:
    """The largest entry of dist(∂F, 0) on W and the intercept, where all others are zero."""
    loss_at = state.loss_at
    if loss_at is state.measured.loss_at:
        g = state.measured.g[W]
    else:
        g = problem.design.correlate_some(W, loss_at.slopes)
    _, residuals = sorted_residuals(state.x[W], g, problem.lam[: W.size])
    slope = float(loss_at.slopes.sum()) if problem.fit_intercept else 0.0
    return max(float(np.abs(residuals).max()), abs(slope))
