"""Hops: to other λ and back, from a stationary point of a nonconvex penalty.

A single fit comes down to one minimum of many. From there it hops to a larger λ, where columns that
others can stand in for leave, and to a smaller one, where columns come in that zero kept out; from
each it comes back, and the lowest F seen is gone on with. All of it is rough: a comparison of
objectives needs no more.
"""

from __future__ import annotations

from cyclade.linear.problem import Problem
from cyclade.linear.starts import Start
from cyclade.linear.starts.companion import fork, near, same
from cyclade.linear.state import State, rebase
from cyclade.linear.working_set import improve


class Hops:
    """Another way to a starting point, followed by hops from where it ends."""

    def __init__(self, first: Start) -> None:
        self._first = first

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The lowest of the points seen; a state that is not at x = 0 is left alone."""
        penalty, cold = problem.penalty.penalty, not state.x.any()
        state = self._first.advance(problem, state, max_passes)
        suits = cold and problem.penalty.is_scalar and hasattr(penalty, "straighter")
        if not suits or penalty.convex:
            return state
        near(problem, state, max_passes)
        for times in problem.tuning.hops:
            if not state.x.any():
                break
            other = fork(state)
            lam = times * float(penalty.lam)
            away = problem.at(penalty.scaled(lam))
            rebase(away, other)
            improve(away, other, problem.tuning.hop_distance * lam, lam, max_passes)
            if not same(other.x, state.x):
                near(problem, other, max_passes)
                lower = other.measured.objective < state.measured.objective
                passes, state = other.passes, other if lower else state
                state.passes = passes
        return state
