"""Fits and paths of tables in chunks, behind `solve` and `path` of `cyclade.linear`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.kept import Kept, described, fingerprint, rounded
from cyclade.linear.checks import as_starts
from cyclade.linear.losses import Loss
from cyclade.linear.penalties import is_separable
from cyclade.linear.penalty_bound import bind
from cyclade.linear.results import (
    PathResult,
    Solution,
    resumed,
)
from cyclade.linear.starts.continuation import softer
from cyclade.linear.starts.predictor import lams_between
from cyclade.linear.tuning import Tuning
from cyclade.linear.working_set import Report
from cyclade.tables import as_chunks
from cyclade.tables.chunks import Chunks
from cyclade.tables.fit import Place, begin, improve, minimise, rebase
from cyclade.tables.passes import Column
from cyclade.tables.start import guess, opening
from cyclade.tables.table import Seen, Table

Array = NDArray[Any]


class TablePart(NamedTuple):
    """A table, and where its fit starts; the counterpart of `cyclade.linear.api.Part`."""

    table: Table
    x: Array  # flat, in the order of the penalty
    c: Any

    def run(self, tol: float, penalty: Any, *lams: Array) -> str:
        """What tells a run apart from others; X is not read for it (`resumed` does, for paths)."""
        table, seen = self.table, self.table.seen
        return fingerprint(
            described(table.loss), table.fit_intercept, tol, seen.n, rounded(seen.weight),
            seen.some, table.chunks.p, described(penalty), *map(rounded, lams),
        )  # fmt: skip

    @property
    def null_gradient(self) -> Array:
        """At x = 0 and the best intercept, by features."""
        return self.table.null_gradient

    def fit(
        self, cold: bool, tol: float, max_passes: int, report: Report, kept: Kept | None
    ) -> Solution:
        """One fit, from a checkpoint where there is one."""
        table, found = self.table, None if kept is None else kept.load()
        if found is None:
            place = approach(*self, cold, tol, max_passes, report)
        else:
            c = found["c"] if found["c"].ndim else float(found["c"])
            place = begin(table, found["x"], c)

        def save() -> None:
            if kept is not None:
                kept.save(x=place.x, c=np.asarray(place.measured.c))

        certificate = minimise(table, place, tol, max_passes, report, save)
        return as_solution(table, place, certificate)

    def follow(
        self, lams: Array, tol: float, max_passes: int, report: Report, kept: Kept | None
    ) -> PathResult:
        """A path along decreasing λ, from a checkpoint where there is one."""
        table, x, c = self

        def rest(coef: Any, intercept: Any, left: Array, done: Callable[[Solution], None]) -> None:
            start = x if left.size == lams.size else table.penalty.by_blocks(np.asarray(coef))
            table.screens = False
            penalty, place = table.penalty.penalty, begin(table, start, intercept)
            for lam in left:
                at = table.at(penalty.scaled(float(lam)))
                rebase(at, place)
                place.passes, place.history, place.damping = 0, [], 1.0
                certificate = minimise(at, place, tol, max_passes, report)
                done(as_solution(at, place, certificate))
                table.reads = at.reads

        def null() -> Array:
            return self.null_gradient

        return PathResult.of(lams, resumed(kept, lams, x, c, null, rest))


def as_parts(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], tuning: Tuning,
    start: tuple[Any, Any, bool],
) -> tuple[list[TablePart], bool]:  # fmt: skip
    """Tables to fit, and whether they are outputs that nothing joins; for `linear.api`.

    `start` is coef, intercept, and whether one fit is to be made, from no start.
    """
    coef, intercept, cold = start
    tables = as_tables(X, y, loss, penalty, data, coef, tuning, cold)
    column, p = tables[0].column, tables[0].chunks.p
    starts = as_starts(tables, p, column.outputs, coef, intercept)
    return [TablePart(*start) for start in starts], column.output is not None


def as_tables(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], coef: Any,
    tuning: Tuning, cold: bool,
) -> list[Table]:  # fmt: skip
    """One table, or one per output where nothing joins outputs; rows are checked in one pass.

    Where a fit starts `cold`, a start may be guessed in that pass.
    """
    sample_weight, offset, fit_intercept = data
    chunks: Chunks = as_chunks(X, y, sample_weight, offset, tuning)
    first = opening(chunks, loss, penalty, bool(fit_intercept), tuning) if cold else None
    seen = Seen(chunks, loss, tuning, first)
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
            Table(chunks, Column(loss, None, k, seen.weight), seen, bound, *more)
            for k in range(outputs or 1)
        ]
    bound = refuse_sorted(bind(penalty, chunks.p, outputs))
    return [Table(chunks, Column(loss, outputs, None, seen.weight), seen, bound, *more)]


def refuse_sorted(bound: Any) -> Any:
    """The bound penalty; ValueError for sorted l1, whose subproblem needs the rows."""
    if bound.is_sorted:
        raise ValueError("penalty: Slope is not to be had for tables in chunks; use X in memory")
    return bound


def approach(
    table: Table, x: Array, c: Any, cold: bool, tol: float, max_passes: int, report: Report
) -> Place:
    """A start: guessed, through easier losses where the loss is narrow, down in λ where r is bent.

    The same ways as in memory (`starts/`), with one working set at each stage.
    """
    tuning, penalty = table.tuning, table.penalty.penalty
    guessed = guess(table) if cold else None
    if guessed is not None:
        return guessed
    if cold:
        some = table.seen.some
        if table.column.output is not None:
            some = some[:, table.column.output]
        zero = np.zeros(some.shape)
        for loss in softer(table.loss, penalty, some, zero, table.fit_intercept, tuning):
            easier = table.with_loss(loss)
            place = begin(easier, x, c)
            minimise(easier, place, max(tol, 1e-3), max_passes // 2, report)
            x, c, table.reads = place.x, place.measured.c, easier.reads
    place = begin(table, x, c)
    if not (table.penalty.is_scalar and not place.x.any()):
        return place
    bent = not table.penalty.convex and hasattr(penalty, "split") and hasattr(penalty, "straighter")
    guide = penalty.split()[0] if bent else penalty
    if not all(hasattr(guide, name) for name in ("lam", "scaled", "lam_max")):
        return place
    if not (table.penalty.convex or bent):
        return place
    largest, lam = float(guide.lam_max(place.measured.g)), float(guide.lam)
    if not 0 < lam < largest < np.inf:
        return place
    if table.loss.convex and not bent:  # a stage costs passes, and saves none
        return place
    step, rough = tuning.lam_step if table.loss.convex else tuning.lam_step_nonconvex
    stages: list[tuple[Any, float, float]] = []
    if not table.loss.convex:
        stages = [(guide.scaled(at), at, rough) for at in lams_between(largest, lam, step)]
    if bent:
        straighter = [penalty.straighter(times) for times in tuning.straighter]
        stages += [(at, lam, tuning.rough_distance) for at in (guide, *straighter)]
    for at, stage, far in stages:
        easier = table.at(at)
        rebase(easier, place)
        if place.measured.distance > far * stage and place.passes < max_passes:
            improve(easier, place, far * stage, stage, max_passes)
        table.reads = easier.reads
    rebase(table, place)
    return place


def as_solution(table: Table, place: Place, certificate: Any) -> Solution:
    """What a caller gets."""
    now = place.measured
    x, c = table.penalty.by_features(now.x).astype(table.chunks.given), now.c
    if table.column.outputs is not None:
        x, c = x.reshape(-1, table.T), np.array(c)
        if table.loss.target == "classes" and table.fit_intercept:
            c -= c.mean()
    else:
        c = float(c)
    features = table.penalty.features(place.working)
    return Solution(x, c, now.objective, certificate, place.passes, features, place.history)
