"""Working sets of blocks: few are cycled over, all are checked.

repeat  measure all blocks at a freshly computed z; stop if optimal enough;
        W ← the blocks that are not zero and those that violate optimality most;
        minimise over W, by quadratic models and exact cycles, to a fraction of the violation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.certificate import Measured, measure
from cyclade.linear.blocks.descent import occupied
from cyclade.linear.blocks.problem import BlockProblem
from cyclade.linear.blocks.progress import Progress
from cyclade.linear.certificate import Certificate
from cyclade.linear.subproblem import group

Array = NDArray[Any]

LEAST_COLUMNS = 256
"""A first working set has about so many columns, if so many violate."""
GROWTH = 4.0
"""A working set has at most so many times the blocks that are not zero."""
EASE = 0.3
"""It is worked on until its violation is this fraction of the last."""
PATIENCE = 20
"""Checks in a row that find neither a lower F nor a better certificate: precision is used up."""
ENOUGH = 1e-3
"""Of λ: along a path all blocks are brought this near to stationary, whatever the tolerance.

F − min F falls with the square of the distance but a gap only in proportion, so a gap lets go of
points that the next two λ would be foretold from badly.
"""


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
            coarse = group.minimise_over(problem, state, eps, most)
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
