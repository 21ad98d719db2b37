"""Coming down in λ from where zero is the solution, before a fit that starts at zero.

A working set chosen at zero for a small λ is mostly wrong, and a nonconvex problem has many
minima. So λ is lowered in a few steps, with one working set each, roughly solved. For a nonconvex
penalty that is done with its convex part, down to the λ wanted; from there the penalty is bent step
by step. That mostly ended in lower minima than bending it at once, or than following it down in λ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.linear.problem import Problem
from cyclade.linear.starts.predictor import warm_start
from cyclade.linear.working_set import State, improve, rebase

CONVEX_STEP, NONCONVEX_STEP = 0.3, 0.5
STRAIGHTER = (4.0, 2.0)  # how many times less the penalty is bent on the way
ROUGH = 0.1  # of λ: how precisely a stage in λ is solved
ROUGH_IF_BENT = 0.6  # the same for a nonconvex loss: its last steps are Newton's, and short
ROUGHER = 0.3  # the same for a stage of bending
NEAR = 0.05  # for convex problems λ above this fraction of λ_max is reached at once


def approach(problem: Problem, state: State, penalty: Any, most: int) -> None:
    """Bring a state at x = 0 near the solution for `penalty`, where that has a λ to follow."""
    easy = problem.loss.convex and problem.penalty.convex
    guide = penalty if problem.penalty.convex else _convex_part(penalty)
    if not all(hasattr(guide, name) for name in ("lam", "scaled", "lam_max")):
        return
    if guide is penalty and warm_start(problem, state, penalty, most):
        return
    largest, lam = float(guide.lam_max(state.measured.g)), float(guide.lam)
    if not 0 < lam < largest < math.inf or (easy and lam > NEAR * largest):
        return
    convex = problem.loss.convex
    step, rough = (CONVEX_STEP, ROUGH) if convex else (NONCONVEX_STEP, ROUGH_IF_BENT)
    stages = math.ceil(math.log(lam / largest) / math.log(step))
    lams = np.geomspace(largest, lam, stages + 1)[1:-1]
    followed = [(guide.scaled(float(stage)), float(stage), rough) for stage in lams]
    if guide is not penalty:
        bent = [penalty.straighter(times) for times in STRAIGHTER]
        followed += [(at, lam, ROUGHER) for at in (guide, *bent)]
    for at, stage, rough in followed:
        if state.passes >= most:
            break
        easier = problem.at(at)
        rebase(easier, state)
        improve(easier, state, rough * stage, stage, most)
    rebase(problem, state)


def _convex_part(penalty: Any) -> Any:
    known = hasattr(penalty, "split") and hasattr(penalty, "straighter")
    return penalty.split()[0] if known else None
