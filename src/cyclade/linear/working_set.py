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
from cyclade.linear.stopping import NO_COLUMNS, Report, Standing, Stopping, scale_of_distance
from cyclade.linear.subproblem import coordinate
from cyclade.linear.subproblem.active_set import ActiveSetNewton, suits
from cyclade.linear.subproblem.panel_solver import (
    IncrementalPanelSolver,
)
from cyclade.linear.weighted_columns import Columns

Array = NDArray[Any]

SHARE = 0.1  # of all columns that a working set may always have
ALWAYS = 5_000  # columns at most by that rule
NEAR = 0.75  # a column at rest rides along if pulled by more than this part of its threshold
ENOUGH = 1e-3  # of λ: on a path of least squares columns are brought this near in any case


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
    coordinate.minimise_over(problem, state, state.working, eps, most, least)
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
