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
    damping: float = 1.0
    trust: float = DEFAULT.forcing  # of a majoriser's weights, for φ'' < 0

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
    """One working set and one model: choose, minimise, move as far as F falls.

    `scale`, which the other engine asks for, is not needed.
    """
    now, tuning = state.measured, table.tuning
    state.working = W = choose(table, state)
    cols = wanted(table, W)
    exact, budget = table.loss.quadratic, max_passes - state.passes
    part, precise = tuning.chunk_model_part[exact] * target, tuning.close * now.distance
    tolerance = min(part, precise) if exact else max(part, precise)
    products = ensure(table, state, cols)
    move = model.minimise(table, now, products, W, tolerance, budget)
    state.passes += max(move.cycles, 1)
    advance(table, state, move, products)


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


def ensure(table: TableProblem, state: TableState, cols: Array) -> Products:
    """Products of the columns, with a pass for those that are lacking."""
    if state.products is None:
        state.products = new_products(table)
    products, now = state.products, state.measured
    new = products.lacking(cols)
    if new.size:
        sums = table.run(
            now.x, now.c, gradient=False, old=products.members, new=new, damping=state.damping,
            trust=state.trust,
        )  # fmt: skip
        products.add(new, sums["products"])
    return products


def wanted(table: TableProblem, W: Array) -> Array:
    """The columns of some blocks, after that of ones where there is an intercept."""
    ones = np.array([ONES] if table.fit_intercept else [], np.int64)
    return np.concatenate([ones, model.columns_of(table, W)[0]])


def new_products(table: TableProblem) -> Products:
    """None yet."""
    return Products(table.T if table.loss.softmax else 1)


def advance(table: TableProblem, state: TableState, move: Move, products: Products) -> None:
    """Move by t = 1, or less until F falls enough (Armijo), each with a pass."""
    now, exact = state.measured, table.loss.quadratic
    penalty: Any = table.penalty
    dx = np.zeros_like(now.x)
    dx[move.entries] = move.dx
    r0, r1 = (total(table, state.working, now.x + t * dx) for t in (0.0, 1.0))
    slope = float(now.g @ dx) + float(np.sum(now.slope * move.dc)) + r1 - r0
    ask: dict[str, Any] = {}
    moving = state.working
    if not exact:  # the next working set is likely what this one leaves in the support
        at = np.abs(now.x) + np.abs(dx)
        moving = moving[at[moving] > 0 if penalty.is_scalar else penalty.occupied(at)[moving]]
        ask = {"new": wanted(table, moving), "damping": state.damping, "trust": state.trust}

    F, reached, t = now.value + r0, 0.0, 1.0
    for _ in range(limits.TRIES):
        x, c = now.x + t * dx, now.c + t * move.dc
        x[np.abs(x) < 1e-300] = 0.0
        sums = table.read(x, c, **ask)
        # Where the model is F itself, what is left is rounding.
        value = float(sums["value"]) + total(table, state.working, x)
        if exact or lowered(F, slope, t, value):
            reached, state.measured = t, table.reading(x, c, sums)
            break
        t *= shorter(value - F, t * slope)
    state.damping = next_damping(state, state.damping, reached)
    if exact:
        state.known = np.union1d(state.known, state.working)
        return
    state.products = None
    if reached > 0.0:
        state.products, state.known = new_products(table), moving
        state.products.add(ask["new"], sums["products"])


def shorter(rise: float, slope: float) -> float:
    """Where a parabola with this slope at 0, and this rise at 1, is least; from 0.1 to 0.5.

    >>> shorter(1.0, -1.0), shorter(np.inf, -1.0)
    (0.25, 0.1)
    """
    if not np.isfinite(rise):
        return 0.1
    return float(np.clip(-0.5 * slope / (rise - slope), 0.1, 0.5))


def total(table: TableProblem, W: Array, x: Array) -> float:
    """r on the blocks W."""
    return table.penalty.total(W, x[W] if table.penalty.is_scalar else x)
