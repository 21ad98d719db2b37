"""What the page's script draws from: the curves of a board as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cyclade.experiments.folder import RunResult
from cyclade.experiments.report.board import X_LABELS, Y_LABELS, Board, limits, value
from cyclade.experiments.report.groups import Group, Spread, Value, by_epoch, last

_LOSSES = ("train_loss",)
_NUMBER_LABELS = {"batch": "b, images in a batch"}
_ENOUGH = 3


def payload(board: Board) -> dict[str, Any]:
    """Axes, and for every panel the means, spreads and single runs of its groups."""
    return {
        "x": [{"key": key, "label": X_LABELS[key]} for key in board.x_keys],
        "y": [{"key": key, "label": Y_LABELS[key], "log": key in _LOSSES} for key in board.y_keys],
        "startX": board.x,
        "sameScale": board.same_scale,
        "columns": list(board.columns),
        "entries": [
            {"label": entry.label, "dash": " ".join(map(str, entry.style.dash))}
            for entry in board.entries
        ],
        "panels": [
            {
                "title": panel.title,
                "subtitle": panel.subtitle,
                "limits": {
                    key: [*map(_number, limits(board, panel, key) or ())] or None
                    for key in board.y_keys
                },
                "series": [_series(board, number, group) for number, group in panel.members],
            }
            for panel in board.panels
        ],
        "overview": _overview(board),
    }


def _series(board: Board, number: int, group: Group) -> dict[str, Any]:
    ys = {key: value(key) for key in board.y_keys}
    xs = {key: board.place(group, key) for key in board.x_keys}
    return {
        "entry": number,
        "seeds": len(group.averaged),
        "mean": _mean(group.averaged, xs, ys),
        "runs": [
            {
                "seed": run.config.seed,
                "status": run.status,
                "x": {key: [_number(x(row)) for row in run.history] for key, x in xs.items()},
                "y": {key: [_number(y(row)) for row in run.history] for key, y in ys.items()},
            }
            for run in group.runs
            if run.history
        ],
    }


def _overview(board: Board) -> dict[str, Any] | None:
    """The ends of runs by the number that panels are split by, as one more panel.

    None if panels are few, or are not split by some positive numbers alone.
    """
    if len(board.split) != 1 or len(board.panels) < _ENOUGH:
        return None
    (key,) = board.split
    ends: dict[int, list[tuple[float, Group]]] = {}
    for number, group in (member for panel in board.panels for member in panel.members):
        at = getattr(group.config, key)
        if isinstance(at, bool) or not isinstance(at, int | float) or at <= 0:
            return None
        if group.ended:
            ends.setdefault(number, []).append((at, group))
    series = []
    for number, some in ends.items():
        runs = [group.ended for _, group in some]
        mean = {
            "epochs": [at for at, _ in some],
            "x": {key: [_number(math.log2(at)) for at, _ in some]},  # batches grow by factors
            "y": {y: _columns([last(one, value(y)) for one in runs]) for y in board.y_keys},
        }
        series.append({"entry": number, "seeds": max(map(len, runs)), "mean": mean, "runs": []})
    values = sorted({at for some in ends.values() for at, _ in some})
    return {
        "title": f"Where the runs ended, by {key}",
        "subtitle": board.panels[0].subtitle,
        "limits": dict.fromkeys(board.y_keys),
        "axis": {
            "key": key,
            "label": _NUMBER_LABELS.get(key, key),
            "ticks": [[_number(math.log2(at)), f"{at:,g}"] for at in values],
        },
        "series": series,
    }


def _mean(runs: list[RunResult], xs: dict[str, Value], ys: dict[str, Value]) -> dict[str, Any]:
    """By epoch; every value is a list over the epochs, with null where there is none."""
    epochs = sorted({row.epoch for run in runs for row in run.history})

    def columns(key: Value) -> dict[str, list[float | None]]:
        found = by_epoch(runs, key)
        return _columns([found.get(epoch, Spread(0)) for epoch in epochs])

    return {
        "epochs": epochs,
        "x": {key: columns(x)["mean"] for key, x in xs.items()},
        "y": {key: columns(y) for key, y in ys.items()},
    }


def _columns(spreads: Sequence[Spread]) -> dict[str, list[float | None]]:
    """Spreads as a list for each of their fields; all null where there is no value."""
    names = ("mean", "sd", "low", "high", "n")
    return {
        name: [_number(getattr(one, name) if one.n else None) for one in spreads] for name in names
    }


def _number(number: float | None) -> float | None:
    """To six digits; JSON has no word for what is not finite."""
    if number is None or not math.isfinite(number):
        return None
    return float(f"{number:.6g}")
