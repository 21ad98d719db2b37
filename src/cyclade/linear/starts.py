"""Starting points: larger λ, straighter penalties, wider losses, and other minima.

A working set chosen at zero for a small λ is mostly wrong, and a nonconvex problem has many
minima. So λ is lowered in a few steps, with one working set each, roughly solved. For a nonconvex
penalty that is done with its convex part, down to the λ wanted; from there the penalty is made
nonconvex step by step. That mostly ended in lower minima than following it down in λ.

Losses that are curved in a narrow window only are approached through wider ones (`soften`).
The Huber loss with δ far below the spread of the residuals, or a quantile with hardly any
smoothing, is all but piecewise linear: φ'' is zero on nearly all rows, and quadratic models tell
nothing about the next step. Wider windows with the same slopes far out are easy, and each solution
is a good start for the next: along them the rows inside the window hardly change.

Following one minimum down in λ keeps to it long after better ones have appeared. So beside the path
there runs another, under the same penalty made less nonconvex, which has fewer minima. Whenever λ
has fallen enough, and at the last λ, both the last solution and the point of that other path are
brought near a minimum, and the path goes on from the lower one: SparseNet's paths in λ and γ, with
two values of γ.

A single fit comes down to one minimum of many. From there it hops to a larger λ, where columns that
others can stand in for leave, and to a smaller one, where columns come in that zero kept out. From
each it comes back, and goes on from the lowest F seen. Where that was worth it and X is small, it
hops again. All of it is rough: a comparison of objectives needs no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.problem import Problem
from cyclade.linear.state import State, begin, rebase
from cyclade.linear.tuning import DEFAULT, Tuning
from cyclade.linear.working_set import improve, minimise, most_violate, products_are_dear

Array = NDArray[Any]


class Engine(NamedTuple):
    """How states move: those of rows in memory, or those of tables in chunks."""

    rebase: Callable[[Any, Any], None]
    improve: Callable[[Any, Any, float, float, int], None]
    minimise: Callable[..., Any]
    starts_at_once: Callable[[Any, Any], bool]  # at the λ wanted, with no stages before


def minimise_alone(problem: Any, state: Any, tol: float, max_passes: int, report: Any) -> None:
    """`minimise` to the tolerance, no finer: no smaller λ starts from there."""
    on_path, state.on_path = state.on_path, False
    minimise(problem, state, tol, max_passes, report)
    state.on_path = on_path


def is_easy(problem: Any, state: Any) -> bool:
    """Whether one working set at the λ wanted does as much as several on the way there."""
    return most_violate(problem, state) or products_are_dear(problem, state)


IN_MEMORY = Engine(rebase, improve, minimise_alone, is_easy)


def approach(problem: Any, state: Any, max_passes: int, engine: Engine = IN_MEMORY) -> None:
    """From x = 0 near the solution: one working set, roughly solved, at each stage."""
    if not problem.penalty.is_scalar or state.x.any() or engine.starts_at_once(problem, state):
        return
    penalty, easy, g = problem.penalty.penalty, problem.loss.convex, state.measured.g
    for at, lam, distance in easier(penalty, easy, g, problem.tuning):
        if state.passes >= max_passes:
            break
        stage = problem.at(at)
        engine.rebase(stage, state)
        engine.improve(stage, state, distance * lam, lam, max_passes)
    engine.rebase(problem, state)


def easier(penalty: Any, easy: bool, g: Array, tuning: Tuning) -> list[tuple[Any, float, float]]:
    """Penalties on the way from zero, with λ and the distance in λ that is enough; g at zero."""
    convex = bool(penalty.convex)
    guide = penalty
    if not convex:
        known = hasattr(penalty, "convex_part") and hasattr(penalty, "straighter")
        guide = penalty.convex_part() if known else None
    if not all(hasattr(guide, name) for name in ("lam", "scaled", "lam_max")):
        return []
    largest, lam, step = float(guide.lam_max(g)), float(guide.lam), tuning.lam_step
    if not 0 < lam < largest < math.inf or (convex and easy and lam > step**2 * largest):
        return []
    stages = [(guide.scaled(at), at, tuning.forcing) for at in lams_between(largest, lam, step)]
    if not convex:
        bent = [penalty.straighter(times) for times in (tuning.hop**2, tuning.hop)]
        stages += [(at, lam, tuning.rough) for at in (guide, *bent)]
    return stages


def lams_between(largest: float, lam: float, step: float) -> list[float]:
    """λ strictly between, decreasing by the factor `step` or a little less."""
    stages = math.ceil(math.log(lam / largest) / math.log(step) - numerics.ROOT)  # 2.0…01 is 2
    return [float(at) for at in np.geomspace(largest, lam, stages + 1)[1:-1]]


def soften(problem: Problem, losses: list[Any], tol: float, max_passes: int, report: Any) -> State:
    """From x = 0 through easier losses, each solved to `tol`: a state for the problem itself."""
    x, c, passes = np.zeros(problem.size), 0.0 * problem.null.c, 0
    for loss in losses:
        left = (max_passes - passes) // 2
        if left > 0:
            at = problem.with_loss(loss)
            state = begin(at, x, c)
            approach(at, state, left)
            minimise(at, state, tol, left, report)
            x, c, passes = state.x, state.c, passes + state.passes
    start = begin(problem, x, c)
    start.passes = passes
    return start


def softer(
    loss: Any, penalty: Any, y: Array, offset: Array, fit_intercept: bool = True,
    tuning: Tuning = DEFAULT,
) -> list[Any]:  # fmt: skip
    """Losses to solve first, widest window first; none for nonconvex penalties or wide losses."""
    width = getattr(loss, "width", None)
    if width is None or not getattr(penalty, "convex", False):
        return []
    residuals = y - (offset[:, None] if y.ndim > offset.ndim else offset)
    if fit_intercept:
        residuals = residuals - np.median(residuals, axis=0)
    spread = float(np.median(np.abs(residuals)))
    step = tuning.window_step
    ratio = spread / step**2 / width  # of the first window: half of the residuals are in three such
    if not step < ratio < np.inf:
        return []
    stages = int(np.ceil(np.log(ratio) / np.log(step)))
    most = min(stages, limits.STEPS)
    step = step if stages <= most else ratio ** (1.0 / most)
    return [loss.widened(step**k) for k in range(most, 0, -1)]


# --- other minima ---------------------------------------------------------------------------------


class Companion:
    """The other path. `state` is where the path begins, and is left alone; `last` its last λ."""

    def __init__(self, state: Any, last: float, engine: Engine = IN_MEMORY) -> None:
        self._beside, self._last, self._compared = state.fork(), last, math.inf
        self._engine = engine

    def advance(self, problem: Any, state: Any, max_passes: int) -> Any:
        """Where to go on: at `state`, or, where that is compared and F is lower, beside it."""
        penalty, tuning = problem.penalty.penalty, problem.tuning
        lam = float(penalty.lam)
        if lam > max(self._compared / tuning.hop, self._last):
            return state
        self._compared = lam
        beside, engine = self._beside, self._engine
        beside.passes = 0
        straighter = problem.at(penalty.straighter(tuning.hop))
        near(straighter, beside, max_passes, engine)
        other = beside.fork()
        if same(other.x, state.x, problem.tuning):
            state.passes += other.passes
            return state
        near(problem, other, max_passes, engine)
        near(problem, state, max_passes, engine)
        lower = other if other.measured.objective < state.measured.objective else state
        lower.passes = state.passes + other.passes
        return lower


def find_start(problem: Any, state: Any, max_passes: int, engine: Engine = IN_MEMORY) -> Any:
    """Near the solution, from x = 0; of a nonconvex penalty near the lowest of the minima seen."""
    penalty, cold = problem.penalty.penalty, not state.x.any()
    approach(problem, state, max_passes, engine)
    suits = cold and problem.penalty.is_scalar and hasattr(penalty, "straighter")
    if not suits or penalty.convex:
        return state
    near(problem, state, max_passes, engine)
    tuning, small = problem.tuning, problem.entries <= problem.tuning.cache
    again = True
    while again:
        before = state.measured.objective
        for times in (tuning.hop, 1.0 / tuning.hop):
            state = hop(problem, state, times, max_passes, engine)
        again = small and state.measured.objective < before - tuning.close * abs(before)
    return state


def hop(problem: Any, state: Any, times: float, max_passes: int, engine: Engine) -> Any:
    """To so many times λ and back: the lower of the two points."""
    penalty = problem.penalty.penalty
    lam = times * float(penalty.lam)
    away = problem.at(penalty.scaled(lam))
    if not state.x.any():
        return state
    other = state.fork()
    engine.rebase(away, other)
    engine.improve(away, other, problem.tuning.rough * lam, lam, max_passes)
    if same(other.x, state.x, problem.tuning):
        return state
    near(problem, other, max_passes, engine)
    lower = other if other.measured.objective < state.measured.objective else state
    lower.passes = other.passes
    return lower


def near(problem: Any, state: Any, max_passes: int, engine: Engine) -> None:
    """Bring a state near a minimum, as roughly as a comparison allows."""
    engine.rebase(problem, state)
    engine.minimise(problem, state, problem.tuning.forcing, max_passes, lambda row: None)


def same(x: Any, y: Any, tuning: Tuning) -> bool:
    """Whether two points have the same support and are close: they go to the same minimum."""
    if not np.array_equal(x != 0, y != 0):
        return False
    apart, size = (float(np.abs(v).max(initial=0.0)) for v in (x - y, y))
    return apart <= tuning.close * size
