"""Coming down in λ from where zero is the solution, before a fit that starts at zero.

A working set chosen at zero for a small λ is mostly wrong, and a nonconvex problem has many
minima. So λ is lowered in a few steps, with one working set each, roughly solved. The last step of
a nonconvex penalty is its convex part at the λ wanted: a good point to bend from.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.problem import Problem
from cyclade.linear.working_sets import State, improve, turn

CONVEX_STEP, NONCONVEX_STEP = 0.3, 0.5
NEAR = 0.05  # for convex problems λ above this fraction of λ_max is reached at once


def approach(problem: Problem, state: State, penalty: Any, most: int) -> None:
    """Bring a state at x = 0 near the solution for `penalty`, where that has a λ to follow."""
    easy = problem.loss.convex and problem.penalty.convex
    guide = penalty if problem.penalty.convex else _convex_part(penalty)
    wanted = ("lam", "scaled", "lam_max")
    if not all(hasattr(part, name) for part in (guide, penalty) for name in wanted):
        return
    largest, lam = float(guide.lam_max(state.measured.g)), float(guide.lam)
    if not 0 < lam < largest < math.inf or (easy and lam > NEAR * largest):
        return
    step = CONVEX_STEP if problem.loss.convex else NONCONVEX_STEP
    stages = math.ceil(math.log(lam / largest) / math.log(step))
    lams = np.geomspace(largest, lam, stages + 1)[1:-1]
    followed = [penalty.scaled(float(penalty.lam * (stage / lam))) for stage in lams]
    if guide is not penalty:
        followed, lams = [*followed, guide], np.append(lams, lam)
    for at, stage in zip(followed, lams, strict=True):
        if state.passes >= most:
            break
        easier = problem.at(at)
        turn(easier, state)
        improve(easier, state, 0.1 * stage, stage, most)
    turn(problem, state)


def _convex_part(penalty: Any) -> Any:
    return penalty.split()[0] if hasattr(penalty, "split") else None
