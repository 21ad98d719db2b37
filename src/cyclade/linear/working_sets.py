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
from cyclade.linear.design import Panel
from cyclade.linear.newton import is_quadratic, weights
from cyclade.linear.problem import Problem

Array = NDArray[Any]


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
    thresholds = problem.penalty.thresholds(problem.design.p)
    if thresholds is not None:
        finite = thresholds[np.isfinite(thresholds)]
        if finite.size and finite.max() > 0:
            return float(finite.max())
    return float(np.abs(g).max(initial=0.0)) or 1.0


def minimise(problem: Problem, state: State, tol: float, most: int, report: Any) -> Certificate:
    """Move `state` until the certificate holds or `most` cycles are spent."""
    gap_goal = tol * scale_of_gap(problem) if problem.has_dual else 0.0
    best_dual, eps_goal = -np.inf, 0.0
    if state.measured is None:
        state.measured = measure(problem, state.x, state.z)
    distance_goal = tol * scale_of_distance(problem, state.measured.g)
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
        state.working = choose(state.x, now.distances, state.working)
        eps = max(eps_goal, 0.1 * now.distance)
        minimise_over(problem, state, state.working, eps, most)
        z = problem.predict(state.x, state.c)
        shift = problem.best_shift(z)
        state.c, state.z = state.c + shift, z + shift
        state.measured = measure(problem, state.x, state.z)


def choose(x: Array, distances: Array, last: Array) -> Array:
    """The support and the worst violators, at least twice the support."""
    support = x != 0
    inside = int(support.sum())
    wanted = max(2 * inside, 128, min(last.size, 2 * inside))
    violating = np.flatnonzero(~support & (distances > 0))
    room = max(wanted - inside, 32)
    if violating.size > room:
        violating = violating[np.argpartition(-distances[violating], room)[:room]]
    return np.sort(np.concatenate([np.flatnonzero(support), violating]))


def minimise_over(problem: Problem, state: State, W: Array, eps: float, most: int) -> None:
    """Minimise over the coordinates W (and the intercept) until they are eps-stationary."""
    y, s, loss, penalty = problem.y, problem.s, problem.loss, problem.penalty
    exact = is_quadratic(loss)
    least = 1e-10 * float(s.mean())
    damping = 1.0
    for _ in range(200):
        u = loss.gradient(y, state.z)
        w = np.maximum(s, least) * weights(loss, y, state.z, 1e-3 if loss.convex else 0.1, damping)
        root = np.sqrt(w)
        panel = problem.design.panel(W, w, problem.fit_intercept, penalty)
        R0 = -s * u / root
        mass = float(w.sum())
        centred = R0 - root * (float(root @ R0) / mass) if problem.fit_intercept else R0
        x0 = state.x[W]
        panel.start(centred, x0)
        before = state.passes
        cycle(problem, state, panel, W, eps if exact else 0.0, most, exact)
        if state.passes == before:
            return
        dx = panel.x[: W.size].astype(np.float64) - x0
        dz = (R0 - panel.residual()) / root
        dc = float(w @ dz) / mass - float(panel.means @ dx) if problem.fit_intercept else 0.0
        if exact:
            state.x[W], state.z, state.c = x0 + dx, state.z + dz, state.c + dc
            return
        r0 = penalty.total(W, x0)
        F0 = problem.smooth(state.z) + r0
        predicted = float((s * u) @ dz) + penalty.total(W, x0 + dx) - r0
        t, accepted = 1.0, False
        for _ in range(8):
            F = problem.smooth(state.z + t * dz) + penalty.total(W, x0 + t * dx)
            if F <= F0 + 1e-4 * t * min(predicted, 0.0) + 1e-14 * abs(F0):
                accepted = True
                break
            t *= 0.5
        if accepted:
            state.x[W] = x0 + t * dx
            state.z = state.z + t * dz
            state.c += t * dc
            damping = max(1.0, damping / 2)
        else:
            damping *= 8
        if state.passes >= most:
            return
        g = -problem.design.panel(W, s, False, penalty).correlations() if False else None
        del g


def cycle(
    problem: Problem, state: State, panel: Panel, W: Array, eps: float, most: int, exact: bool
) -> None:
    """Cycles over the active columns of a panel, until all its columns are eps-stationary."""
    burst = 4
    start = True
    while state.passes < most:
        x = panel.x[: W.size]
        d = problem.penalty.distances(W, x, -panel.correlations())
        worst = float(d.max(initial=0.0))
        if start and not exact:
            eps = 0.1 * worst
            start = False
        if worst <= eps:
            return
        panel.choose(np.flatnonzero((x != 0) | (d > 0.1 * eps)))
        done, _ = panel.cycles(min(burst, most - state.passes), 0.3 * eps)
        state.passes += done
        burst = min(2 * burst, 32)
