"""What there is to show, before it is a page or a picture: panels, legend, axes, styles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from cyclade.experiments.archive import find_runs, of_search
from cyclade.experiments.errors import ExperimentError
from cyclade.experiments.folder import RunResult
from cyclade.experiments.report.files import (
    X_KEYS,
    Y_KEYS,
    Description,
    SearchOutcome,
    Timing,
    read_plan,
    read_searches,
    read_timing,
)
from cyclade.experiments.report.groups import (
    Group,
    Value,
    by_epoch,
    gather,
    names,
    panels,
    subtitle,
    varying,
    words_of,
)

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
class Style:
    """Of one entry of the legend: a colour on white, one on black, and the dashes in pixels."""

    light: str
    dark: str
    dash: tuple[int, ...] = ()


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
    plan: Description
    timing: Timing | None
    split: tuple[str, ...]
    entries: tuple[Entry, ...]
    panels: tuple[Panel, ...]
    searches: tuple[SearchOutcome, ...]
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
        if key != ALONE:
            return value(key)
        seconds = self._alone.get(group)
        return lambda row: None if seconds is None else seconds * row.epoch


def value(key: str) -> Value:
    """A column of the history."""
    read: Value = attrgetter(key)
    return read


def read(root: str | Path) -> Board:
    """Everything at or below a folder that has runs."""
    root = Path(root)
    plan = read_plan(root)
    final = _shown(root)
    shown = [] if final else [root.parent / name for name in plan.shows]
    for other in filter(Path.is_dir, shown):
        if not read_plan(other).times:
            final += _shown(other)
    found = map(read_timing, (root, *shown))
    timing = next((times for times in found if times is not None), None)
    only_timed = final if plan.times else []  # runs that were made to be timed have no curves
    final = [] if plan.times else final
    if not any(run.history for run in final) and not (plan.times and timing):
        none = "1 run, which has not begun" if final else "no runs"
        none = f"{len(final)} runs, none of which has begun" if len(final) > 1 else none
        raise ExperimentError(f"there is nothing to report: {root} holds {none}")
    groups = gather(final)
    split = plan.split_by
    if split is None:  # by data sets, and by spectral steps
        split = tuple(key for key in ("dataset", "spectral") if key in varying(groups))
    called = names(groups, split)
    methods = {called[group]: group.config.method for group in groups}
    entries = tuple(map(Entry, methods, styles(list(methods.values()))))
    number = {entry.label: i for i, entry in enumerate(entries)}
    drawn = tuple(
        Panel(
            ", ".join(map(words_of, split, values)),
            subtitle(members, split),
            tuple((number[called[group]], group) for group in members),
        )
        for values, members in panels(groups, split).items()
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
        panels=drawn,
        searches=tuple(read_searches(root)),
        x_keys=(*X_KEYS, ALONE) if known else X_KEYS,
        y_keys=tuple(key for key in Y_KEYS if held or key != "held_out_accuracy"),
        x=ALONE if plan.x == "seconds" and known else plan.x,
        columns=tuple(key for key in plan.y if held or key != "held_out_accuracy") or Description.y,
        copies=len(final) - sum(len(group.runs) for group in groups),
        timed_runs=tuple(only_timed),
        _alone=known,
    )


def _shown(root: Path) -> list[RunResult]:
    """The runs of a folder but for those that served to tune; where there are only these, they."""
    runs = find_runs(root)
    return [run for run in runs if not of_search(run.folder.relative_to(root))] or runs


# ------------------------------------------------------------------ how far an axis may reach

_TAIL, _ROOM = 0.1, 0.75
"""The share of values at either end that may lie outside, and the room beyond the others in units
of their range."""

Limits = tuple[float, float]


def limits(board: Board, panel: Panel, y: str) -> Limits | None:
    """Between which values a panel's axis lies at most; None if there is nothing to draw.

    They hold nine tenths of all means and ranges on either side, with room, and every curve's
    start. What lies beyond is marked at the edge. Panels on one scale have the same limits. Where
    all runs diverged, they hold the part that can be drawn to scale.
    """
    values, starts, lost = [], [], []
    for drawn in board.panels if board.same_scale else (panel,):
        for _, group in drawn.members:
            spreads = list(by_epoch(group.averaged, value(y)).values())
            for one in spreads:
                values += [v for v in (one.low, one.mean, one.high) if v is not None]
            starts += [v for one in spreads[:1] for v in (one.low, one.high) if v is not None]
            for run in group.of_status("diverged"):
                seen = [one.mean or 0.0 for one in by_epoch([run], value(y)).values()]
                lost += [v for v in seen if abs(v) <= 3 * abs(seen[0]) + 1]
    if values:
        return bounds(values, starts)
    return (min(lost), max(lost)) if lost and min(lost) < max(lost) else None


def bounds(values: Iterable[float], starts: Iterable[float] = ()) -> Limits | None:
    """The limits for some values; None if most are one and the same, and nothing is far from it.

    Example
    -------
    >>> bounds([*range(100), 10_000])
    (-50.0, 150.0)
    """
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = (ordered[round(share * last)] for share in (_TAIL, 1 - _TAIL))
    if low == high:
        return None
    room = _ROOM * (high - low)
    return min([low - room, *starts]), max([high + room, *starts])


# ------------------------------------------------------------------------ colours and dashes

# Found by a search for colours that stay apart with normal, deutan, protan and tritan eyes (by 20
# or more in CIELAB), each with a contrast of 3 or more: on white, and on the dark page.
_COLOURS = (
    ("#044481", "#485DF5"),  # blue
    ("#AD361E", "#D2511F"),  # red
    ("#03A75E", "#20B47A"),  # green
    ("#8883FF", "#A275D3"),  # violet
    ("#C08105", "#FCA72E"),  # ochre
    ("#290004", "#FFF6BE"),  # nearly black, nearly white
    ("#764E65", "#BDFBFB"),  # mauve, cyan
)
_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (8, 3, 2, 3))

# The cyclic methods are drawn in whole lines, those with one block in dashes.
_METHODS = {
    "SGD": Style(*_COLOURS[1], (7, 3)),
    "SCCD": Style(*_COLOURS[0]),
    "PAGE": Style(*_COLOURS[3], (7, 3)),
    "VRO-CCD": Style(*_COLOURS[2]),
    "VR-CCD": Style(*_COLOURS[4], (8, 3, 2, 3)),
}


def styles(methods: Sequence[str]) -> list[Style]:
    """A style for each entry of a legend, given the method of each.

    The first entry of a method has the method's own style in every report; further ones take what
    is free, colours first.

    >>> [style.light for style in styles(["SCCD", "SCCD"])]
    ['#044481', '#AD361E']
    """
    used = {_METHODS[method] for method in methods}
    colours_in_use = {style.light for style in used}
    free = [Style(*c, d) for d in _DASHES for c in _COLOURS]
    free = [style for style in free if style not in used]
    free.sort(key=lambda style: (style.light in colours_in_use, len(style.dash) > 0))
    spare = iter(free)
    return [
        _METHODS[method] if method not in methods[:i] else next(spare, _METHODS["SGD"])
        for i, method in enumerate(methods)
    ]
