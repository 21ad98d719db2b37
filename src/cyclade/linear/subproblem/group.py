"""Blocks of several entries: quadratic models of the loss and exact cycles over groups or rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.descent import Descent
from cyclade.linear.blocks.models import model_panel
from cyclade.linear.loss_at import LossAt
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import line_search, weights
from cyclade.linear.state import State

Array = NDArray[Any]

COARSE_CYCLES = 48
"""In single precision no more at a time: should rounding stand in the way, measuring tells."""
MODEL_PATIENCE = 8
"""Models in a row that make a working set no better: all blocks had better be checked."""
FORCING = 0.15
"""What part of its first distance a curved model is minimised to."""
NEWTON_STEPS = 100
"""Quadratic models per working set; what is left is picked up by the next."""


def improve(problem: Problem, state: State, W: Array, goal: float, max_passes: int) -> bool:
    """Minimise over the blocks W until they are goal-stationary."""
    state.working = W
    penalty: Any = problem.penalty
    exact, shape = problem.loss.quadratic, (problem.design.n, penalty.T)
    damping, first, best, idle = 1.0, True, np.inf, 0
    for _ in range(NEWTON_STEPS):
        here = state.loss_at
        raw, w = -here.slopes.reshape(shape), problem.s
        if not exact:
            w = weights(problem, here, damping, state.trust).reshape(shape)
        panel: Any = state.kept.get("groups") if exact else None
        if panel is None:
            panel = state.kept["groups"] = model_panel(problem, w)
        pull = centred(raw, w) if problem.fit_intercept else raw
        panel.include(W)
        coarse = exact and panel.precision(W, goal, pull)
        panel.start(state.x.copy(), pull)
        descent = Descent(panel, penalty)
        # The model's gradient is the true one where it is made.
        far = state.measured.distances[W] if first else descent.distances(W)
        first, worst = False, float(far.max(initial=0.0))
        idle = 0 if worst < 0.9 * best else idle + 1
        best = min(best, worst)
        if worst <= goal or state.passes >= max_passes or idle > MODEL_PATIENCE:
            break
        aim = goal if exact else max(FORCING * worst, 0.5 * goal)
        limit = min(max_passes - state.passes, COARSE_CYCLES if coarse else max_passes)
        # A set that has just grown is not worth much care: the next will differ from it.
        settled = state.on_path or W.size <= 1.5 * penalty.occupied(state.x).sum()
        bursts = 2 if settled else 1
        state.passes += descent.run(W, aim, limit, far, trust=exact, bursts=bursts)
        full = np.broadcast_to(w[:, None] if w.ndim == 1 else w, shape)
        tau = np.divide(raw, full, out=np.zeros(shape), where=full > 0)
        dz, x = (tau - panel.residual()).reshape(here.z.shape), panel.x.reshape(-1)
        end = problem.loss_at(here.z + dz)
        if exact:
            state.x, state.loss_at = x, end
            break
        damping = move(problem, state, x, end, damping)
    if state.loss_at is not state.measured.loss_at:
        refresh(problem, state)
    return True


def centred(pull: Array, w: Array) -> Array:
    """w (τ − z) after τ − z was shifted, by outputs, to have w-mean zero."""
    w = w[:, None] if w.ndim == 1 else w
    return np.asarray(pull - w * (pull.sum(axis=0) / w.sum(axis=0)))


def move(problem: Problem, state: State, x: Array, end: LossAt, damping: float) -> float:
    """Move to the minimiser x of the model, or part of the way; the damping of the next model."""
    penalty: Any = problem.penalty
    dx, every = x - state.x, penalty.numbers
    t, loss_at = line_search(
        problem, state.loss_at, end,
        lambda t: penalty.total(every, x if t == 1.0 else state.x + t * dx),
    )  # fmt: skip
    if t < 1.0:
        state.trust = min(1.0, 3.0 * state.trust)
    if t == 0.0:
        return 8.0 * damping
    state.x, state.loss_at = x if t == 1.0 else state.x + t * dx, loss_at
    return max(1.0, damping / 2) if t == 1.0 else damping


def refresh(problem: Problem, state: State) -> None:
    """z afresh from x; the intercept from what z had been carried along to."""
    z = problem.predict(state.x, state.c)
    if problem.fit_intercept:
        shift: Any = problem.s @ (state.loss_at.z - z)
        state.c, z = state.c + shift, z + shift
    state.loss_at, state.fresh = problem.loss_at(z), True
