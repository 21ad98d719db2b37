"""Models of a nonconvex loss where nearly as many columns are in as there are rows.

Outliers hardly bend the loss, so what the other rows leave undetermined is left to the kinks of r:
the solution is close to a corner, and cycles creep along edges towards it. Here each model is
minimised by pivots, which walk from corner to corner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.newton import Model, step_length
from cyclade.linear.penalties import formulas
from cyclade.linear.problem import Problem

if TYPE_CHECKING:
    from cyclade.linear.working_sets import State

Array = NDArray[Any]

CROWDED = 0.5  # of the rows: the size of a support from which pivots are thought of
MOST_COLUMNS = 4_000  # whose products are formed
NEAR = 0.95  # columns at rest ride along if pulled by more than this part of their threshold
ROOM = 256  # such columns at most, or half the support
MOST_PIVOTS = 400  # on one model
FORCING = 0.1  # what part of the first violation may be left
RIDGE = 1e-11  # of the diagonal, so that dependent columns have a factor
BOLDER, LEAST_TRUST = 0.3, 1e-3  # what the weights of rows with φ'' < 0 come down by, and to


def crowded(problem: Problem, x: Array) -> bool:
    """Whether pivots may pay: a nonconvex loss, r = Σ λ_j |x_j|, a support of many columns."""
    penalty = problem.penalty
    if problem.loss.convex or not penalty.shipped or penalty.parameters[0] != formulas.L1:
        return False
    size = int(np.count_nonzero(x))
    return CROWDED * problem.design.n <= size <= MOST_COLUMNS


def pursue(problem: Problem, state: State, least: float) -> bool:
    """One model over the support and the columns close to it; whether the point moved."""
    from cyclade.linear.kernels.pivots import pivots

    V = company(problem, state)
    model, every = Model(problem, state.look, 1.0, state.trust), np.arange(V.size)
    panel, x = model.panel(V), state.x[V]
    panel.start(model.start(), x)
    c = panel.correlations().astype(np.float64)
    G = panel.products(every[:0], every, np.empty((0, 0)))
    G.flat[:: V.size + 1] *= 1.0 + RIDGE
    S = np.flatnonzero(x)
    factor = lower_factor(G, S)
    if factor is None:
        return False
    new, order = x.copy(), np.empty(V.size, np.int64)
    order[: S.size] = S
    goal = max(0.3 * least, FORCING * state.measured.distance)
    done, _ = pivots(G, c, new, problem.penalty.still[V], factor, order, S.size, MOST_PIVOTS, goal)
    state.passes += int(done) + 1
    dx = new - x
    panel.advance(every, dx)
    dz, dc = model.move(panel, dx)
    t, there = step_length(model, V, x, dx, problem.look(model.z + dz))
    # φ'' < 0 lets a good model be bolder still: it is the kinks of r that hold it.
    state.trust = min(1.0, 3.0 * state.trust) if t < 1.0 else max(BOLDER * state.trust, LEAST_TRUST)
    if t > 0:
        state.x[V] = new if t == 1.0 else x + t * dx
        state.look, state.c, state.fresh = there, state.c + t * dc, False
    return t > 0


def company(problem: Problem, state: State) -> Array:
    """The support, and the columns at rest that are pulled most."""
    still, x = problem.penalty.still, state.x
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = np.where(x != 0, 0.0, np.abs(state.measured.g) / still)
    inside, close = np.flatnonzero(x), np.flatnonzero(pull > NEAR)
    room = max(ROOM, inside.size // 2)
    if close.size > room:
        close = close[np.argpartition(-pull[close], room)[:room]]
    return np.sort(np.concatenate([inside, close]))


def lower_factor(G: Array, S: Array) -> Array | None:
    """The Cholesky factor of G_SS in the corner of an array with room for all; None if it fails."""
    from scipy.linalg import LinAlgError, cholesky

    part, ridge = G[np.ix_(S, S)], 0.0
    out, diagonal = np.empty_like(G), part.diagonal().copy()
    for ridge in (0.0, 1e-10, 1e-8):
        part.flat[:: S.size + 1] = (1.0 + ridge) * diagonal
        try:
            out[: S.size, : S.size] = cholesky(part, lower=True, check_finite=False)
        except LinAlgError:
            continue
        return out
    return None
