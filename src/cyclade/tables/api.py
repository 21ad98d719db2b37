"""Fits and paths of tables in chunks, behind `solve` and `path` of `cyclade.linear`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.files.checkpoint import Kept
from cyclade.files.objects import described, fingerprint, rounded
from cyclade.linear.checks import as_starts
from cyclade.linear.losses import Loss
from cyclade.linear.penalties import is_separable
from cyclade.linear.penalty_bound import bind
from cyclade.linear.results import Certificate, PathResult, Solution, resumed
from cyclade.linear.starts import Companion, Engine, find_start, softer
from cyclade.linear.state import moved
from cyclade.linear.tuning import Tuning as EngineTuning
from cyclade.linear.working_set import Report
from cyclade.tables import as_chunks
from cyclade.tables.chunks import Chunks
from cyclade.tables.fit import TableState, begin, improve, minimise, rebase
from cyclade.tables.passes import Column
from cyclade.tables.table import CheckedRows, TableProblem
from cyclade.tables.tuning import Tuning

Array = NDArray[Any]


def is_convex(table: Any, state: Any) -> bool:
    """Whether F is: a stage costs passes, and one solution is all there is."""
    return bool(table.loss.convex and table.penalty.convex)


IN_CHUNKS = Engine(rebase, improve, minimise, is_convex)


class FitInChunks(NamedTuple):
    """A table, and where its fit starts; the counterpart of `cyclade.linear.api.FitInMemory`."""

    problem: TableProblem
    x: Array  # flat, in the order of the penalty
    c: Any

    def run(self, tol: float, penalty: Any, *lams: Array) -> str:
        """What tells a run apart from others; X is not read for it (`resumed` does, for paths)."""
        table, seen = self.problem, self.problem.seen
        return fingerprint(
            described(table.loss), table.fit_intercept, tol, seen.n, rounded(seen.weight),
            seen.some, table.chunks.p, described(penalty), *map(rounded, lams),
        )  # fmt: skip

    def fit(
        self, cold: bool, tol: float, max_passes: int, report: Report, kept: Kept | None = None
    ) -> Solution:
        """One fit, from a checkpoint where there is one."""
        table, found = self.problem, None if kept is None else kept.load()
        if found is None:
            state = approach(*self, cold, tol, max_passes, report)
        else:
            c = found["c"] if found["c"].ndim else float(found["c"])
            state = begin(table, found["x"], c)

        def save() -> None:
            if kept is not None:
                kept.save(x=state.x, c=np.asarray(state.measured.c))

        certificate = minimise(table, state, tol, max_passes, report, save)
        return as_solution(table, *as_returned(table, state, certificate))

    def follow(
        self, lams: Array, tol: float, max_passes: int, report: Report, kept: Kept | None = None
    ) -> PathResult:
        """A path along decreasing λ, from a checkpoint where there is one."""
        table, x, _ = self

        def rest(coef: Any, intercept: Any, left: Array, done: Callable[[Solution], None]) -> None:
            start = x if left.size == lams.size else table.penalty.by_blocks(np.asarray(coef))
            penalty, state = table.penalty.penalty, begin(table, start, intercept)
            bent = not penalty.convex and hasattr(penalty, "straighter")
            companion = Companion(state, float(lams[-1]), IN_CHUNKS) if bent else None
            for lam in left:
                at = table.at(penalty.scaled(float(lam)))
                rebase(at, state)
                state.passes, state.history, state.damping = 0, [], 1.0
                if companion is not None:
                    state = companion.advance(at, state, max_passes)
                certificate = minimise(at, state, tol, max_passes, report)
                done(as_solution(at, *as_returned(at, state, certificate)))

        return resumed(kept, lams, self, rest)


def as_parts(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], given: EngineTuning,
    start: tuple[Any, Any],
) -> tuple[list[FitInChunks], bool]:  # fmt: skip
    """Tables to fit, and whether they are outputs that nothing joins; for `linear.api`.

    `start` is coef and intercept.
    """
    coef, intercept = start
    tables = as_tables(X, y, loss, penalty, data, coef, Tuning.of(given))
    column, p = tables[0].column, tables[0].chunks.p
    starts = as_starts(tables, p, column.outputs, coef, intercept)
    return [FitInChunks(*start) for start in starts], column.output is not None


def as_tables(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], coef: Any,
    tuning: Tuning,
) -> list[TableProblem]:  # fmt: skip
    """One table, or one per output where nothing joins outputs; rows are checked in one pass."""
    sample_weight, offset, fit_intercept = data
    chunks: Chunks = as_chunks(X, y, sample_weight, offset, tuning)
    seen = CheckedRows(chunks, loss, tuning)
    outputs = seen.columns
    if loss.target == "classes":
        outputs = max(seen.classes, np.shape(coef)[1] if np.ndim(coef) == 2 else 0)
    if seen.offsets is not None and seen.offsets != outputs:
        raise ValueError(f"offset: there are {outputs or 1} outputs, it has {seen.offsets}")
    dimensions = 1 if seen.columns is None else 2
    more = bool(fit_intercept), tuning
    if is_separable(loss, penalty, dimensions):
        bound = refuse_sorted(bind(penalty, chunks.p))
        return [
            TableProblem(chunks, Column(loss, None, k, seen.weight), seen, bound, *more)
            for k in range(outputs or 1)
        ]
    bound = refuse_sorted(bind(penalty, chunks.p, outputs))
    return [TableProblem(chunks, Column(loss, outputs, None, seen.weight), seen, bound, *more)]


def refuse_sorted(bound: Any) -> Any:
    """The bound penalty; ValueError for sorted l1, whose subproblem needs the rows."""
    if bound.is_sorted:
        raise ValueError("penalty: Slope is not to be had for tables in chunks; use X in memory")
    return bound


def approach(
    table: TableProblem, x: Array, c: Any, cold: bool, tol: float, max_passes: int, report: Report
) -> TableState:
    """A start: through easier losses where the loss is narrow, or as in memory (`starts.py`)."""
    tuning, penalty = table.tuning, table.penalty.penalty
    if cold:
        some = table.seen.some
        if table.column.output is not None:
            some = some[:, table.column.output]
        zero = np.zeros(some.shape)
        for loss in softer(table.loss, penalty, some, zero, table.fit_intercept, tuning):
            wider = table.with_loss(loss)
            state = begin(wider, x, c)
            minimise(wider, state, max(tol, 1e-3), max_passes // 2, report)
            x, c = state.x, state.measured.c
    found: TableState = find_start(table, begin(table, x, c), max_passes, IN_CHUNKS)
    return found


def as_returned(
    table: TableProblem, state: TableState, certificate: Certificate
) -> tuple[TableState, Certificate]:
    """The point that a caller gets, with x rounded as X is, and the certificate of that point."""
    x = state.x.astype(table.chunks.given, copy=False).astype(np.float64, copy=False)
    if np.array_equal(x, state.x):
        return state, certificate
    now = begin(table, x, state.measured.c).measured
    return replace(state, measured=now), moved(certificate, state.measured, now)


def as_solution(table: TableProblem, state: TableState, certificate: Any) -> Solution:
    """What a caller gets."""
    now = state.measured
    x, c = table.penalty.by_features(now.x).astype(table.chunks.given), now.c
    if table.column.outputs is not None:
        x, c = x.reshape(-1, table.T), np.array(c)
        if table.loss.target == "classes" and table.fit_intercept:
            c -= c.mean()
    else:
        c = float(c)
    features = table.penalty.features(state.working)
    return Solution(x, c, now.objective, certificate, state.passes, features, state.history)
