"""Coordinates one by one: quadratic models of the loss and exact cycles over a working set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, polish, step_length, weights
from cyclade.linear.state import NO_COLUMNS, State
from cyclade.linear.subproblem.active_set import TIRED, suits
from cyclade.linear.subproblem.gram_newton import gram_newton
from cyclade.linear.subproblem.panel_solver import (
    ENTRY,
    PATIENCE,
    IncrementalPanelSolver,
    PanelSolver,
)

Array = NDArray[Any]

FORCING = 0.1  # what part of its first distance a curved model is minimised to
LOOSE = 0.5  # the same for a nonconvex loss, whose models are worth less
DEAR = 2.0  # times a look at the working set must cost less than one at all columns, or is not made
DIRECT = 20  # cycles: products that cost less are formed at once for a curved model
ROUNDS = 5  # models of float32 columns; then z is computed afresh, since their rounding adds up
NEWTON = 5  # steps in a row for a nonconvex loss


def improve(problem: Problem, state: State, W: Array, goal: float, max_passes: int) -> bool:
    """Minimise over the coordinates W (and the intercept) until they are goal-stationary."""
    state.working = W
    if problem.loss.quadratic:
        minimise_exactly(problem, state, W, goal, max_passes)
        return True
    columns = state.kept.get("columns")
    if columns is None or not np.isin(W, columns.cols, assume_unique=True).all():
        columns = state.kept["columns"] = problem.design.columns(W, problem.fit_intercept)
    if columns is not None:
        gram_newton(problem, state, columns, goal, max_passes)
    else:
        minimise_models(problem, state, W, goal, max_passes)
    return True


def minimise_models(problem: Problem, state: State, W: Array, eps: float, most: int) -> None:
    """By quadratic models of the loss, each minimised by cycles."""
    damping, spent, wait, rounds = 1.0, 0, 1, 0
    forcing = FORCING if problem.loss.convex else LOOSE
    single = problem.design.dtype == np.float32
    while state.passes < most and not (single and rounds == ROUNDS):
        V, rounds = moving(problem, state, W, eps, forcing), rounds + 1
        if not V.size:
            return
        model, every = Model(problem, state.loss_at, damping, state.trust), np.arange(V.size)
        panel_solver = PanelSolver(model.panel(V))
        panel = panel_solver.panel
        if panel.gram_breakeven_cycles(every, every) < DIRECT:
            panel_solver.spent = DIRECT
        x, before = state.x[V], state.passes
        panel.start(model.start(), x)
        if not panel_solver.cycle(problem.penalty, state, every, eps, most, forcing):
            return  # the intercept alone is off, or rounding: a check of all columns mends it
        spent += state.passes - before
        slow = state.kept.get("slow", 0) + 1 if state.passes - before >= PATIENCE else 0
        state.kept["slow"] = slow
        dx = panel.x[: V.size].astype(np.float64) - x
        dz, dc = model.move(panel, dx)
        t, there = step_length(model, V, x, dx, problem.loss_at(model.z + dz))
        if t < 1.0:
            state.trust = min(1.0, 3.0 * state.trust)
        if t > 0:
            state.x[V], state.loss_at, state.c = x + t * dx, there, state.c + t * dc
            state.fresh = False
            damping = max(1.0, damping / 4)
        else:
            damping *= 8
        if damping > 1e12 or (slow >= TIRED and suits(problem, state)):
            return
        inside = np.flatnonzero(state.x[V])
        settled = np.array_equal(np.sign(state.x[V]), np.sign(x))
        long = spent > wait * panel.gram_breakeven_cycles(inside, inside)
        if settled and long and solvable(problem, state.x[V], V, inside):
            spent, wait = 0, 2 * wait
            finish(problem, state, V[inside], eps)


def minimise_exactly(problem: Problem, state: State, W: Array, eps: float, most: int) -> None:
    """The same where the model is the loss itself, on a panel that is kept and grows."""
    panel_solver, now = state.kept.get("panel_solver"), state.measured
    if panel_solver is None:
        w = weights(problem, state.loss_at, 1.0, 1.0)
        panel = problem.design.growing_panel(w, problem.fit_intercept)
        panel_solver = state.kept["panel_solver"] = IncrementalPanelSolver(
            panel, problem.design.p, w, problem.fit_intercept
        )
    at, panel = panel_solver.places(W), panel_solver.panel
    panel_solver.start(state.x, now.loss_at.slopes, now.slope)
    cols = panel.cols[at]
    first = panel.means[at] * now.slope - now.gradient.exactly(cols)
    leave = DEAR * panel.entries(at) > problem.design.entries
    if panel_solver.cycle(problem.penalty, state, at, eps, most, 0.0, first, leave, state.target):
        dx = panel.x[at].astype(np.float64) - state.x[cols]
        state.x[cols] += dx
        if problem.fit_intercept:
            state.c -= now.slope / panel_solver.mass + float(panel.means[at] @ dx)
        state.fresh = False


def moving(problem: Problem, state: State, W: Array, eps: float, forcing: float) -> Array:
    """The columns of W that a curved model is made of: the support, and those that violate.

    None if W and the intercept are eps-stationary. A model's weights are another copy of its
    columns, so it has no others; they may come in with the next.
    """
    x, loss_at = state.x[W], state.loss_at
    if loss_at is state.measured.loss_at:
        g = state.measured.gradient.exactly(W)
    else:
        g = problem.design.correlate_some(W, loss_at.slopes)
    distances = problem.penalty.distances(W, x, g)
    slope = float(loss_at.slopes.sum()) if problem.fit_intercept else 0.0
    worst = max(float(distances.max(initial=0.0)), abs(slope))
    if worst <= eps:
        return NO_COLUMNS
    goal = max(0.3 * eps, forcing * worst)
    return np.asarray(W[(x != 0) | (distances > ENTRY * goal)])


def solvable(problem: Problem, x: Array, W: Array, inside: Array) -> bool:
    """Whether Newton steps on the support make sense: fewer columns than rows, or r is curved."""
    if 0 < inside.size < problem.design.n:
        return True
    return inside.size > 0 and float(problem.penalty.derivatives(W[inside], x[inside])[1].min()) > 0


def finish(problem: Problem, state: State, S: Array, eps: float) -> None:
    """Newton steps on a support that has settled, while they lower F and it is not stationary.

    Where φ'' < 0 they may be short, and many: then some cycles come in between.
    """
    most = np.inf if problem.loss.convex else state.passes + NEWTON
    while S.size and state.passes < most:
        step = polish(Model(problem, state.loss_at, 1.0, state.trust), state.x[S], S, eps)
        if step is None:
            return
        dx, state.loss_at, dc = step
        state.x[S] += dx
        state.c += dc
        state.fresh = False
        state.passes += 1
        S = S[state.x[S] != 0]
