"""Working sets of few columns and many rows: cycles on products of columns, never on rows.

repeat  g = Aᵀ(sφ'(z)) on the working set; stop if stationary;
        the columns that move, and their G = Aᵀ diag(w) A, under the curvature w at z;
        minimise the model in the space of the coefficients; step, z ← z + A dx.

A pass over the rows per model is all that is paid, so models are minimised well. Where a check of
all columns costs no more than that, one model is made per working set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, step_length
from cyclade.linear.state import State
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.weighted_columns import Columns

Array = NDArray[Any]

ENTRY = 0.25  # of the largest violation: smaller ones wait for the next check, if that is cheap
PRECISE = 0.01  # what part of its first distance a curved model is minimised to
ROW = 20  # what the loss costs per row, in entries of X


def gram_newton(problem: Problem, state: State, columns: Columns, eps: float, most: int) -> None:
    """Minimise over the columns (and the intercept) until they are eps-stationary."""
    W, penalty, damping = columns.cols, problem.penalty, 1.0
    check_is_cheap = problem.design.entries < ROW * problem.design.n
    while state.passes < most:
        x, loss_at = state.x[W], state.loss_at
        u = float(loss_at.slopes.sum()) if problem.fit_intercept else 0.0
        if loss_at is state.measured.loss_at:
            g = state.measured.gradient.exactly(W) - columns.centres * u
        else:
            g = columns.slopes(loss_at.slopes)
        distances = penalty.distances(W, x, g + columns.centres * u)
        worst = max(float(distances.max(initial=0.0)), abs(u))
        if worst <= eps:
            return
        model = Model(problem, loss_at, damping, state.trust)
        goal = eps if model.exact else max(0.3 * eps, PRECISE * worst)
        enough = ENTRY * worst if check_is_cheap else 0.1 * goal
        moving = np.flatnonzero((x != 0) | (distances > enough))
        products = columns.same_products if model.exact else columns.products
        G, left = products(moving, model.w), most - state.passes
        dx, dc, done = minimise_model(model, columns, moving, G, g, u, x, 0.3 * goal, left)
        state.passes += done
        cols, t = W[moving], 1.0
        if check_is_cheap:
            dc -= float(columns.centres[moving] @ dx)
            whole = state.x.copy()
            whole[cols] += dx
            there = problem.loss_at(problem.predict(whole, state.c + dc))
        else:
            there = problem.loss_at(loss_at.z + columns.combine(moving, dx) + dc)
            dc -= float(columns.centres[moving] @ dx)
        if not model.exact:
            t, there = step_length(model, cols, x[moving], dx, there)
        if t < 1.0:
            state.trust = min(1.0, 3.0 * state.trust)
        if t > 0:
            state.x[cols], state.loss_at, state.c = x[moving] + t * dx, there, state.c + t * dc
            state.fresh = check_is_cheap and t == 1.0
            damping = max(1.0, damping / 4)
        else:
            damping *= 8
        if damping > 1e12 or (check_is_cheap and t > 0):
            return


def minimise_model(
    model: Model, columns: Columns, moving: Array, G: Array, g: Array, u: float, x: Array,
    goal: float, most: int,
) -> tuple[Array, float, int]:  # fmt: skip
    """What the moving columns and the intercept move by, and the cycles that took.

    With an intercept c the model is minimised over it first: dc = −(Σu + σᵀdx)/Σw with σ = Aᵀw,
    which leaves G − σσᵀ/Σw and g − σΣu/Σw.
    """
    c, means = -g[moving], np.zeros(moving.size)
    if model.problem.fit_intercept:
        sums = columns.slopes(model.w)[moving]
        means = sums / model.mass
        least = 1e-12 * G.diagonal()
        G -= np.outer(sums, means)
        G.flat[:: moving.size + 1] = np.maximum(G.diagonal(), least)
        c += means * u
    gram = Gram.of(G, c, x[moving], columns.cols[moving], model.problem.penalty)
    done = gram.minimise(goal, most)
    dx = gram.x - x[moving]
    return dx, -u / model.mass - float(means @ dx), done
