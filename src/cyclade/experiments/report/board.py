"""What there is to show, before it is a page or a picture: panels, legend, axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path

from cyclade.experiments.archive import find_runs, of_search
from cyclade.experiments.errors import ExperimentError
from cyclade.experiments.folder import Row, RunResult
from cyclade.experiments.report import labels
from cyclade.experiments.report.groups import Group, Value, gather
from cyclade.experiments.report.plan import (
    X_KEYS,
    Y_KEYS,
    Plan,
    Search,
    Timing,
    read_plan,
    read_searches,
    read_timing,
)
from cyclade.experiments.report.style import Style, styles

ALONE = "seconds_alone"
X_LABELS = {
    "epoch": "epoch",
    "samples_paper": "samples, a small step counted as b′ (the paper)",
    "samples": "samples, a small step counted as 2b′",
    "multiply_adds": "multiply-adds",
    "seconds": "seconds of training, as recorded",
    ALONE: "seconds of training, of a run alone",
}
Y_LABELS = {
    "train_loss": "train loss",
    "test_accuracy": "test accuracy",
    "train_accuracy": "train accuracy",
    "held_out_accuracy": "held-out accuracy",
}


@dataclass(frozen=True)
class Entry:
    """One entry of the legend, for all panels."""

    label: str
    style: Style


@dataclass(frozen=True)
class Panel:
    """Groups that are drawn into one picture, each with its number in the legend."""

    title: str
    subtitle: str
    members: tuple[tuple[int, Group], ...]


@dataclass(frozen=True)
class Board:
    """All that a report shows."""

    root: Path
    plan: Plan
    timing: Timing | None
    split: tuple[str, ...]
    entries: tuple[Entry, ...]
    panels: tuple[Panel, ...]
    tuning: tuple[Group, ...]
    searches: tuple[Search, ...]
    x_keys: tuple[str, ...]
    y_keys: tuple[str, ...]
    x: str
    columns: tuple[str, ...]
    copies: int = 0
    timed_runs: tuple[RunResult, ...] = ()
    _alone: Mapping[Group, float] = field(default_factory=dict)

    @property
    def packed(self) -> bool:
        """Whether these are results to keep: no run folder is there."""
        return not any(run.folder.exists() for run in (*self.runs, *self.timed_runs))

    @property
    def groups(self) -> list[Group]:
        """All groups, panel by panel."""
        return [group for panel in self.panels for _, group in panel.members]

    @property
    def runs(self) -> list[RunResult]:
        """All runs that are drawn."""
        return [run for group in self.groups for run in group.runs]

    @property
    def same_scale(self) -> bool:
        """Whether all panels are of one data set, and so can be read on the same scale."""
        return len({group.config.dataset for group in self.groups}) == 1

    def place(self, group: Group, key: str) -> Value:
        """Where a row of this group stands on the axis `key`."""
        if key == ALONE:
            return partial(_seconds_alone, self._alone.get(group))
        return value(key)


def value(key: str) -> Value:
    """A column of the history."""
    read: Value = attrgetter(key)
    return read


def _seconds_alone(per_epoch: float | None, row: Row) -> float | None:
    return None if per_epoch is None else per_epoch * row.epoch


def read(root: str | Path) -> Board:
    """Everything at or below a folder that has runs."""
    root = Path(root)
    plan = read_plan(root)
    final, tuning = _sorted_out(find_runs(root), root)
    shown = [] if final else [root.parent / name for name in plan.shows]
    for other in filter(Path.is_dir, shown):
        final += _sorted_out(find_runs(other), other)[0]
    found = map(read_timing, (root, *shown))
    timing = next((times for times in found if times is not None), None)
    only_timed = final if plan.times else []  # runs that were made to be timed have no curves
    final = [] if plan.times else final
    if not any(run.history for run in final) and not (plan.times and timing):
        raise ExperimentError(f"there is nothing to report: {root} holds {_none_begun(final)}")
    groups = gather(final)
    split = labels.split_keys(groups) if plan.split_by is None else plan.split_by
    names = labels.names(groups, split)
    methods = {names[group]: group.config.method for group in groups}
    entries = tuple(map(Entry, methods, styles(list(methods.values()))))
    number = {entry.label: i for i, entry in enumerate(entries)}
    panels = tuple(
        Panel(
            labels.title(split, values),
            labels.subtitle(members, split),
            tuple((number[names[group]], group) for group in members),
        )
        for values, members in labels.panels(groups, split).items()
    )
    alone = {g: timing.seconds_per_epoch(g.config) for g in groups} if timing else {}
    known = {group: seconds for group, seconds in alone.items() if seconds is not None}
    rows = [run.history[-1] for run in final if run.history]
    held = any(row.held_out_accuracy is not None for row in rows)
    return Board(
        root=root,
        plan=plan,
        timing=timing,
        split=split,
        entries=entries,
        panels=panels,
        tuning=tuple(gather(tuning)),
        searches=tuple(read_searches(root)),
        x_keys=(*X_KEYS, ALONE) if known else X_KEYS,
        y_keys=tuple(key for key in Y_KEYS if held or key != "held_out_accuracy"),
        x=ALONE if plan.x == "seconds" and known else plan.x,
        columns=tuple(key for key in plan.y if held or key != "held_out_accuracy") or Plan.y,
        copies=len(final) - sum(len(group.runs) for group in groups),
        timed_runs=tuple(only_timed),
        _alone=known,
    )


def _none_begun(runs: list[RunResult]) -> str:
    if len(runs) == 1:
        return "1 run, which has not begun"
    return f"{len(runs)} runs, none of which has begun" if runs else "no runs"


def _sorted_out(runs: list[RunResult], root: Path) -> tuple[list[RunResult], list[RunResult]]:
    """The runs to show, and those that served to tune; where there are only these, they show."""
    final: list[RunResult] = []
    tuning: list[RunResult] = []
    for run in runs:
        (tuning if of_search(run, root) else final).append(run)
    return (final, tuning) if final else (tuning, [])
