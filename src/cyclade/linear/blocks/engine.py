"""Working sets of blocks: few are cycled over, all are checked.

repeat  measure all blocks at a freshly computed z; stop if optimal enough;
        W ← the blocks that are not zero and those that violate optimality most;
        minimise over W, by quadratic models and exact cycles, to a fraction of the violation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.certificate import Measured, measure
from cyclade.linear.blocks.descent import Descent, occupied
from cyclade.linear.blocks.models import model_panel, model_weights
from cyclade.linear.blocks.problem import BlockProblem
from cyclade.linear.certificate import Certificate

Array = NDArray[Any]

LEAST_COLUMNS = 256
"""A first working set has about so many columns, if so many violate."""
GROWTH = 4.0
"""A working set has at most so many times the blocks that are not zero."""
EASE = 0.3
"""It is worked on until its violation is this fraction of the last."""
COARSE_CYCLES = 48
"""In single precision no more at a time: should rounding stand in the way, measuring tells."""
PATIENCE = 20
"""Checks in a row that find neither a lower F nor a better certificate: precision is used up."""
MODEL_PATIENCE = 8
"""Models in a row that make a working set no better: all blocks had better be checked."""
ROUNDING = 1e-15
"""A relative fall of F below this is none."""
ENOUGH = 1e-3
"""Of λ: along a path all blocks are brought this near to stationary, whatever the tolerance.

F − min F falls with the square of the distance but a gap only in proportion, so a gap lets go of
points that the next two λ would be foretold from badly.
"""
NEWTON_STEPS = 100
"""Quadratic models per working set; what is left is picked up by the next."""


@dataclass
class State:
    """A point, and what is known about it."""

    x: Array  # flat, block after block
    c: Array  # (T,)
    z: Array  # (n, T)
    measured: Measured | None = None
    passes: int = 0
    working: Array = field(default_factory=lambda: np.empty(0, np.int64))
    history: list[dict[str, float]] = field(default_factory=list)
    panel: Any = None  # of an exact quadratic, which every working set and every λ can use
    near: bool = False  # whether this is expected to be close to the end already


@dataclass
class Progress:
    """The best that checks have found, and how many in a row found nothing better."""

    value: float = np.inf
    objective: float = np.inf
    idle: int = 0

    def stale(self, value: float, objective: float) -> int:
        """Take note of a check; the number that were in vain."""
        lower = objective < self.objective * (1.0 - math.copysign(ROUNDING, self.objective))
        self.idle = 0 if lower or value < 0.9 * self.value else self.idle + 1
        self.value, self.objective = min(self.value, value), min(self.objective, objective)
        return self.idle


def begin(problem: BlockProblem, x: Array, c: Array) -> State:
    """Start at x (by features); the intercept is made optimal."""
    z = problem.predict(x) + c
    shift = problem.best_shift(z)
    return State(problem.by_blocks(x).copy(), c + shift, z + shift)


def minimise(
    problem: BlockProblem, state: State, tol: float, most: int, report: Callable[[Any], None]
) -> Certificate:
    """Move `state` until the certificate holds or `most` cycles are spent."""
    gap_goal = tol * problem.gap_scale if problem.has_dual else 0.0
    best_dual, eps_goal, stuck, progress = -np.inf, np.inf, 0, Progress()
    fresh = state.measured is None  # z was computed from x, not carried along
    if state.measured is None:
        state.measured = measure(problem, state.x, state.z)
    distance_goal = tol * (problem.reg.scale() or state.measured.distance or 1.0)
    ease = 0.0 if state.near else EASE
    while True:
        now = state.measured
        best_dual = max(best_dual, now.dual)
        if problem.has_dual:
            gap = max(now.objective - best_dual, 0.0)
            certificate = Certificate("gap", gap, gap_goal)
            # Near the solution the gap is proportional to the distance, for θ is u shrunk by it.
            eps_goal = min(eps_goal, 0.5 * now.distance * min(gap_goal / max(gap, 1e-300), 1.0))
        else:
            certificate = Certificate("distance", now.distance, distance_goal)
            eps_goal = 0.5 * distance_goal
        row = {"objective": now.objective, certificate.kind: certificate.value,
               "passes": state.passes, "working": state.working.size}  # fmt: skip
        state.history.append(row)
        report(row)
        broken = not np.isfinite(now.objective)  # overflow: no certificate will come of it
        exhausted = stuck > 2 or progress.stale(certificate.value, now.objective) > PATIENCE
        done = certificate.reached or state.passes >= most or exhausted
        if state.near and state.passes == 0 and stuck == 0 and now.distance > 0.0:
            done = False  # on a path errors would add up, were good starts left as they are
        if broken:
            return replace(certificate, value=np.nan)
        if done and fresh:
            return certificate
        fresh = done
        if not done:
            before = state.passes
            state.working = choose(problem, state)
            eps = max(eps_goal, ease * now.distance)
            if state.near:
                eps = min(eps, ENOUGH * problem.reg.scale() or eps)
            coarse = minimise_over(problem, state, eps, most)
            stuck = stuck + 1 if state.passes == before else 0  # precision allows no more
            # Rounded, or this may well be the end, or it costs next to nothing beside a check.
            fresh = coarse or eps == eps_goal or problem.reads_support
            ease = EASE
            state.near = False
        if fresh:
            refresh(problem, state)
        else:
            state.z = state.z + problem.best_shift(state.z)
        state.measured = measure(problem, state.x, state.z)


def refresh(problem: BlockProblem, state: State) -> None:
    """z afresh from x, and the intercept that is best there."""
    linear = problem.predict(problem.by_features(state.x))
    c = problem.s @ (state.z - linear) if problem.fit_intercept else np.zeros(problem.T)
    shift = problem.best_shift(linear + c)
    state.c = c + shift
    state.z = linear + state.c


def choose(problem: BlockProblem, state: State) -> Array:
    """The blocks that are not zero and the worst violators, some times as many."""
    assert state.measured is not None
    far = state.measured.distances
    inside = occupied(problem.reg, state.x)
    violating = np.flatnonzero(~inside & (far > 0))
    columns = problem.reg.order.size / far.size  # of a block, on average
    least = -(-LEAST_COLUMNS // int(columns + 0.5))
    room = max(int((GROWTH - 1.0) * inside.sum()), least, 8)
    if violating.size > room:
        violating = violating[np.argpartition(-far[violating], room)[:room]]
    return np.sort(np.concatenate([np.flatnonzero(inside), violating]))


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
