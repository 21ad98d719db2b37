"""A second start now and then on the path of a nonconvex penalty.

Following one minimum down in λ keeps to it long after better ones have appeared. So beside the path
there runs another, under the same penalty bent less, which has fewer minima. Whenever λ has fallen
enough, and at the last λ, both the last solution and the point of that other path are brought near
a minimum, and the lower one is gone on with: SparseNet's paths in λ and γ, with two values of γ.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cyclade.linear.problem import Problem
from cyclade.linear.working_set import State, minimise, rebase

STRAIGHTER = 2.0  # how many times less the companion's penalty is bent
SELDOM = 0.6  # by what factor λ falls from one comparison to the next
ROUGH = 0.1  # of λ: how near to a minimum two points must be to compare them
SAME = 1e-3  # of the largest coefficient: points closer than this go to the same minimum


class Companion:
    """The other path. `state` is where the path begins, and is left alone; `last` its last λ."""

    def __init__(self, state: State, last: float) -> None:
        self._beside, self._last, self._compared = fork(state), last, math.inf

    def better(self, problem: Problem, state: State, penalty: Any, most: int) -> State:
        """Where to go on: at `state`, or, where that is compared and F is lower, beside it."""
        lam = float(penalty.lam)
        if lam > max(SELDOM * self._compared, self._last):
            return state
        self._compared = lam
        beside = self._beside
        beside.panel_solver, beside.passes = state.panel_solver, 0  # its products serve both
        near(problem.at(penalty.straighter(STRAIGHTER)), beside, most)
        other = fork(beside)
        if same(other.x, state.x):
            state.passes += other.passes
            return state
        near(problem, other, most)
        near(problem, state, most)
        lower = other if other.measured.objective < state.measured.objective else state
        lower.passes = state.passes + other.passes
        return lower


def near(problem: Problem, state: State, most: int) -> None:
    """Bring a state near a minimum, as roughly as a comparison allows."""
    rebase(problem, state)
    on_path, state.on_path = state.on_path, False  # no finer than asked for
    minimise(problem, state, ROUGH, most, lambda row: None)
    state.on_path = on_path


def same(x: Any, y: Any) -> bool:
    """Whether two points have the same support and are close."""
    if not np.array_equal(x != 0, y != 0):
        return False
    return float(np.abs(x - y).max(initial=0.0)) <= SAME * float(np.abs(y).max(initial=0.0))


def fork(state: State) -> State:
    """A state at the same point, which moves on its own."""
    return replace(state, x=state.x.copy(), history=[])
