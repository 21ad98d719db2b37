"""What an experiment says of itself: its plan, the times of runs alone, what tuning came to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cyclade.experiments.archive import TUNE
from cyclade.experiments.claims import Check, Claim
from cyclade.experiments.config import RunConfig
from cyclade.experiments.errors import ExperimentError

X_KEYS = ("epoch", "samples_paper", "samples", "multiply_adds", "seconds")
TIMED_BY = ("dataset", "method", "spectral", "precondition", "order", "blocks", "batch")
BY = ("test_accuracy", "train_loss", "lr", "seconds_per_iteration", "seconds_per_epoch")
Y_KEYS = ("train_loss", "test_accuracy", "train_accuracy", "held_out_accuracy")


@dataclass(frozen=True)
class Plan:
    """Title, question, claims and layout; all may be missing.

    `times`: it is about time alone; `shows`: the experiments whose runs it shows.
    """

    name: str = ""
    title: str = ""
    question: str = ""
    command: str = ""
    quick: bool = False
    split_by: tuple[str, ...] | None = None
    x: str = "epoch"
    y: tuple[str, ...] = ("train_loss", "test_accuracy")
    paper: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    times: bool = False
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Seconds and multiply-adds of runs alone on a device, and the paper's seconds."""

    rows: tuple[Mapping[str, Any], ...]
    device: str = ""
    paper: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def seconds_per_epoch(self, config: RunConfig) -> float | None:
        """Of a run alone of this config, or None if it was not timed."""
        values = {
            **asdict(config),
            "order": plain_value(config.order),
            "blocks": plain_value(config.blocks),
        }
        for row in self.rows:
            named = {key: plain_value(row[key]) for key in TIMED_BY if key in row}
            if all(values[key] == named[key] for key in named):
                return float(row["seconds_per_epoch"])
        return None


@dataclass(frozen=True)
class Search:
    """What ``tuned.json`` says of one config: the lr taken, those tried, and whether at an edge."""

    config: RunConfig
    at_edge: bool
    tried: tuple[Mapping[str, Any], ...]


def read_plan(root: Path) -> Plan:
    """The plan in a folder; an empty one if there is none."""
    path = root / "plan.json"
    found = _read(path)
    if found is None:
        return Plan()
    try:
        panels = found.get("panels") or {}
        split = panels.get("split_by")
        x, y = panels.get("x", "epoch"), panels.get("y", Plan.y)
        if isinstance(y, str):
            raise ExperimentError(f"{path}: panels.y must be a list, got {y!r}")
        plan = Plan(
            name=str(found.get("name") or ""),
            title=str(found.get("title") or ""),
            question=str(found.get("question") or ""),
            command=str(found.get("command") or ""),
            quick=bool(found.get("quick", False)),
            split_by=() if split is None else (split,) if isinstance(split, str) else tuple(split),
            x=x,
            y=tuple(y),
            paper=tuple(_claim(c) for c in found.get("paper") or ()),
            notes=tuple(str(note) for note in found.get("notes") or ()),
            times=_times_only(found.get("content") or {}),
            shows=tuple((found.get("content") or {}).get("shows") or ()),
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ExperimentError(f"{path} is not a plan: {error!r}") from error
    known = [key.name for key in fields(RunConfig)]
    for what, values, accepted in (
        ("panels.split_by", plan.split_by or (), known),
        ("panels.x", (plan.x,), X_KEYS),
        ("panels.y", plan.y, Y_KEYS),
        ("by", [check.by for claim in plan.paper for check in claim.checks], BY),
        ("at", [check.at for claim in plan.paper for check in claim.checks], ("end", "seconds")),
        (
            "mine and other",
            [k for claim in plan.paper for c in claim.checks for k in (*c.mine, *c.other)],
            known,
        ),
    ):
        for value in values:
            if value not in accepted:
                raise ExperimentError(
                    f"{path}: {what} must be of {', '.join(accepted)}, got {value!r}"
                )
    if not plan.y:
        raise ExperimentError(f"{path}: panels.y must name at least one of {', '.join(Y_KEYS)}")
    return plan


def read_timing(root: Path) -> Timing | None:
    """The times of runs alone, if they were taken."""
    path = root / "timing.json"
    found = _read(path)
    if found is None:
        return None
    try:
        rows = tuple({**row, "spectral": plain_value(row.get("spectral"))} for row in found["rows"])
        for row in rows:
            row["method"], float(row["seconds_per_epoch"]), float(row["seconds_per_iteration"])
        paper = {
            str(method): (float(pair[0]), float(pair[1]))
            for method, pair in (found.get("paper") or {}).items()
        }
        return Timing(rows, str(found.get("device") or ""), paper)
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        raise ExperimentError(f"{path} holds no times: {error!r}") from error


def read_searches(root: Path) -> list[Search]:
    """What tuning came to, if there was any."""
    path = root / TUNE / "tuned.json"
    found = _read(path)
    if found is None:
        return []
    try:
        return [
            Search(
                RunConfig.from_dict(row["config"]),
                bool(row.get("at_edge")),
                tuple({**one, "lr": float(one["lr"])} for one in row["tried"]),
            )
            for row in found["tuned"]
        ]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ExperimentError(f"{path} cannot be read: {error!r}") from error


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ExperimentError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ExperimentError(f"{path} must hold an object, got {type(found).__name__}")
    return found


def _times_only(content: Mapping[str, Any]) -> bool:
    return bool(content.get("timed")) and not content.get("curves") and not content.get("shows")


def _claim(found: Mapping[str, Any]) -> Claim:
    checks = tuple(
        Check(
            **{
                **check,
                "mine": {key: plain_value(v) for key, v in check["mine"].items()},
                "other": {key: plain_value(v) for key, v in check["other"].items()},
            }
        )
        for check in found.get("checks") or ()
    )
    value = found.get("value")
    return Claim(str(found["claim"]), None if value is None else str(value), checks)


def plain_value(value: Any) -> Any:
    """A value as a config has it: no word for None, tuples for lists."""
    if isinstance(value, list):
        return tuple(value)
    return None if value in ("none", "") else value
