"""Sorted l1: quadratic models of the loss, minimised by cycles over clusters.

Coordinates outside a working set W are zero and come last in the order, so the problem over W has
the |W| largest λ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, step_length
from cyclade.linear.sorted_l1.quadratic import Descent
from cyclade.linear.state import State

Array = NDArray[Any]

FORCING = 0.1  # what part of its first distance a curved model is minimised to


def improve(problem: Problem, state: State, W: Array, goal: float, max_passes: int) -> bool:
    """Minimise over the coordinates W (and the intercept) until they are goal-stationary."""
    penalty: Any = problem.penalty
    lam, damping, state.working = penalty.lam[: W.size], 1.0, W
    while state.passes < max_passes and W.size:
        worst = distance_on(problem, state, W)
        if worst <= goal:
            break
        model = Model(problem, state.loss_at, damping, state.trust)
        descent = descent_over(problem, state, W, model.w, lam)
        aim = 0.3 * goal if model.exact else max(0.3 * goal, FORCING * worst)
        x = state.x[W]
        new, made = descent.minimise(model.start(), x, aim, max_passes - state.passes)
        if not made:
            break  # the intercept alone is off, or rounding: a check of all columns mends it
        state.passes += made
        dx = new - x
        dz, dc = model.move(descent.panel, dx)
        t, there = step_length(model, W, x, dx, problem.loss_at(model.z + dz))
        if t < 1.0:
            state.trust = min(1.0, 3.0 * state.trust)
        if t > 0.0:  # at 1, sums would part members of a cluster by rounding
            state.x[W] = new if t == 1.0 else x + t * dx
            state.loss_at, state.c, state.fresh = there, state.c + t * dc, False
            damping = max(1.0, damping / 4)
        else:
            damping *= 8
        if damping > 1e12 or model.exact:
            break
    return True


def descent_over(problem: Problem, state: State, W: Array, w: Array, lam: Array) -> Descent:
    """Over the columns W under weights w; of an exact model it is kept."""
    if not problem.loss.quadratic:
        return Descent(float64_panel(problem, W, w), lam)
    kept = state.kept.get("clusters")
    if kept is None or not (np.array_equal(kept[0], W) and np.array_equal(kept[1].lam, lam)):
        kept = state.kept["clusters"] = W, Descent(float64_panel(problem, W, w), lam)
    return kept[1]


def float64_panel(problem: Problem, W: Array, w: Array) -> Any:
    """The columns W under weights w, in float64 whatever X is: it is a copy in any case."""
    design: Any = problem.design
    if design.dtype == np.float64:
        return design.panel(W, w, problem.fit_intercept)
    if hasattr(design, "X"):
        few: Any = type(design)(np.asfortranarray(design.X[:, W], np.float64))
    else:
        from scipy.sparse import csc_array

        sizes = (design.starts[W + 1] - design.starts[W]).astype(np.int64)
        ends = np.cumsum(sizes)
        first = design.starts[W].astype(np.int64) + sizes - ends
        at = np.arange(ends[-1]) + np.repeat(first, sizes)
        rows = design.rows[at].astype(np.int64)
        data = design.data[at].astype(np.float64)
        few = type(design)(csc_array((data, rows, np.append(0, ends)), (design.n, W.size)))
    return few.panel(np.arange(W.size), w, problem.fit_intercept)


def distance_on(problem: Problem, state: State, W: Array) -> float:
    """The largest entry of dist(∂F, 0) on W and the intercept, where all others are zero."""
    loss_at = state.loss_at
    if loss_at is state.measured.loss_at:
        g = state.measured.g[W]
    else:
        g = problem.design.correlate_some(W, loss_at.slopes)
    far = problem.penalty.distances(W, state.x[W], g)
    return max(float(far.max()), abs(float(problem.slope(loss_at))))
