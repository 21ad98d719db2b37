"""A point and what is known about it: what the outer loop hands to the subproblems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Measured, judge, measure
from cyclade.linear.loss_at import LossAt
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import Problem

Array = NDArray[Any]
NO_COLUMNS = np.empty(0, np.int64)


@dataclass
class State:
    """A point (x, c), and what is known about it."""

    x: Array  # flat, in the order of the bound penalty
    c: Any  # the intercept: a number, or (T,)
    loss_at: LossAt
    measured: Measured  # the last check of all columns
    passes: int = 0
    working: Array = field(default_factory=lambda: NO_COLUMNS)  # blocks of the last working set
    history: list[dict[str, float]] = field(default_factory=list)
    target: float = np.inf  # the distance that all columns will be brought to in the end
    trust: float = 0.1  # of a majoriser's weights, the part that replaces φ'' < 0
    fresh: bool = True  # whether z was computed from x and c, not carried along
    on_path: bool = False  # whether a slightly smaller λ comes next
    before: BoundPenalty | None = None  # at the λ before, until a working set was chosen
    kept: dict[str, Any] = field(default_factory=dict)  # by a subproblem: its panels and products

    def point(self) -> Any:
        """What `return_to` needs; None where z was carried along and not checked."""
        return (self.x.copy(), self.c, self.loss_at, self.measured) if self.fresh else None

    def return_to(self, point: Any) -> None:
        """Go back to a point that was passed."""
        self.x, self.c, self.loss_at, self.measured = point


def begin(problem: Problem, x: Array, c: Any) -> State:
    """Start at (x, c), moved into the domain of r; the intercept is made optimal."""
    x = np.array(x, np.float64)
    problem.penalty.project(x)
    loss_at, c = problem.settle(x, c)
    return State(x, c, loss_at, measure(problem, x, loss_at))


def rebase(problem: Problem, state: State) -> None:
    """Carry a state over to another penalty: nothing has moved, so few columns are read at most."""
    gradient, state.before = state.measured.gradient, state.measured.problem.penalty
    gradient.read_undecided(state.x, problem.penalty.zero_threshold)
    state.measured = judge(problem, state.x, state.loss_at, gradient)


def check(problem: Problem, state: State) -> None:
    """Measure all columns at a z computed from x, with the best intercept; if anything moved."""
    if state.fresh and state.loss_at is state.measured.loss_at:
        return
    if not state.fresh:
        state.loss_at = problem.loss_at(problem.predict(state.x, state.c))
    state.loss_at, state.c = problem.shifted(state.loss_at, state.c)
    state.fresh = True
    state.measured = measure(problem, state.x, state.loss_at)
