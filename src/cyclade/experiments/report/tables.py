"""The tables of a report. Cells are plain text, for the terminal and for the page."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cyclade.experiments.config import TIMED_BY
from cyclade.experiments.display import aligned
from cyclade.experiments.folder import RunResult
from cyclade.experiments.report.board import Board, value
from cyclade.experiments.report.files import Timing
from cyclade.experiments.report.groups import (
    Group,
    Spread,
    different,
    last,
    named,
    words_of,
)

NOTHING = "–"
Cells = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A head and lines of text.

    `best` and `bad` mark cells by line and column, `taken` a line, and `titles` are those of parts,
    by the lines that they stand above.
    """

    head: Cells
    lines: list[Cells] = field(default_factory=list)
    titles: dict[int, str] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    best: set[tuple[int, int]] = field(default_factory=set)
    bad: set[tuple[int, int]] = field(default_factory=set)

    def add(
        self, *cells: str, best: Sequence[str] = (), bad: Sequence[str] = (), taken: bool = False
    ) -> None:
        """One more line; `best` and `bad` are columns by name."""
        at = len(self.lines)
        self.best.update((at, self.head.index(name)) for name in best)
        self.bad.update((at, self.head.index(name)) for name in bad)
        self.taken.update([at] if taken else [])
        self.lines.append(cells)

    def text(self, *columns: str) -> str:
        """With spaces between all columns, or these; titles stand above their parts."""
        chosen = [i for i, name in enumerate(self.head) if not columns or name in columns]
        lines = [[line[i] for i in chosen] for line in (self.head, *self.lines)]
        head, *rest = aligned(lines).splitlines()
        titled = ((self.titles.get(i), line) for i, line in enumerate(rest))
        return "\n".join([head, *(part for pair in titled for part in pair if part is not None)])

    def words(self) -> set[int]:
        """The columns that are read as words (to the left) rather than numbers (to the right)."""
        return {
            i
            for i, column in enumerate(zip(*self.lines, strict=True))
            if any(text[:1].isalpha() or " finished" in text for text in column)
        }


def plus_minus(values: Spread, digits: int = 4) -> str:
    """Mean ± standard deviation; a single value stands alone.

    >>> plus_minus(Spread(3, 0.666, 0.004)), plus_minus(Spread(1, 2.0)), plus_minus(Spread(0))
    ('0.6660 ± 0.0040', '2.0000', '–')
    """
    if values.mean is None:
        return NOTHING
    tail = "" if values.sd is None else f" ± {_fixed(values.sd, digits)}"
    return _fixed(values.mean, digits) + tail


def _fixed(number: float, digits: int) -> str:
    return f"{number:.{digits}f}" if abs(number) < 1e6 else f"{number:.3g}"


def short(number: float | None) -> str:
    """A large number in three digits.

    >>> short(1.26e12), short(50_000), short(None), short(0.0)
    ('1.26 T', '50 k', '–', '0')
    """
    if number is None or not math.isfinite(number):
        return NOTHING
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"


def state(group: Group) -> str:
    """How the runs of a group ended, in words."""
    parts = [f"{len(group.of_status('finished'))} of {len(group.runs)} finished"]
    for status, preposition in (("diverged", "in"), ("unfinished", "at")):
        where = [
            f"seed {run.config.seed} {preposition} epoch {_epoch(run)}"
            for run in group.of_status(status)
        ]
        parts += [f"{status}: {', '.join(where)}"] if where else []
    return "; ".join(parts)


def _epoch(run: RunResult) -> int:
    return run.last.epoch if run.history else 0


# --------------------------------------------------------------------------- where the runs ended


def _ends(runs: Sequence[RunResult], keys: Sequence[str]) -> Cells:
    return tuple(plus_minus(last(runs, value(key))) for key in keys)


def full_table(board: Board) -> Table:
    """One line per group, with what it used and how its runs ended."""
    ends = ["train_loss", "test_accuracy", "train_accuracy"]
    held = ["held_out_accuracy"] if "held_out_accuracy" in board.y_keys else []
    columns = {key: key.replace("_", " ") for key in ends} | dict.fromkeys(held, "held out")
    used = ("samples (paper)", "samples", "multiply-adds", "seconds")
    table = Table(("method", "runs", "lr", *columns.values(), *used))
    for panel in board.panels:
        if len(board.panels) > 1:
            table.titles[len(table.lines)] = panel.title
        members = [group for _, group in panel.members]
        best = {key: _best(members, key, -1 if key == "train_loss" else 1) for key in ends}
        for i, (entry, group) in enumerate(panel.members):
            runs = group.ended
            means = (
                last(runs, value(k)).mean for k in ("samples_paper", "samples", "multiply_adds")
            )
            table.add(
                board.entries[entry].label,
                state(group),
                f"{group.config.lr:g}",
                *_ends(runs, list(columns)),
                *map(short, means),
                plus_minus(last(runs, value("seconds")), 1),
                best=[columns[key] for key in ends if i in best[key]],
                bad=[] if group.whole else ["runs"],
            )
    return table


def _best(groups: Sequence[Group], key: str, sign: int) -> list[int]:
    """Who has the best mean, to the digits shown; nobody if all have it.

    Where a run diverged or goes on, the mean is of those that happened to end: it cannot be best.
    """
    means = {i: last(g.runs, value(key)).mean for i, g in enumerate(groups) if g.whole}
    there = {i: round(sign * mean, 4) for i, mean in means.items() if mean is not None}
    best = [i for i, mean in there.items() if mean == max(there.values())]
    return best if len(best) < len(there) else []


def run_table(board: Board) -> Table:
    """One line per run."""
    ends = ("train loss", "test accuracy", "seconds")
    table = Table(("folder", "method", "lr", "seed", "status", "epochs", *ends))
    for run in board.runs:
        config, cells = run.config, [NOTHING] * 3
        if run.history:
            row = run.last
            cells = [_fixed(row.train_loss, 4), _fixed(row.test_accuracy, 4), f"{row.seconds:.1f}"]
        where = Path(os.path.relpath(run.folder, board.root)).as_posix()
        table.add(
            run.folder.name if where == "." else where,
            config.method,
            f"{config.lr:g}",
            str(config.seed),
            run.status,
            f"{_epoch(run)} of {config.epochs}",
            *cells,
            bad=[] if run.status == "finished" else ["status"],
        )
    return table


# ------------------------------------------------------------------------------------------ times

_PAPERS_BATCH = 512
_NAMES = {"batch": "b", "blocks": "m", "spectral": "spectral normalisation"}


def timing_table(timing: Timing) -> Table:
    """Seconds of runs alone, and as multiples of SGD's at the same batch, beside the paper's."""
    apart = [key for key in TIMED_BY if key != "method" and _varies(timing, key)]
    papers = [_paper(timing, row) for row in timing.rows]
    head = (
        "method", *(_NAMES.get(key, key) for key in apart), "s / iteration", "s / epoch",
        "× SGD by epoch", "iterations / epoch", "multiply-adds / epoch",
    )  # fmt: skip
    if any(papers):
        head += ("paper: s / iteration", "paper: s / epoch", "paper: × SGD by epoch")
    table = Table(head)
    for row, paper in zip(timing.rows, papers, strict=True):
        seconds, base = float(row["seconds_per_epoch"]), _sgd(timing, row)
        beside: Cells = (NOTHING, NOTHING, NOTHING) if any(papers) else ()
        if paper and "SGD" in timing.paper:
            beside = tuple(f"{number:g}" for number in paper)
            beside += (f"{paper[1] / timing.paper['SGD'][1]:.2f}",)
        table.add(
            str(row["method"]),
            *(_cell(key, row.get(key)) for key in apart),
            f"{float(row['seconds_per_iteration']):.3g}",
            f"{seconds:.3g}",
            NOTHING if base is None else f"{seconds / base:.2f}",
            short(row.get("iterations_per_epoch")),
            short(row.get("multiply_adds_per_epoch")),
            *beside,
        )
    return table


def _cell(key: str, value: Any) -> str:
    if value is None:
        return NOTHING
    if key == "dataset":
        return words_of(key, value)
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _varies(timing: Timing, key: str) -> bool:
    return len({repr(row.get(key)) for row in timing.rows}) > 1


def _sgd(timing: Timing, row: Mapping[str, Any]) -> float | None:
    """Plain SGD on the same data with the same batch."""
    for other in timing.rows:
        same = all(row.get(key) == other.get(key) for key in ("dataset", "batch"))
        if same and other["method"] == "SGD" and _unchanged(other):
            return float(other["seconds_per_epoch"])
    return None


def _paper(timing: Timing, row: Mapping[str, Any]) -> tuple[float, float] | None:
    """The paper timed the plain methods, in forward order, with a block per layer, at one b."""
    other_batch = _varies(timing, "batch") and row.get("batch") != _PAPERS_BATCH
    return None if other_batch or not _unchanged(row) else timing.paper.get(row["method"])


def _unchanged(row: Mapping[str, Any]) -> bool:
    unset = all(row.get(key) is None for key in ("spectral", "precondition", "blocks"))
    return unset and row.get("order", "forward") == "forward"


# ----------------------------------------------------------------- how learning rates were chosen


def tuning_tables(board: Board) -> list[tuple[str, Table]]:
    """A table for each config that was tuned, with a line for every lr."""
    families = [replace(one.config, lr=1.0, epochs=1) for one in board.searches]
    apart = different(families)
    tables = []
    for family, search in zip(families, board.searches, strict=True):
        table = Table(("lr", "held-out accuracy", "runs"))
        for one in search.tried:
            accuracy, status = one.get("held_out_accuracy"), str(one.get("status", ""))
            table.add(
                f"{one['lr']:g}",
                NOTHING if accuracy is None else f"{accuracy:.4f}",
                status,
                bad=[] if status == "finished" else ["runs"],
                taken=one["lr"] == search.config.lr,
            )
        edge = " (at the edge of the grid)" if search.at_edge else ""
        tables.append((named(family, apart) + edge, table))
    return tables
