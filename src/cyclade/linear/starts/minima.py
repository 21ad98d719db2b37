"""Other minima of a nonconvex penalty: a companion of its path, and hops from a single fit.

Following one minimum down in λ keeps to it long after better ones have appeared. So beside the path
there runs another, under the same penalty made less nonconvex, which has fewer minima. Whenever λ
has fallen enough, and at the last λ, both the last solution and the point of that other path are
brought near a minimum, and the path goes on from the lower one: SparseNet's paths in λ and γ, with
two values of γ.

A single fit comes down to one minimum of many. From there it hops to a larger λ, where columns that
others can stand in for leave, and to a smaller one, where columns come in that zero kept out; from
each it comes back, and the lowest F seen is gone on with (`Hops`); where that was worth it and X is
small, it hops again. All of it is rough: a comparison of objectives needs no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cyclade.linear.starts import Start
from cyclade.linear.state import State, rebase
from cyclade.linear.tuning import Tuning
from cyclade.linear.working_set import improve, minimise


class Engine(NamedTuple):
    """How states move: those of rows in memory, or those of tables in chunks."""

    rebase: Callable[[Any, Any], None]
    improve: Callable[[Any, Any, float, float, int], None]
    minimise: Callable[..., Any]


def minimise_alone(problem: Any, state: State, tol: float, max_passes: int, report: Any) -> None:
    """`minimise` to the tolerance, no finer: no smaller λ starts from there."""
    on_path, state.on_path = state.on_path, False
    minimise(problem, state, tol, max_passes, report)
    state.on_path = on_path


IN_MEMORY = Engine(rebase, improve, minimise_alone)


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


class Hops:
    """Another way to a starting point, followed by hops from where it ends."""

    def __init__(self, first: Start, engine: Engine = IN_MEMORY) -> None:
        self._first, self._engine = first, engine

    def advance(self, problem: Any, state: Any, max_passes: int) -> Any:
        """The lowest of the points seen; a state that is not at x = 0 is left alone."""
        penalty, cold = problem.penalty.penalty, not state.x.any()
        state = self._first.advance(problem, state, max_passes)
        suits = cold and problem.penalty.is_scalar and hasattr(penalty, "straighter")
        if not suits or penalty.convex:
            return state
        near(problem, state, max_passes, self._engine)
        tuning, small = problem.tuning, problem.entries <= problem.tuning.cache
        again = True
        while again:
            before = state.measured.objective
            for times in (tuning.hop, 1.0 / tuning.hop):
                state = hop(problem, state, times, max_passes, self._engine)
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
