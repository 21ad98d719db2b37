"""Curved convex losses on sparse columns: one quadratic model a step, roughly minimised.

repeat  a quadratic model of the loss at z, with weights w = sφ'';
        cycles over the support and the columns that violate, on X where it lies;
        move towards the minimiser as far as F falls (Armijo).

Cycles end at a target that becomes tighter only when one cycle was enough for it (newGLMNET, Yuan,
Ho and Lin 2012): models far from the solution are not worth more. All columns are measured after
every step. Where a step comes nowhere, rows with next to no curvature get some: far from their
targets they would go on for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels.newton import ModelAt, weigh
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import line_search, next_damping, weights
from cyclade.linear.state import State

Array = NDArray[Any]


def improve(problem: Problem, state: State, W: Array, target: float, budget: int) -> bool:
    """One step on the columns W; whether F fell."""
    design: Any = problem.design  # by columns
    penalty, here, tuning = problem.penalty, state.loss_at, problem.tuning
    X, begun = design.storage, state.x[W]
    enough = tuning.forcing * float(state.measured.distances.sum())
    enough, damping = state.kept.get("newton", (enough, 1.0))
    state.working, t = W, 0.0

    def r(t: float) -> float:
        return penalty.total(W, begun + t * dx)

    while t == 0.0 and damping <= 1.0 / numerics.FLAT and state.passes < budget:
        w = weights(problem, here, damping, state.trust)
        mass = float(w.sum()) if problem.fit_intercept else np.inf
        model = ModelAt(here.slopes.copy(), w, mass, W, np.empty(W.size), np.empty(W.size))
        weigh(X, model, numerics.FLAT)
        x, shift = state.x.copy(), 0.0
        made, enough = penalty.functions["newton_cycles"](
            X, model, x, penalty.parameters, penalty.zero_threshold, enough, tuning.forcing,
            min(budget - state.passes, limits.CYCLES),
        )  # fmt: skip
        dx, state.passes = x[W] - begun, state.passes + made
        if problem.fit_intercept:
            shift = -float(model.v.sum()) / mass
        end = problem.loss_at(problem.predict(x, state.c + shift))
        t, there = line_search(problem, here, end, r, halvings=20)
        damping = next_damping(state, damping, t, tuning)
    state.kept["newton"] = enough, min(damping, 1.0 / numerics.FLAT)
    if 0.0 < t < 1.0:
        x[W] = begun + t * dx
    if t > 0.0:
        state.x, state.c, state.loss_at, state.fresh = x, state.c + t * shift, there, t == 1.0
    return t > 0.0
