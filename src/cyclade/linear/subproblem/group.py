"""Blocks of coordinates: quadratic models of the loss and exact cycles over groups or rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.descent import Descent, occupied
from cyclade.linear.blocks.models import model_panel, model_weights
from cyclade.linear.blocks.problem import BlockProblem
from cyclade.linear.blocks.progress import Progress

if TYPE_CHECKING:
    from cyclade.linear.blocks.engine import State

Array = NDArray[Any]

COARSE_CYCLES = 48
"""In single precision no more at a time: should rounding stand in the way, measuring tells."""
MODEL_PATIENCE = 8
"""Models in a row that make a working set no better: all blocks had better be checked."""
NEWTON_STEPS = 100
"""Quadratic models per working set; what is left is picked up by the next."""


def minimise_over(problem: BlockProblem, state: State, eps: float, most: int) -> bool:
    """Minimise over the blocks of the working set until they are eps-stationary.

    Says whether z was carried along in single precision.
    """
    W, s = state.working, problem.s[:, None]
    damping, first, progress = 1.0, True, Progress()
    for _ in range(NEWTON_STEPS):
        u = problem.gradient(state.z)
        w = problem.s if problem.quadratic else s * model_weights(problem, state.z, damping)
        if state.panel is None or not problem.quadratic:
            state.panel = model_panel(problem, w)
        panel = state.panel
        pull = centred(-s * u, w) if problem.fit_intercept else -s * u
        panel.include(W)
        coarse = problem.quadratic and panel.precision(W, eps, pull)
        panel.start(state.x.copy(), pull)
        descent = Descent(panel, problem.reg)
        if first:
            assert state.measured is not None
            far = state.measured.distances[W]  # the model's gradient is the true one here
        else:
            far = descent.distances(W)
        first = False
        worst = float(far.max(initial=0.0))
        idle = progress.stale(worst, np.inf)
        if worst <= eps or state.passes >= most or idle > MODEL_PATIENCE:
            return coarse
        aim = eps if problem.quadratic else max(0.1 * worst, 0.5 * eps)
        limit = min(most - state.passes, COARSE_CYCLES if coarse else most)
        # A set that has just grown is not worth much care: the next will differ from it.
        settled = state.near or W.size <= 1.5 * occupied(problem.reg, state.x).sum()
        bursts = 2 if settled else 1
        made = descent.run(W, aim, limit, far, trust=problem.quadratic, bursts=bursts)
        state.passes += made
        full = np.broadcast_to(w[:, None] if w.ndim == 1 else w, u.shape)
        tau = np.divide(-s * u, full, out=np.zeros_like(u), where=full > 0)
        dz = tau - panel.residual()
        x = panel.x.reshape(-1)
        if problem.quadratic:
            state.x, state.z = x, state.z + dz
            return coarse
        damping = line_search(problem, state, x, dz, u, damping)
    return False


def centred(pull: Array, w: Array) -> Array:
    """w (τ − z) after τ − z was shifted, by outputs, to have w-mean zero."""
    w = w[:, None] if w.ndim == 1 else w
    return np.asarray(pull - w * (pull.sum(axis=0) / w.sum(axis=0)))


def line_search(
    problem: BlockProblem, state: State, x: Array, dz: Array, u: Array, damping: float
) -> float:
    """Move to the minimiser of the model, or part of the way; the damping of the next model."""
    dx, r0 = x - state.x, problem.reg.total(state.x)
    start = problem.smooth(state.z) + r0
    predicted = float((problem.s[:, None] * u * dz).sum()) + problem.reg.total(x) - r0
    t = 1.0
    for _ in range(8):
        new_x = x if t == 1.0 else state.x + t * dx
        value = problem.smooth(state.z + t * dz) + problem.reg.total(new_x)
        if value <= start + 1e-4 * t * min(predicted, 0.0) + 1e-14 * abs(start):
            state.x, state.z = new_x, state.z + t * dz
            return max(1.0, damping / 2) if t == 1.0 else damping
        t *= 0.5
    return 8.0 * damping
