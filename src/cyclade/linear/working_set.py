"""Working sets: few blocks are cycled over, all are checked.

repeat  measure all columns at a freshly computed z; stop if optimal enough;
        choose W: the support and the blocks that violate optimality most;
        improve: minimise over W, to a fraction of the violation outside it.

A block is a coordinate, a group of features, or a row of several outputs. How the problem over W
is solved says the table `STRATEGIES`: the first row that suits and makes progress.

>>> print(table())
sorted_l1    the penalty is sorted l1
group        blocks have several entries: groups, rows of outputs or classes
active_set   nonconvex loss, weighted l1 norm, and products of columns are affordable
newton       sparse X, curved convex loss, and products of columns are dear
coordinate   any other
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.problem import Problem
from cyclade.linear.results import Certificate
from cyclade.linear.state import NO_COLUMNS, State, check
from cyclade.linear.subproblem import (
    active_set,
    coordinate,
    group,
    newton,
    sorted_l1,
)
from cyclade.linear.tuning import Tuning

Array = NDArray[Any]
Report = Callable[[dict[str, float]], None]


def minimise(
    problem: Problem, state: State, tol: float, max_passes: int, report: Report
) -> Certificate:
    """Move `state` until the certificate holds, or to the best point of so many cycles."""
    stopping = Stopping(problem, state, tol, max_passes, report)
    near = problem.tuning.close * stopping.scale
    rough = follows(problem, state) and state.measured.distance > near
    while rough or not stopping.done(state, not state.fresh):
        improve(problem, state, stopping.target, stopping.scale, max_passes)
        rough = False
    stopping.settle(state)
    return stopping.certificate


def improve(problem: Problem, state: State, target: float, scale: float, max_passes: int) -> None:
    """One working set: choose it, minimise over it, and measure all columns again.

    `target` is the distance that all columns will be brought to in the end, `scale` that of λ.
    """
    state.target = target
    for strategy in STRATEGIES:
        if strategy.suits(problem, state):
            W = strategy.choose(problem, state)
            on_W = how_far(problem, state, W, scale)
            if strategy.improve(problem, state, W, on_W, max_passes):
                break
    check(problem, state)


def follows(problem: Problem, state: State) -> bool:
    """Whether the next λ of a path starts from this solution alone, with no model between."""
    return state.on_path and problem.loss.quadratic


def how_far(problem: Problem, state: State, W: Array, scale: float) -> float:
    """The distance that W is brought to: less than what comes in, not below the target.

    Under a convex penalty only blocks that are new in W count; under others, what comes in may
    push some out.
    """
    tuning, penalty, outside = problem.tuning, problem.penalty, state.measured.distance
    if follows(problem, state):  # the working set of the last λ is nearly right: at once
        return min(state.target, tuning.close * scale)
    if penalty.size > 1 or penalty.T > 1:  # a cycle over such blocks costs more beside a check
        return max(state.target, tuning.rough * outside)
    if penalty.convex:
        new = np.ones(penalty.blocks, bool)
        new[state.working] = False
        outside = float(state.measured.distances[W[new[W]]].max(initial=0.0))
    return max(state.target, min(tuning.forcing * outside, tuning.rough * scale))


def choose(problem: Problem, state: State) -> Array:
    """The support and the worst violators, at least twice the support; and blocks close to that.

    A violation outside W costs a pass over all columns, one inside only a check of W. So zeros that
    are close to violating are taken in as well, where they are few and cheap.
    """
    tuning, penalty, now = problem.tuning, problem.penalty, state.measured
    if most_violate(problem, state):
        return np.arange(penalty.blocks)
    near = tuning.near if state.on_path or problem.loss.quadratic else np.inf
    found = penalty.candidates(state.x, now.g, now.distances, near, state.before)
    state.before = None
    inside, violating, close = found.support.size, found.violating, found.close
    share = int(min(problem.design.n, tuning.most_columns) / penalty.size)
    least = -int(-2 * tuning.room // penalty.size)
    room = max(inside, least, share - inside, found.together)
    if penalty.size > 1 or penalty.T > 1:  # each costs several columns: no more at once than needed
        room = max(3 * inside, 3 * least)
    if violating.size > room:
        violating = violating[np.argpartition(-found.violation, room)[:room]]
        close = NO_COLUMNS  # worse ones are left out
    room = inside + tuning.room
    if close.size > room:
        close = close[np.argpartition(-found.pull, room)[:room]]
    return np.sort(np.concatenate([found.support, violating, close]), kind="stable")  # of runs


def most_violate(problem: Problem, state: State) -> bool:
    """Whether least squares has rows enough, and more than half of all columns will move."""
    penalty = problem.penalty
    if state.on_path or not (problem.loss.quadratic and penalty.is_scalar and penalty.convex):
        return False
    moving = int(np.count_nonzero(state.measured.distances))
    return problem.is_tall and 2 * moving > penalty.blocks


def products_are_dear(problem: Problem, state: State) -> bool:
    """Whether products of the support and the columns that violate cost more than cycles on X."""
    loss, penalty, design = problem.loss, problem.penalty, problem.design
    if design.is_dense or loss.quadratic or not (loss.convex and penalty.convex):
        return False
    if loss.flat or not penalty.is_scalar or problem.offset.ndim > 1:
        return False
    V = np.flatnonzero((state.x != 0) | (state.measured.distances > 0))
    return not design.products_pay(V)


class Strategy(NamedTuple):
    """A row of the table.

    `improve(problem, state, W, target, max_passes)` moves the state on W until it is that near
    there or `state.passes` has come to `max_passes`; it says whether that was worth doing.
    """

    name: str
    when: str  # what `suits` says, in words
    suits: Callable[[Problem, State], bool]
    choose: Callable[[Problem, State], Array]
    improve: Callable[[Problem, State, Array, float, int], bool]


STRATEGIES = (
    Strategy(
        "sorted_l1", "the penalty is sorted l1",
        lambda problem, state: problem.penalty.is_sorted, choose, sorted_l1.improve,
    ),
    Strategy(
        "group", "blocks have several entries: groups, rows of outputs or classes",
        lambda problem, state: not problem.penalty.is_scalar, choose, group.improve,
    ),
    Strategy(
        "active_set",
        "nonconvex loss, weighted l1 norm, and products of columns are affordable",
        lambda problem, state: not problem.loss.convex and active_set.suits(problem, state),
        lambda problem, state: NO_COLUMNS,  # it chooses columns at each of its steps
        active_set.improve,
    ),
    Strategy(
        "newton", "sparse X, curved convex loss, and products of columns are dear",
        products_are_dear, choose, newton.improve,
    ),
    Strategy("coordinate", "any other", lambda problem, state: True, choose, coordinate.improve),
)  # fmt: skip


def table() -> str:
    """The table, one line per strategy."""
    return "\n".join(f"{row.name:12} {row.when}" for row in STRATEGIES)


class Stopping:
    """When to stop, from the certificate of every check; in memory and for tables in chunks."""

    certificate: Certificate

    def __init__(
        self, problem: Any, state: Any, tol: float, max_passes: int, report: Report
    ) -> None:
        """`scale` is that of distances, and `target` the distance to bring all columns to."""
        self.scale = scale_of_distance(problem, state)
        tolerance = tol * self.scale
        if problem.has_dual:  # a gap is a difference of numbers of the size of F, rounded as such
            size = max(abs(state.measured.objective), problem.null.explained[0])
            tolerance = max(tol * problem.null.scale, numerics.SUM * size)
        self.tolerance, self.kind = tolerance, "gap" if problem.has_dual else "distance"
        self.max_passes, self.report = max_passes, report
        self.tuning: Tuning = problem.tuning
        self.target = np.inf
        self._dual = -np.inf
        self._best = self._lowest = np.inf
        self._point: tuple[float, Any] | None = None  # of the best certificate, with its value
        self._stalled = self._idle = 0
        self._passes = -1
        self._precision = numerics.SUM * float(np.finfo(problem.dtype).eps) / numerics.EPS

    def done(self, state: Any, rough: bool = False) -> bool:
        """Whether a point is good enough and not `rough`, or none is better."""
        now, tuning = state.measured, self.tuning
        self._dual = max(self._dual, now.dual)
        value = max(now.objective - self._dual, 0.0) if self.kind == "gap" else now.certified
        self.certificate = Certificate(self.kind, value, self.tolerance)  # type: ignore[arg-type]
        row = {"objective": now.objective, self.kind: value, "passes": state.passes,
               "working": state.working.size}  # fmt: skip
        state.history.append(row)
        self.report(row)
        self._idle = self._idle + 1 if state.passes == self._passes else 0
        self._passes = state.passes
        if self.certificate.reached and not rough:
            return True
        self._keep(state, value)
        if state.passes >= self.max_passes or self._idle == limits.IDLE:
            return True
        lower = now.objective < self._lowest - self._precision * abs(now.objective)
        better = lower or value < tuning.stall_drop * self._best
        self._stalled = 0 if better else self._stalled + 1
        if better:  # slow progress adds up over the checks
            self._best = min(self._best, value)
        self._lowest = min(self._lowest, now.objective)
        # Near the solution a gap shrinks in proportion to the distance, so one tells the other.
        part = self.tolerance / max(value, self.tolerance, numerics.TINY)
        self.target = min(self.target, 0.5 * part * now.distance)
        if self._idle:  # what was asked for was there already
            self.target *= tuning.forcing
        return self._stalled == limits.STALLED

    def _keep(self, state: Any, value: float) -> None:
        """Remember a point whose certificate is the best so far; of gaps, whose F is."""
        rank = state.measured.objective if self.kind == "gap" else value
        if self._point is None or rank < self._point[0]:
            point = state.point()
            self._point = self._point if point is None else (rank, point)

    def settle(self, state: Any) -> None:
        """Go back to the best point, if the certificate does not hold at the last."""
        if self.certificate.reached or self._point is None:
            return
        rank, point = self._point
        value = max(rank - self._dual, 0.0) if self.kind == "gap" else rank
        if value < self.certificate.value:
            state.return_to(point)
            self.certificate = Certificate(self.kind, value, self.tolerance)  # type: ignore[arg-type]


def scale_of_distance(problem: Any, state: Any = None) -> float:
    """λ: the largest |g| that keeps a zero; without any, the largest gradient of the null model."""
    scale = problem.penalty.scale or problem.null.explained[1]
    if scale:
        return float(scale)
    g = problem.null_gradient if state is None or state.x.any() else state.measured.g
    units = problem.units
    if units is not None and problem.penalty.size == 1:
        g = g.reshape(units.size, -1) * units[:, None]
    return float(np.abs(g).max(initial=0.0)) or 1.0
