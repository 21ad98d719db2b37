"""Where runs ended, in numbers. Cells are plain text, for the terminal and for the page."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cyclade.experiments.folder import RunResult
from cyclade.experiments.report import labels
from cyclade.experiments.report.board import Board, value
from cyclade.experiments.report.groups import Group, Spread, ended, last

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A head and lines of text.

    `best` and `bad` mark cells by line and column, `taken` a line, and `titles` are those of parts,
    by the lines that they stand above.
    """

    head: tuple[str, ...]
    lines: list[tuple[str, ...]]
    titles: dict[int, str] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    best: set[tuple[int, int]] = field(default_factory=set)
    bad: set[tuple[int, int]] = field(default_factory=set)

    def text(self) -> str:
        """With spaces between the columns."""
        lines = [self.head, *self.lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )


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
    diverged = group.of_status("diverged")
    if diverged:
        where = ", ".join(f"seed {run.config.seed}{_in_epoch(run)}" for run in diverged)
        parts.append(f"diverged: {where}")
    unfinished = group.of_status("unfinished")
    if unfinished:
        where = ", ".join(f"seed {run.config.seed} at epoch {_epoch(run)}" for run in unfinished)
        parts.append(f"unfinished: {where}")
    return "; ".join(parts)


def _in_epoch(run: RunResult) -> str:
    return f" in epoch {run.last.epoch}" if run.history else ""


def _epoch(run: RunResult) -> int:
    return run.last.epoch if run.history else 0


# ------------------------------------------------------------------------------------ summary


def summary_table(board: Board) -> Table:
    """One line per group: the plain end table."""
    groups = board.groups
    extra = _extra_keys(groups)
    head = (
        "method", "spectral", *extra, "lr", "seeds", "train loss", "test accuracy", "seconds",
        "diverged",
    )  # fmt: skip
    lines = []
    for group in groups:
        config, runs = group.config, ended(group)
        under_way = "" if group.of_status("finished") or not runs else " (unfinished)"
        lines.append(
            (
                config.method,
                config.spectral or "none",
                *(_word(getattr(config, key)) for key in extra),
                f"{config.lr:g}",
                f"{len(runs)}{under_way}",
                plus_minus(last(runs, value("train_loss"))),
                plus_minus(last(runs, value("test_accuracy"))),
                plus_minus(last(runs, value("seconds")), 1),
                str(len(group.of_status("diverged"))),
            )
        )
    return Table(head, lines)


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def _extra_keys(groups: Sequence[Group]) -> list[str]:
    own = ("spectral", "lr", "device")
    return [key for key in labels.varying(groups) if key not in own]


def full_table(board: Board) -> Table:
    """One line per group, with what it used and how its runs ended."""
    held = "held_out_accuracy" in board.y_keys
    head = (
        "method", "runs", "lr", "train loss", "test accuracy",
        "train accuracy", *(("held out",) if held else ()), "samples (paper)", "samples",
        "multiply-adds", "seconds",
    )  # fmt: skip
    table = Table(head, [])
    for panel in board.panels:
        first = len(table.lines)
        if len(board.panels) > 1:
            table.titles[first] = panel.title
        for entry, group in panel.members:
            runs, status = ended(group), state(group)
            table.lines.append(
                (
                    board.entries[entry].label,
                    status,
                    f"{group.config.lr:g}",
                    plus_minus(last(runs, value("train_loss"))),
                    plus_minus(last(runs, value("test_accuracy"))),
                    plus_minus(last(runs, value("train_accuracy"))),
                    *((plus_minus(last(runs, value("held_out_accuracy"))),) if held else ()),
                    short(last(runs, value("samples_paper")).mean),
                    short(last(runs, value("samples")).mean),
                    short(last(runs, value("multiply_adds")).mean),
                    plus_minus(last(runs, value("seconds")), 1),
                )
            )
            if group.of_status("diverged") or group.of_status("unfinished"):
                table.bad.add((len(table.lines) - 1, head.index("runs")))
        members = [group for _, group in panel.members]
        for key, sign in (("train_loss", -1), ("test_accuracy", 1), ("train_accuracy", 1)):
            column = head.index(key.replace("_", " "))
            table.best.update((first + i, column) for i in _best(members, key, sign))
    return table


def _best(groups: Sequence[Group], key: str, sign: int) -> list[int]:
    """Who has the best mean, to the digits shown; nobody if all have it.

    Where a run diverged or goes on, the mean is of those that happened to end: it cannot be best.
    """
    whole = [
        group if len(group.of_status("finished")) == len(group.runs) else None for group in groups
    ]
    means = [None if group is None else last(group.runs, value(key)).mean for group in whole]
    there = [(round(sign * mean, 4), i) for i, mean in enumerate(means) if mean is not None]
    best = [i for mean, i in there if mean == max(there)[0]]
    return best if len(best) < len(there) else []


def run_table(board: Board) -> Table:
    """One line per run."""
    head = (
        "folder", "method", "lr", "seed", "status", "epochs", "train loss", "test accuracy",
        "seconds",
    )  # fmt: skip
    table = Table(head, [])
    for run in board.runs:
        config = run.config
        ends = (
            (NOTHING, NOTHING, NOTHING)
            if not run.history
            else (
                _fixed(run.last.train_loss, 4),
                _fixed(run.last.test_accuracy, 4),
                f"{run.last.seconds:.1f}",
            )
        )
        where = Path(os.path.relpath(run.folder, board.root)).as_posix()
        if run.status != "finished":
            table.bad.add((len(table.lines), head.index("status")))
        table.lines.append(
            (
                run.folder.name if where == "." else where,
                config.method,
                f"{config.lr:g}",
                str(config.seed),
                run.status,
                f"{_epoch(run)} of {config.epochs}",
                *ends,
            )
        )
    return table
