"""`solve` and `path` for tables in chunks, behind those of `cyclade.linear`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.kept import Kept, fingerprint
from cyclade.linear.checkpoint import as_path, described, resumed
from cyclade.linear.checks import as_start, check_lams, default_lams
from cyclade.linear.chunked import as_chunks
from cyclade.linear.chunked.chunks import Chunks
from cyclade.linear.chunked.fit import Place, begin, improve, minimise, rebase
from cyclade.linear.chunked.passes import Column
from cyclade.linear.chunked.table import Seen, Table
from cyclade.linear.losses import Loss
from cyclade.linear.penalties import is_separable
from cyclade.linear.penalty_bound import bind
from cyclade.linear.results import PathResult, Solution, paths_together, together
from cyclade.linear.starts.continuation import softer
from cyclade.linear.starts.predictor import lams_between
from cyclade.linear.threads import one_thread
from cyclade.linear.tuning import Tuning
from cyclade.linear.working_set import Report

Array = NDArray[Any]


def solve(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], coef: Any,
    intercept: Any, tol: float, max_passes: int, report: Report, tuning: Tuning,
    checkpoint: Any = None,
) -> Solution:  # fmt: skip
    """One fit; arguments as `cyclade.linear.solve` has checked them."""
    with one_thread(0, tuning):
        tables = as_tables(X, y, loss, penalty, data, coef, tuning)
        cold = coef is None and intercept is None
        starts = as_starts(tables, coef, intercept)
        fits = []
        for k, (table, (x, c)) in enumerate(zip(tables, starts, strict=True)):
            kept = kept_at(checkpoint, table, k, len(tables), tol, described(penalty))
            found = None if kept is None else kept.load()
            if found is None:
                place = approach(table, x, c, cold, tol, max_passes, report)
            else:
                c = found["c"] if found["c"].ndim else float(found["c"])
                place = begin(table, found["x"], c)
            save = None if kept is None else keeper(kept, place)
            certificate = minimise(table, place, tol, max_passes, report, save)
            fits.append(as_solution(table, place, certificate))
    return together(fits) if tables[0].column.output is not None else fits[0]


def path(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], coef: Any,
    intercept: Any, lams: Any, n_lams: int, lam_ratio: float, tol: float, max_passes: int,
    report: Report, tuning: Tuning, checkpoint: Any = None,
) -> PathResult:  # fmt: skip
    """A path; arguments as `cyclade.linear.path` has checked them."""
    with one_thread(0, tuning):
        tables = as_tables(X, y, loss, penalty, data, coef, tuning)
        if lams is None:
            lams = default_lams(penalty, null_gradient(tables), n_lams, lam_ratio)
        lams = check_lams(lams)
        starts = as_starts(tables, coef, intercept)
        paths = []
        for k, (table, start) in enumerate(zip(tables, starts, strict=True)):
            run = described(penalty.scaled(1.0)), lams
            kept = kept_at(checkpoint, table, k, len(tables), tol, *run)
            paths.append(follow(kept, table, *start, lams, tol, max_passes, report))
    return paths_together(paths) if tables[0].column.output is not None else paths[0]


def lam_max(X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool]) -> float:
    """The smallest λ at which x = 0 is stationary."""
    from cyclade.linear.tuning import DEFAULT

    with one_thread(0):
        tables = as_tables(X, y, loss, penalty, data, None, DEFAULT)
        return float(penalty.lam_max(null_gradient(tables)))


def null_gradient(tables: list[Table]) -> Array:
    """The gradient at x = 0 and the best intercept, by features, of all outputs."""
    gradients = []
    for table in tables:
        zero = np.zeros(table.chunks.p * table.penalty.T)
        g = table.read(zero, table.null.c)["g"]
        gradients.append(g)
    return gradients[0] if len(gradients) == 1 else np.stack(gradients, axis=1)


def as_tables(
    X: Any, y: Any, loss: Loss, penalty: Any, data: tuple[Any, Any, bool], coef: Any,
    tuning: Tuning,
) -> list[Table]:  # fmt: skip
    """One table, or one per output where nothing joins outputs; rows are checked in one pass."""
    sample_weight, offset, fit_intercept = data
    chunks: Chunks = as_chunks(X, y, sample_weight, offset, tuning)
    seen = Seen(chunks, loss, tuning)
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


def as_starts(tables: list[Table], coef: Any, intercept: Any) -> list[tuple[Array, Any]]:
    """(x, c) for each table, x flat in the order of its penalty; zeros where none was given."""
    coef, intercept = as_start(tables[0].chunks.p, coef, intercept)
    separate = tables[0].column.output is not None
    T, p = len(tables) if separate else tables[0].T, tables[0].chunks.p
    if coef is not None and coef.size != p * T:
        raise ValueError(f"coef: a start must have shape {(p, T)}, got {coef.shape}")
    x = np.zeros((p, T)) if coef is None else coef.reshape(p, T)
    c = np.zeros(T)
    if intercept is not None and tables[0].fit_intercept:
        if intercept.size not in (1, T):
            raise ValueError(f"intercept: there are {T} outputs, got {intercept.size} numbers")
        c[:] = intercept.reshape(-1)
    if tables[0].column.outputs is not None:
        return [(tables[0].penalty.by_blocks(x), c)]
    return [
        (table.penalty.by_blocks(np.ascontiguousarray(x[:, t])), float(c[t]))
        for t, table in enumerate(tables)
    ]


def approach(
    table: Table, x: Array, c: Any, cold: bool, tol: float, max_passes: int, report: Report
) -> Place:
    """A start: through easier losses where the loss is narrow, and down in λ where r is nonconvex.

    The same ways as in memory (`starts/`), with one working set at each stage.
    """
    tuning, penalty = table.tuning, table.penalty.penalty
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
        stages += [(at, lam, tuning.straighter_distance) for at in (guide, *straighter)]
    for at, stage, far in stages:
        easier = table.at(at)
        rebase(easier, place)
        if place.measured.distance > far * stage and place.passes < max_passes:
            improve(easier, place, far * stage, stage, max_passes)
        table.reads = easier.reads
    rebase(table, place)
    return place


def kept_at(
    checkpoint: Any, table: Table, k: int, count: int, tol: float, *more: Any
) -> Kept | None:
    """The checkpoint of table k of so many; what tells it apart is found without reading X."""
    if checkpoint is None:
        return None
    name = f"{os.fspath(checkpoint)}-{k}" if count > 1 else checkpoint
    seen = table.seen
    return Kept(name, fingerprint(
        repr(table.loss), table.fit_intercept, tol, seen.n, seen.weight, seen.some, table.chunks.p,
        *more,
    ))  # fmt: skip


def keeper(kept: Kept, place: Place) -> Callable[[], None]:
    """What writes down where a fit stands."""
    return lambda: kept.save(x=place.x, c=np.asarray(place.measured.c))


def follow(
    kept: Kept | None, table: Table, x: Array, c: Any, lams: Array, tol: float, max_passes: int,
    report: Report,
) -> PathResult:  # fmt: skip
    """One table along decreasing λ, from (x, c) or from a checkpoint."""

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

    return as_path(lams, resumed(kept, lams, x, c, rest))


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
