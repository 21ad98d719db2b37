"""The numbers: ends of runs, tuning, times. Cells are plain text, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cyclade.experiments.config import RunConfig
from cyclade.experiments.folder import RunResult
from cyclade.experiments.report import labels
from cyclade.experiments.report.board import Board, value
from cyclade.experiments.report.groups import Group, Spread, last
from cyclade.experiments.report.plan import Timing

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A head and lines of text; `best` and `bad` mark cells by line and column."""

    head: tuple[str, ...]
    lines: list[tuple[str, ...]]
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
    parts = [f"{len(group.runs)} of {len(group.runs)} finished"]
    finished = len(group.of_status("finished"))
    if finished < len(group.runs):
        parts = [f"{finished} of {len(group.runs)} finished"]
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


def ended(group: Group) -> list[RunResult]:
    """The runs whose ends are averaged: the finished ones, or else those under way."""
    return group.of_status("finished") or group.averaged


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
                *(str(getattr(config, key)) for key in extra),
                f"{config.lr:g}",
                f"{len(runs)}{under_way}",
                plus_minus(last(runs, value("train_loss"))),
                plus_minus(last(runs, value("test_accuracy"))),
                plus_minus(last(runs, value("seconds")), 1),
                str(len(group.of_status("diverged"))),
            )
        )
    return Table(head, lines)


def _extra_keys(groups: Sequence[Group]) -> list[str]:
    own = ("spectral", "lr", "device")
    return [key for key in labels.varying(groups) if key not in own]


def full_table(board: Board) -> Table:
    """One line per group, with what it used and how its runs ended."""
    titled = len(board.panels) > 1
    held = "held_out_accuracy" in board.y_keys
    head = (
        *(("panel",) if titled else ()), "method", "lr", "seeds", "train loss", "test accuracy",
        "train accuracy", *(("held out",) if held else ()), "samples (paper)", "samples",
        "multiply-adds", "seconds", "runs",
    )  # fmt: skip
    table = Table(head, [])
    for panel in board.panels:
        first = len(table.lines)
        for entry, group in panel.members:
            runs, status = ended(group), state(group)
            table.lines.append(
                (
                    *((panel.title,) if titled else ()),
                    board.entries[entry].label,
                    f"{group.config.lr:g}",
                    str(len(runs)),
                    plus_minus(last(runs, value("train_loss"))),
                    plus_minus(last(runs, value("test_accuracy"))),
                    plus_minus(last(runs, value("train_accuracy"))),
                    *((plus_minus(last(runs, value("held_out_accuracy"))),) if held else ()),
                    short(last(runs, value("samples_paper")).mean),
                    short(last(runs, value("samples")).mean),
                    short(last(runs, value("multiply_adds")).mean),
                    plus_minus(last(runs, value("seconds")), 1),
                    status,
                )
            )
            if group.of_status("diverged") or group.of_status("unfinished"):
                table.bad.add((len(table.lines) - 1, len(head) - 1))
        members = [group for _, group in panel.members]
        for key, sign in (("train_loss", -1), ("test_accuracy", 1), ("train_accuracy", 1)):
            chosen = _best(members, key, sign)
            if chosen is not None:
                table.best.add((first + chosen, head.index(key.replace("_", " "))))
    return table


def _best(groups: Sequence[Group], key: str, sign: int) -> int | None:
    """Which group has the best mean over finished runs; nobody wins alone."""
    means = [last(group.of_status("finished"), value(key)).mean for group in groups]
    there = [(sign * mean, -i) for i, mean in enumerate(means) if mean is not None]
    return -max(there)[1] if len(there) > 1 else None


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
        where = run.folder.relative_to(board.root).as_posix()
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


# ------------------------------------------------------------------------------------- tuning


def tuning_tables(board: Board) -> list[tuple[str, Table]]:
    """For each method, what every lr came to on the held-out images, and which was taken."""
    taken = {_untuned(group.config): group.config.lr for group in board.groups}
    families: dict[RunConfig, list[Group]] = {}
    for group in board.tuning:
        families.setdefault(_untuned(group.config), []).append(group)
    names = labels.names(board.tuning, board.split)
    apart = [key for key in labels.varying(board.tuning) if key in board.split]
    tables = []
    for family, groups in families.items():
        groups.sort(key=lambda group: group.config.lr)
        table = Table(("lr", "seeds", "held-out accuracy", "train loss", "runs", ""), [])
        means = [last(ended(group), value("held_out_accuracy")).mean for group in groups]
        top = max((mean for mean in means if mean is not None), default=None)
        for i, (group, mean) in enumerate(zip(groups, means, strict=True)):
            runs = ended(group)
            if mean is not None and mean == top:
                table.best.add((i, 2))
            if group.of_status("diverged") or group.of_status("unfinished"):
                table.bad.add((i, 4))
            table.lines.append(
                (
                    f"{group.config.lr:g}",
                    str(len(runs)),
                    plus_minus(last(runs, value("held_out_accuracy"))),
                    plus_minus(last(runs, value("train_loss"))),
                    state(group),
                    "taken" if taken.get(family) == group.config.lr else "",
                )
            )
        name = names[groups[0]].split(", lr ")[0]
        parts = [name, *(labels.said(key, getattr(family, key)) for key in apart)]
        tables.append((", ".join(parts), table))
    return tables


def _untuned(config: RunConfig) -> RunConfig:
    """The config without what tuning changes: lr, seed, length, and the images held out."""
    return replace(config, lr=1.0, seed=0, epochs=1, held_out=0.0, device="auto", threads=1)


# -------------------------------------------------------------------------------------- times


def timing_table(timing: Timing) -> Table:
    """Seconds of runs alone beside the paper's, and each as a multiple of SGD's epoch."""
    head = (
        "method", "spectral", "b", "s / iteration", "s / epoch", "× SGD", "iterations / epoch",
        "multiply-adds / epoch", "paper: s / iteration", "paper: s / epoch", "paper: × SGD",
    )  # fmt: skip
    table = Table(head, [])
    for row in timing.rows:
        base = _sgd(timing, row.get("batch"))
        paper, paper_sgd = timing.paper.get(row["method"]), timing.paper.get("SGD")
        seconds = float(row["seconds_per_epoch"])
        iterations = row.get("iterations_per_epoch")
        plain = row.get("spectral") in (None, "none", "")
        table.lines.append(
            (
                str(row["method"]),
                "none" if plain else str(row["spectral"]),
                str(row.get("batch") or NOTHING),
                f"{float(row['seconds_per_iteration']):.3g}",
                f"{seconds:.3g}",
                NOTHING if base is None else f"{seconds / base:.2f}",
                NOTHING if iterations is None else f"{float(iterations):,.0f}",
                short(row.get("multiply_adds_per_epoch")),
                *(
                    (f"{paper[0]:g}", f"{paper[1]:g}", f"{paper[1] / paper_sgd[1]:.2f}")
                    if paper and paper_sgd and plain
                    else (NOTHING,) * 3
                ),
            )
        )
    return table


def _sgd(timing: Timing, batch: object) -> float | None:
    for row in timing.rows:
        plain = row.get("spectral") in (None, "none", "")
        if row["method"] == "SGD" and plain and row.get("batch") == batch:
            return float(row["seconds_per_epoch"])
    return None
