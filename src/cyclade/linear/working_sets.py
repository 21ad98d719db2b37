"""Working sets: few columns are cycled over, all are checked.

    repeat  measure all columns at a freshly computed z; stop if optimal enough;
            W ← the support and the columns that violate optimality most;
            minimise over W, by quadratic models and exact cycles, to a fraction of the violation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Certificate, Measured, measure
from cyclade.linear.compiled import Compiled
from cyclade.linear.design import Panel
from cyclade.linear.newton import Model, step_length
from cyclade.linear.problem import Problem

Array = NDArray[Any]
import os
FIRST=float(os.environ.get('FIRST','0.05'))
BURST=int(os.environ.get('BURST','4'))
FORCING=float(os.environ.get('FORCING','0.1'))
EPSC=float(os.environ.get('EPSC','0.3'))

@dataclass
class State:
    """A point, and what is known about it."""

    x: Array
    c: float
    z: Array
    measured: Measured | None = None
    passes: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    working: Array = field(default_factory=lambda: np.empty(0, np.int64))


def begin(problem: Problem, x: Array, c: float) -> State:
    """Start at (x, c), moved into the domain of r; the intercept is made optimal."""
    x = np.array(x, np.float64)
    problem.penalty.project(x)
    z = problem.predict(x, c)
    shift = problem.best_shift(z)
    return State(x, c + shift, z + shift)


def scale_of_gap(problem: Problem) -> float:
    """The loss of the null model (x = 0, best intercept) above that of a perfect fit."""
    z = np.zeros(problem.design.n) + problem.offset
    z = z + problem.best_shift(z)
    perfect = -float(problem.s @ problem.loss.conjugate(problem.y, np.zeros_like(z)))  # type: ignore[attr-defined]
    null = problem.smooth(z)
    return null - perfect if np.isfinite(perfect) else abs(null)


def scale_of_distance(problem: Problem, g: Array) -> float:
    """λ: the largest finite threshold of a coordinate; without any, the largest slope at hand."""
    still = problem.penalty.still
    finite = still[np.isfinite(still)]
    if finite.size and finite.max() > 0:
        return float(finite.max())
    return float(np.abs(g).max(initial=0.0)) or 1.0


def minimise(problem: Problem, state: State, tol: float, most: int, report: Any) -> Certificate:
    """Move `state` until the certificate holds or `most` cycles are spent."""
    gap_goal = tol * scale_of_gap(problem) if problem.has_dual else 0.0
    best_dual, eps_goal = -np.inf, 0.0
    if state.measured is None:
        state.measured = measure(problem, state.x, state.z)
    scale = scale_of_distance(problem, state.measured.g)
    distance_goal = tol * scale
    while True:
        now = state.measured
        best_dual = max(best_dual, now.dual)
        if problem.has_dual:
            gap = max(now.objective - best_dual, 0.0)
            certificate = Certificate("gap", gap, gap_goal)
        else:
            certificate = Certificate("distance", now.distance, distance_goal)
        row = {"objective": now.objective, certificate.kind: certificate.value,
               "passes": state.passes, "working": state.working.size}  # fmt: skip
        state.history.append(row)
        report(row)
        if certificate.reached or state.passes >= most:
            return certificate
        if problem.has_dual:
            aim = 0.5 * now.distance * min(gap_goal / certificate.value, 1.0)
            eps_goal = min(eps_goal, aim) if eps_goal else aim
        else:
            eps_goal = 0.5 * distance_goal
        last, state.working = state.working, choose(state.x, now.distances, state.working)
        new = np.setdiff1d(state.working, last, assume_unique=True)
        outside = float(now.distances[new].max(initial=0.0))
        eps = max(eps_goal, min(0.1 * outside, EPSC * scale))
        minimise_over(problem, state, state.working, eps, most)
        z = problem.predict(state.x, state.c)
        shift = problem.best_shift(z)
        state.c, state.z = state.c + shift, z + shift
        state.measured = measure(problem, state.x, state.z)


def choose(x: Array, distances: Array, last: Array) -> Array:
    """The support and the worst violators, at least twice the support."""
    support = x != 0
    inside = int(support.sum())
    wanted = max(2 * inside, 128, int(FIRST * x.size))
    violating = np.flatnonzero(~support & (distances > 0))
    room = max(wanted - inside, 32)
    if violating.size > room:
        violating = violating[np.argpartition(-distances[violating], room)[:room]]
    return np.sort(np.concatenate([np.flatnonzero(support), violating]))


def minimise_over(problem: Problem, state: State, W: Array, eps: float, most: int) -> None:
    """Minimise over the coordinates W (and the intercept) until they are eps-stationary."""
    damping = 1.0
    while state.passes < most:
        model = Model(problem, state.z, damping)
        panel = model.panel(W)
        x = state.x[W]
        panel.start(model.start(), x)
        if not cycle(problem.penalty, state, panel, W, eps, most, model.exact):
            return
        dx = panel.x[: W.size].astype(np.float64) - x
        dz, dc = model.move(panel, dx)
        t = 1.0 if model.exact else step_length(model, W, x, dx, dz)
        if t > 0:
            state.x[W], state.z, state.c = x + t * dx, state.z + t * dz, state.c + t * dc
            damping = max(1.0, damping / 4)
        else:
            damping *= 8
        if model.exact or damping > 1e12:
            return


def cycle(
    penalty: Compiled, state: State, panel: Panel, W: Array, eps: float, most: int, exact: bool
) -> bool:
    """Cycle over the active columns of a panel until all of them are eps-stationary.

    The first distances are those of the true objective, since a model has its slopes: if they are
    small enough nothing is done, and the answer is no. An inexact model is not worth an exact
    minimum: its distances come down by a factor.
    """
    burst, goal = BURST, None
    while state.passes < most:
        x = panel.x[: W.size]
        distances = penalty.distances(W, x, -panel.correlations())
        worst = float(distances.max(initial=0.0))
        if goal is None:
            if worst <= eps:
                return False
            goal = eps if exact else max(0.3 * eps, FORCING * worst)
        elif worst <= goal:
            break
        panel.choose(np.flatnonzero((x != 0) | (distances > 0.1 * goal)))
        done, _ = panel.cycles(min(burst, most - state.passes), 0.3 * goal)
        state.passes += done
        burst = min(2 * burst, 32)
    return True
