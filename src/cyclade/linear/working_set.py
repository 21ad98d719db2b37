"""Working sets: few columns are cycled over, all are checked.

repeat  measure all columns at a freshly computed z; stop if optimal enough;
        W ← the support and the columns that violate optimality most;
        minimise over W, by quadratic models and exact cycles, to a fraction of the violation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Certificate, Measured, judge, measure
from cyclade.linear.kernels.columns import sort_out
from cyclade.linear.losses import Squared
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import LEAST, Model, polish, step_length
from cyclade.linear.stopping import NO_COLUMNS, Report, Standing, Stopping, scale_of_distance
from cyclade.linear.subproblem.active_set import TIRED, ActiveSetNewton, suits
from cyclade.linear.subproblem.gram_newton import gram_newton
from cyclade.linear.subproblem.panel_solver import (
    ENTRY,
    PATIENCE,
    IncrementalPanelSolver,
    PanelSolver,
)
from cyclade.linear.weighted_columns import Columns

Array = NDArray[Any]

SHARE = 0.1  # of all columns that a working set may always have
ALWAYS = 5_000  # columns at most by that rule
NEAR = 0.75  # a column at rest rides along if pulled by more than this part of its threshold
FORCING = 0.1  # what part of its first distance a curved model is minimised to
LOOSE = 0.5  # the same for a nonconvex loss, whose models are worth less
DEAR = 2.0  # times a look at the working set must cost less than one at all columns, or is not made
DIRECT = 20  # cycles: products that cost less are formed at once for a curved model
ROUNDS = 5  # models of float32 columns; then z is computed afresh, since their rounding adds up
ENOUGH = 1e-3  # of λ: on a path of least squares columns are brought this near in any case
NEWTON = 5  # steps in a row for a nonconvex loss


@dataclass
class State(Standing):
    """A point, and what is known about it."""

    on_path: bool = False  # whether a slightly smaller λ comes next
    panel_solver: IncrementalPanelSolver | None = (
        None  # of an exact model, kept from one working set to the next
    )
    columns: Columns | None = None  # of the last working set, where they were few
    fresh: bool = True  # whether z was computed from x and c at once
    active_set: ActiveSetNewton | None = None  # of a nonconvex loss, kept from one λ to the next
    slow: int = 0  # models in a row that cycles did not get to the end of


def begin(problem: Problem, x: Array, c: float) -> State:
    """Start at (x, c), moved into the domain of r; the intercept is made optimal."""
    x = np.array(x, np.float64)
    if (
        x.any() or float(problem.penalty.zero_threshold.min()) < 0
    ):  # else zero is known to be in the domain
        problem.penalty.project(x)
    loss_at, c = problem.stand(x, c)
    return State(x, c, loss_at, measure(problem, x, loss_at))


def rebase(problem: Problem, state: State) -> None:
    """Carry a state over to another penalty: nothing has moved, so few columns are read at most."""
    gradient = state.measured.gradient
    gradient.read_undecided(state.x, problem.penalty.zero_threshold)
    state.measured = judge(problem, state.x, state.loss_at, gradient)


def minimise(problem: Problem, state: State, tol: float, most: int, report: Report) -> Certificate:
    """Move `state` until the certificate holds or `most` cycles are spent."""
    scale = scale_of_distance(problem, state.measured.g)
    stopping = Stopping(problem, state, tol, scale, most, report)
    follows = state.on_path and type(problem.loss) is Squared
    rough = follows and not state.history and state.measured.distance > ENOUGH * scale
    while not stopping.done(state, rough):
        improve(problem, state, stopping.least, scale, most)
        rough = False
    return stopping.certificate


def improve(problem: Problem, state: State, least: float, scale: float, most: int) -> None:
    """One working set: choose it, minimise over it, and measure all columns again."""
    if suits(problem, state):
        state.active_set = state.active_set or ActiveSetNewton(problem.design.p)
        if state.active_set.minimise(problem, state, least, most):
            return
    last, distances = state.working, state.measured.distances
    with_near = state.on_path or type(problem.loss) is Squared
    state.working = choose(problem, state.x, state.measured, NEAR if with_near else np.inf)
    new = np.ones(problem.design.p, bool)
    new[last] = False
    outside = float(distances[state.working[new[state.working]]].max(initial=0.0))
    if not problem.penalty.convex:  # what comes in may push others out: go by what is seen
        outside = max(outside, state.measured.distance)
    eps = max(least, min(0.1 * outside, 0.3 * scale))
    if state.on_path and type(problem.loss) is Squared:
        eps = min(eps, ENOUGH * scale)
    minimise_over(problem, state, state.working, eps, most, least)
    if not state.fresh:
        state.loss_at = problem.loss_at(problem.predict(state.x, state.c))
    shift = problem.best_shift(state.loss_at)
    if shift != 0.0:
        state.c, state.loss_at = state.c + shift, problem.loss_at(state.loss_at.z + shift)
    state.fresh = True
    state.measured = measure(problem, state.x, state.loss_at)


def choose(problem: Problem, x: Array, measured: Measured, near: float) -> Array:
    """The support and the worst violators, at least twice the support; and columns close to that.

    A violation outside W costs a pass over all columns, one inside only a look at W. So columns at
    rest that are pulled by more than `near` of their threshold ride along, few and cheap.
    """
    p, zero_threshold, distances = x.size, problem.penalty.zero_threshold, measured.distances
    support, violating, close = np.empty((3, p), np.int64)
    inside, worse, nearly = sort_out(
        x, distances, measured.g, zero_threshold, near, support, violating, close
    )
    support, violating, close = support[:inside], violating[:worse], close[:nearly]
    room = max(inside, 128, min(int(SHARE * p), ALWAYS) - inside)
    if violating.size > room:
        violating = violating[np.argpartition(-distances[violating], room)[:room]]
        close = NO_COLUMNS  # worse ones are left out
    room = inside + 64
    if close.size > room:
        pull = np.abs(measured.g[close]) / zero_threshold[close]
        close = close[np.argpartition(-pull, room)[:room]]
    return np.sort(np.concatenate([support, violating, close]), kind="stable")  # runs are merged


def minimise_over(
    problem: Problem, state: State, W: Array, eps: float, most: int, least: float
) -> None:
    """Minimise over the coordinates W (and the intercept) until they are eps-stationary.

    `least` is the distance that all columns will be brought to in the end.
    """
    if type(problem.loss) is Squared:
        minimise_exactly(problem, state, W, eps, most, least)
        return
    columns = state.columns
    if columns is None or not np.isin(W, columns.cols, assume_unique=True).all():
        columns = state.columns = problem.design.columns(W, problem.fit_intercept)
    if columns is not None:
        gram_newton(problem, state, columns, eps, most)
        return
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
        state.slow = state.slow + 1 if state.passes - before >= PATIENCE else 0
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
        if damping > 1e12 or (state.slow >= TIRED and suits(problem, state)):
            return
        inside = np.flatnonzero(state.x[V])
        settled = np.array_equal(np.sign(state.x[V]), np.sign(x))
        long = spent > wait * panel.gram_breakeven_cycles(inside, inside)
        if settled and long and solvable(problem, state.x[V], V, inside):
            spent, wait = 0, 2 * wait
            finish(problem, state, V[inside], eps)


def minimise_exactly(
    problem: Problem, state: State, W: Array, eps: float, most: int, least: float
) -> None:
    """The same where the model is the loss itself, on a panel that is kept and grows."""
    panel_solver, now = state.panel_solver, state.measured
    if panel_solver is None:
        w = np.maximum(problem.s, LEAST / problem.s.size)
        panel = problem.design.growing_panel(w, problem.fit_intercept)
        panel_solver = state.panel_solver = IncrementalPanelSolver(
            panel, problem.design.p, w, problem.fit_intercept
        )
    at, panel = panel_solver.places(W), panel_solver.panel
    panel_solver.start(state.x, now.loss_at.slopes, now.slope)
    cols = panel.cols[at]
    first = panel.means[at] * now.slope - now.gradient.exactly(cols)
    leave = DEAR * panel.entries(at) > problem.design.entries
    if panel_solver.cycle(problem.penalty, state, at, eps, most, 0.0, first, leave, least):
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
