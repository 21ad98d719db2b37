"""Working sets under a sorted l1 penalty: few columns are cycled over, all are checked.

Coordinates outside a working set W are zero and come last in the order, so the problem over W has
the |W| largest λ. Which zeros would move is found by pooling: with |g| sorted, those in pools where
|g| exceeds λ on average. On a path the strong rule takes in those that might at the next λ; the
check of all columns that follows every working set finds what it missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Certificate
from cyclade.linear.sorted_l1.pooling import pool
from cyclade.linear.sorted_l1.problem import SlopeProblem, judge, measure
from cyclade.linear.sorted_l1.quadratic import Descent
from cyclade.linear.stopping import Report, Standing, Stopping
from cyclade.linear.subproblem import sorted_l1 as subproblem

Array = NDArray[Any]

NEAR = 0.8  # zeros ride along that would move if |g| were larger by one over this


@dataclass
class State(Standing):
    """A point, and what is known about it."""

    last: Array | None = None  # λ before this one, on a path
    descent: Descent | None = None  # of an exact model, over `working`


def begin(problem: SlopeProblem, x: Array, c: float) -> State:
    """Start at (x, c); the intercept is made optimal."""
    loss_at, c = problem.stand(x, c)
    return State(np.array(x, np.float64), c, loss_at, measure(problem, x, loss_at))


def rebase(problem: SlopeProblem, state: State) -> None:
    """Carry a state over to another penalty: nothing has moved, so no pass is needed."""
    state.last = state.measured.problem.lam
    state.measured = judge(problem, state.x, state.loss_at, state.measured.g)
    state.descent = None


def minimise(
    problem: SlopeProblem, state: State, tol: float, most: int, report: Report
) -> Certificate:
    """Move `state` until the certificate holds or `most` passes are spent."""
    scale = float(problem.lam[0]) or float(np.abs(state.measured.g).max()) or 1.0
    stopping = Stopping(problem, state, tol, scale, most, report)
    while not stopping.done(state):
        rough = min(0.1 * state.measured.distance, 0.3 * scale)
        improve(problem, state, max(stopping.least, rough), most)
    return stopping.certificate


def improve(problem: SlopeProblem, state: State, eps: float, most: int) -> None:
    """One working set: choose it, minimise over it, and measure all columns again."""
    W = choose(problem, state)
    if not np.array_equal(W, state.working):
        state.working, state.descent = W, None
    state.last = None
    subproblem.minimise_over(problem, state, W, eps, most)
    state.loss_at, state.c = problem.stand(state.x, state.c)
    state.measured = measure(problem, state.x, state.loss_at)


def choose(problem: SlopeProblem, state: State) -> Array:
    """The support, the zeros that would move, and those that nearly would or (on a path) might."""
    x, g, lam = state.x, state.measured.g, problem.lam
    support, rest = np.flatnonzero(x), np.flatnonzero(x == 0)
    if not rest.size:
        return support
    rest = rest[np.argsort(-np.abs(g[rest]), kind="stable")]
    pull, tail = np.abs(g[rest]), lam[support.size :]
    fit = np.empty(rest.size)
    pool(pull - tail, fit)
    first = int(np.searchsorted(-fit, -fit[0], side="right")) if fit[0] > 0 else 0
    moving = int(np.count_nonzero(fit > 0))
    wider = pull / NEAR if state.last is None else pull + (state.last[support.size :] - tail)
    pool(wider - tail, fit)
    nearly = int(np.count_nonzero(fit > 0))
    # The first pool must come in as a whole: part of it may be pulled less than its share of λ.
    room = max(first, support.size, 128, min(moving, x.size // 10))
    return np.sort(np.concatenate([support, rest[: min(max(moving, nearly), room)]]))
