"""Coming down in λ from where zero is the solution, before a fit that starts at zero.

A working set chosen at zero for a small λ is mostly wrong, and a nonconvex problem has many
minima. So λ is lowered in a few steps, with one working set each, roughly solved. For a nonconvex
penalty that is done with its convex part, down to the λ wanted; from there the penalty is made
nonconvex step by step. That mostly ended in lower minima than following it down in λ.
"""

from __future__ import annotations

import math
from typing import Any

from cyclade.linear.problem import Problem
from cyclade.linear.starts.predictor import lams_between, warm_start
from cyclade.linear.state import State, rebase
from cyclade.linear.subproblem import sampled, sweeps
from cyclade.linear.working_set import improve


class Continuation:
    """From x = 0 near the solution, where a scalar penalty has a λ to follow."""

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """Bring a state at x = 0 near the solution; any other is left alone."""
        if problem.penalty.is_scalar and not state.x.any():
            approach(problem, state, max_passes)
        return state


def approach(problem: Problem, state: State, max_passes: int) -> None:
    """One working set, roughly solved, at each of a few λ on the way."""
    penalty, tuning = problem.penalty.penalty, problem.tuning
    easy = problem.loss.convex and problem.penalty.convex
    guide = penalty if problem.penalty.convex else _convex_part(penalty)
    if not all(hasattr(guide, name) for name in ("lam", "scaled", "lam_max")):
        return
    sampling = problem.is_very_tall and sampled.suits(problem, state)
    if easy and (sampling or sweeps.suits(problem, state)):  # these take all columns at once
        return
    if guide is penalty and warm_start(problem, state, max_passes):
        return
    largest, lam = float(guide.lam_max(state.measured.g)), float(guide.lam)
    if not 0 < lam < largest < math.inf or (easy and lam > tuning.direct_lam * largest):
        return
    convex = problem.loss.convex
    step, rough = tuning.lam_step if convex else tuning.lam_step_nonconvex
    stages = lams_between(largest, lam, step)
    followed = [(guide.scaled(stage), stage, rough) for stage in stages]
    if guide is not penalty:
        bent = [penalty.straighter(times) for times in tuning.straighter]
        followed += [(at, lam, tuning.straighter_distance) for at in (guide, *bent)]
    for at, stage, rough in followed:
        if state.passes >= max_passes:
            break
        easier = problem.at(at)
        rebase(easier, state)
        improve(easier, state, rough * stage, stage, max_passes)
    rebase(problem, state)


def _convex_part(penalty: Any) -> Any:
    known = hasattr(penalty, "split") and hasattr(penalty, "straighter")
    return penalty.split()[0] if known else None
