"""The outer loop over a table: measure, stop, choose, improve, as in `working_set`.

A pass over the table costs far more than anything on the client. So a step is made with one: the
pass at its end sums the loss and the gradient there, what a dual value needs, and the products of
the working set for the next step. Two more kinds of passes are made where needed: the products of
columns that have just come in, and the point that a shorter step leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits
from cyclade.linear.kernels.block_gram import ONES
from cyclade.linear.quadratic import lowered, next_damping
from cyclade.linear.results import Certificate
from cyclade.linear.working_set import Report, Stopping
from cyclade.tables import model
from cyclade.tables.model import Move, Products
from cyclade.tables.table import TableMeasured, TableProblem
from cyclade.tables.tuning import DEFAULT

Array = NDArray[Any]


@dataclass
class TableState:
    """Where a fit stands, and what it keeps from step to step."""

    measured: TableMeasured
    passes: int = 0  # cycles made
    working: Array = field(default_factory=lambda: np.empty(0, np.int64))  # blocks
    history: list[dict[str, float]] = field(default_factory=list)
    products: Products | None = None  # at this point; for the squared loss, at any
    known: Array = field(default_factory=lambda: np.empty(0, np.int64))  # blocks of the products
    indefinite: bool = False  # whether these products are under φ'' as it is
    damping: float = 1.0
    trust: float = DEFAULT.forcing  # of a majoriser's weights, for φ'' < 0
    true_below: float = np.inf  # distance from which on φ'' < 0 is taken as it is

    @property
    def x(self) -> Array:
        """The coefficients, flat."""
        return self.measured.x

    def fork(self) -> TableState:
        """A state at the same point, which moves on its own."""
        return replace(self, history=[])

    def point(self) -> TableMeasured:
        """What `return_to` needs."""
        return self.measured

    def return_to(self, point: TableMeasured) -> None:
        """Go back to a point that was passed."""
        self.measured, self.products, self.known = point, None, self.known[:0]


def begin(table: TableProblem, x: Array, c: Any) -> TableState:
    """Start at (x, c); at x = 0 with the best intercept."""
    x = np.array(x, np.float64)
    table.penalty.project(x)
    if table.fit_intercept and not x.any():
        c = table.null.c
    return TableState(table.reading(x, c, table.read(x, c)), products=new_products(table))


def rebase(table: TableProblem, state: TableState) -> None:
    """Carry a state over to another penalty."""
    now = state.measured
    state.measured = table.reading(now.x, now.c, now.sums)
    state.true_below = np.inf


def minimise(
    table: TableProblem, state: TableState, tol: float, max_passes: int, report: Report,
    save: Callable[[], None] | None = None,
) -> Certificate:  # fmt: skip
    """Move the state until the certificate holds or `max_passes` cycles are spent.

    `save`, if given, is called after every step.
    """

    def tell(row: dict[str, float]) -> None:
        row["reads"] = table.reads
        report(row)

    stopping = Stopping(table, state, tol, max_passes, tell)
    while not stopping.done(state):
        improve(table, state, stopping.target, stopping.scale, max_passes)
        if save is not None:
            save()
    stopping.settle(state)
    return stopping.certificate


def improve(
    table: TableProblem, state: TableState, target: float, scale: float, max_passes: int
) -> None:
    """One working set and one model: choose, minimise, move as far as F falls."""
    now, tuning = state.measured, table.tuning
    state.working = W = choose(table, state)
    cols = wanted(table, W)
    exact, budget = table.loss.quadratic, max_passes - state.passes
    part, precise = tuning.chunk_model_part[exact] * target, tuning.close * now.distance
    tolerance = min(part, precise) if exact else max(part, precise)
    indefinite = takes_true_hessian(table, state, scale)
    move: Move | None = None
    while move is None:
        products = ensure(table, state, cols, indefinite)
        move = model.minimise(
            table, now, products, W, tolerance, budget, not indefinite or table.loss.convex
        )
        if move is None:  # φ'' as it is has no minimum here
            indefinite, state.true_below = False, tuning.true_hessian_retry * now.distance
    state.passes += max(move.cycles, 1)
    advance(table, state, move, exact, indefinite)


def takes_true_hessian(table: TableProblem, state: TableState, scale: float) -> bool:
    """Whether a nonconvex loss is modelled by φ'' as it is: near the minimum."""
    if table.loss.convex or not table.penalty.is_scalar:
        return False
    limit = min(state.true_below, table.tuning.true_hessian_distance * scale)
    return state.measured.distance <= limit


def choose(table: TableProblem, state: TableState) -> Array:
    """The support, the worst violators, and zeros that are close to violating.

    A column that is missing costs a pass over the table, one too many a row of products. So zeros
    come in beforehand where a pass is made anyway, and only there. Under penalties without a
    threshold every column is a candidate, and the worst come in.
    """
    tuning, penalty, now = table.tuning, table.penalty, state.measured
    found = penalty.candidates(now.x, now.g, now.distances, tuning.near, None)
    inside, size = found.support.size, max(penalty.size, 1.0)
    room = max(inside // 2, int(tuning.room / size), 1)
    most = max(int(tuning.most_columns / size), inside + 1)
    violating, close = found.violating, found.close
    if violating.size > 2 * room:
        violating = violating[np.argpartition(-found.violation, 2 * room)[: 2 * room]]
        close = close[:0]
    if close.size > room:
        close = close[np.argpartition(-found.pull, room)[:room]]
    needed = np.concatenate([found.support, violating])[:most]
    if state.products is not None and np.isin(needed, state.known).all():
        return np.sort(state.known)  # columns whose products are there cost nothing
    return np.sort(np.concatenate([needed, close])[:most])


def ensure(table: TableProblem, state: TableState, cols: Array, indefinite: bool) -> Products:
    """Products of the columns, with a pass for those that are lacking."""
    if state.products is None or state.indefinite != indefinite:
        state.indefinite, state.products = indefinite, new_products(table)
    products = state.products
    new = products.lacking(cols)
    if new.size:
        now = state.measured
        sums = table.run(
            now.x,
            now.c,
            gradient=False,
            old=products.members,
            new=new,
            **weights(state, indefinite),
        )
        products.add(new, sums["products"])
    return products


def wanted(table: TableProblem, W: Array) -> Array:
    """The columns of some blocks, after that of ones where there is an intercept."""
    ones = np.array([ONES] if table.fit_intercept else [], np.int64)
    return np.concatenate([ones, model.columns_of(table, W)[0]])


def nonzero(table: TableProblem, x: Array) -> Array:
    """By blocks: whether any entry is not zero."""
    penalty: Any = table.penalty
    return x != 0 if penalty.is_scalar else np.asarray(penalty.occupied(x))


def new_products(table: TableProblem) -> Products:
    """None yet."""
    return Products(table.T if table.loss.softmax else 1)


def weights(state: TableState, indefinite: bool) -> dict[str, Any]:
    """How a pass weighs rows for products."""
    return {"damping": state.damping, "trust": None if indefinite else state.trust}


def advance(
    table: TableProblem, state: TableState, move: Move, exact: bool, indefinite: bool
) -> None:
    """Move by t = 1, or less if F does not fall enough (Armijo), with a pass at the end.

    Shorter steps are tried if F should fall there, going by the loss and its slope at both ends.
    """
    now, products, tuning = state.measured, state.products, table.tuning
    assert products is not None
    dx = np.zeros_like(now.x)
    dx[move.entries] = move.dx
    r = [total(table, state.working, now.x + t * dx) for t in (0.0, *limits.LENGTHS)]
    down = float(now.g @ dx) + float(np.sum(now.slope * move.dc))
    F, slope = now.value + r[0], down + r[1] - r[0]
    ask: dict[str, Any] = {}
    moving = state.working
    if not exact:  # the next working set is likely what this one leaves in the support
        moving = moving[nonzero(table, np.abs(now.x) + np.abs(dx))[moving]]
        ask = {"new": wanted(table, moving), **weights(state, indefinite)}

    reached, end = 0.0, None
    for t, own in zip(limits.LENGTHS, r[1:], strict=True):
        if end is not None and not lowered(F, slope, t, between(t, now.value, down, *end) + own):
            continue
        x, c = now.x + t * dx, now.c + t * move.dc
        x[np.abs(x) < 1e-300] = 0.0
        sums = table.read(x, c, **ask)
        # Where the model is F itself, what is left is rounding.
        if exact or lowered(F, slope, t, float(sums["value"]) + own):
            reached, state.measured = t, table.reading(x, c, sums)
            break
        if t == 1.0 and np.isfinite(sums["value"]) and np.isfinite(sums["g"]).all():
            new = table.reading(x, c, sums)
            end = new.value, float(new.g @ dx) + float(np.sum(new.slope * move.dc))
    state.damping = next_damping(state, state.damping, reached)
    if indefinite and state.measured.distance > tuning.stall_drop * now.distance:
        state.true_below = tuning.true_hessian_retry * now.distance  # φ'' as it is led nowhere
    if not exact:
        state.products = None
        if reached > 0.0:
            state.products = new_products(table)
            state.products.add(ask["new"], sums["products"])
            state.known = moving
    else:
        state.known = np.union1d(state.known, state.working)


def between(t: float, first: float, down: float, last: float, up: float) -> float:
    """A function at t in [0, 1] by the cubic with its values and slopes at 0 and 1.

    >>> between(0.5, 0.0, 0.0, 1.0, 3.0)  # t³
    0.125
    """
    rise = last - first
    return first + t * (down + t * (3.0 * rise - 2.0 * down - up + t * (down + up - 2.0 * rise)))


def total(table: TableProblem, W: Array, x: Array) -> float:
    """r on the blocks W."""
    return table.penalty.total(W, x[W] if table.penalty.is_scalar else x)
