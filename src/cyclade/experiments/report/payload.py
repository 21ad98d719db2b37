"""What the page's script draws from: the curves of a board as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from cyclade.experiments.folder import RunResult
from cyclade.experiments.report.board import X_LABELS, Y_LABELS, Board, limits, overview, value
from cyclade.experiments.report.groups import Group, Value, curve, ended, last

_LOSSES = ("train_loss",)


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
                    key: _numbers(limits(board, panel, key) or ()) or None for key in board.y_keys
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
        "runs": [_single(run, xs, ys) for run in group.runs if run.history],
    }


def _overview(board: Board) -> dict[str, Any] | None:
    """The ends against the number that panels are split by, as one more panel."""
    found = overview(board)
    if found is None:
        return None
    series = []
    for number, ends in found.ends.items():
        ys = {
            key: {
                name: [_number(getattr(last(ended(group), value(key)), name)) for _, group in ends]
                for name in ("mean", "sd", "low", "high", "n")
            }
            for key in board.y_keys
        }
        mean = {
            "epochs": [at for at, _ in ends],
            "x": {found.key: [_number(found.place(at)) for at, _ in ends]},
            "y": ys,
        }
        seeds = max(len(ended(group)) for _, group in ends)
        series.append({"entry": number, "seeds": seeds, "mean": mean, "runs": []})
    return {
        "title": found.title,
        "subtitle": found.subtitle,
        "limits": dict.fromkeys(board.y_keys),
        "axis": {
            "key": found.key,
            "label": found.label,
            "ticks": [[_number(found.place(at)), f"{at:,g}"] for at in found.values],
        },
        "series": series,
    }


def _mean(runs: list[RunResult], xs: dict[str, Value], ys: dict[str, Value]) -> dict[str, Any]:
    """By epoch; every value is a list over the epochs, with null where there is none."""
    epochs = sorted({row.epoch for run in runs for row in run.history})
    place = {epoch: i for i, epoch in enumerate(epochs)}
    found: dict[str, Any] = {"epochs": epochs, "x": {}, "y": {}}
    for key, x in xs.items():
        found["x"][key] = _filled(
            len(epochs), {place[p.epoch]: p.x for p in curve(runs, x, _always)}
        )
    for key, y in ys.items():
        points = {place[p.epoch]: p.y for p in curve(runs, _always, y)}
        found["y"][key] = {
            name: _filled(len(epochs), {i: getattr(s, name) for i, s in points.items()})
            for name in ("mean", "sd", "low", "high", "n")
        }
    return found


def _single(run: RunResult, xs: dict[str, Value], ys: dict[str, Value]) -> dict[str, Any]:
    return {
        "seed": run.config.seed,
        "status": run.status,
        "x": {key: [_number(x(row)) for row in run.history] for key, x in xs.items()},
        "y": {key: [_number(y(row)) for row in run.history] for key, y in ys.items()},
    }


def _always(_: object) -> float:
    return 0.0


def _filled(length: int, values: dict[int, float | None]) -> list[float | None]:
    return [_number(values.get(i)) for i in range(length)]


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_number(value) for value in values]


def _number(number: float | None) -> float | None:
    """To six digits; JSON has no word for what is not finite."""
    if number is None or not math.isfinite(number):
        return None
    return float(f"{number:.6g}")


def embedded(found: Any) -> str:
    r"""JSON that may stand inside a script element, whatever its texts say.

    >>> print(embedded({"a": "</script>"}))
    {"a":"\u003c/script\u003e"}
    """
    text = json.dumps(found, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
