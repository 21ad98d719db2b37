"""What the files of an experiment say: its plan, the times of runs alone, what tuning came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from cyclade.experiments.archive import TUNE
from cyclade.experiments.config import TIMED_BY, RunConfig
from cyclade.experiments.errors import ExperimentError
from cyclade.experiments.plans.plan import Check, Claim
from cyclade.files.disk import as_json, read_text

T = TypeVar("T")

X_KEYS = ("epoch", "samples_paper", "samples", "multiply_adds", "seconds")
Y_KEYS = ("train_loss", "test_accuracy", "train_accuracy", "held_out_accuracy")
BY = ("test_accuracy", "train_loss", "lr", "seconds_per_iteration", "seconds_per_epoch")


@dataclass(frozen=True)
class Description:
    """What ``plan.json`` says: title, question, claims and layout; all may be missing.

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
        values = {key: plain_value(value) for key, value in asdict(config).items()}
        for row in self.rows:
            if all(values[key] == plain_value(row[key]) for key in TIMED_BY if key in row):
                return float(row["seconds_per_epoch"])
        return None


@dataclass(frozen=True)
class SearchOutcome:
    """What ``tuned.json`` says of one config: the lr taken, those tried, and whether at an edge."""

    config: RunConfig
    at_edge: bool
    tried: tuple[Mapping[str, Any], ...]


def read_plan(root: Path) -> Description:
    """The plan in a folder; an empty one if there is none."""
    return _read(root / "plan.json", _description, "is not a plan") or Description()


def read_timing(root: Path) -> Timing | None:
    """The times of runs alone, if they were taken."""
    return _read(root / "timing.json", _timing, "holds no times")


def read_searches(root: Path) -> list[SearchOutcome]:
    """What tuning came to, if there was any."""
    return _read(root / TUNE / "tuned.json", _searches, "cannot be read") or []


def plain_value(value: Any) -> Any:
    """A value as a config has it: no word for None, tuples for lists."""
    if isinstance(value, list):
        return tuple(value)
    return None if value in ("none", "") else value


def _read(path: Path, made: Callable[[dict[str, Any]], T], otherwise: str) -> T | None:
    """What is made of a file of JSON; None if it is not there."""
    try:
        found = as_json(read_text(path))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ExperimentError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ExperimentError(f"{path} must hold an object, got {type(found).__name__}")
    try:
        return made(found)
    except ExperimentError as error:
        raise ExperimentError(f"{path}: {error}") from error
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        raise ExperimentError(f"{path} {otherwise}: {error!r}") from error


def _description(found: dict[str, Any]) -> Description:
    panels, content = found.get("panels") or {}, found.get("content") or {}
    split, x, y = panels.get("split_by"), panels.get("x", "epoch"), panels.get("y", Description.y)
    if isinstance(y, str) or not y:
        raise ExperimentError(f"panels.y must be a list of {', '.join(Y_KEYS)}, got {y!r}")
    plan = Description(
        **{key: str(found.get(key) or "") for key in ("name", "title", "question", "command")},
        quick=bool(found.get("quick", False)),
        split_by=() if split is None else (split,) if isinstance(split, str) else tuple(split),
        x=x,
        y=tuple(y),
        paper=tuple(map(_claim, found.get("paper") or ())),
        notes=tuple(map(str, found.get("notes") or ())),
        times=bool(content.get("timed")) and not (content.get("curves") or content.get("shows")),
        shows=tuple(content.get("shows") or ()),
    )
    known = [key.name for key in fields(RunConfig)]
    checks = [check for claim in plan.paper for check in claim.checks]
    for what, values, accepted in (
        ("panels.split_by", plan.split_by or (), known),
        ("panels.x", (x,), X_KEYS),
        ("panels.y", y, Y_KEYS),
        ("by", [check.by for check in checks], BY),
        ("at", [check.at for check in checks], ("end", "seconds")),
        ("mine and other", [key for c in checks for key in (*c.mine, *c.other)], known),
    ):
        for value in values:
            if value not in accepted:
                raise ExperimentError(f"{what} must be of {', '.join(accepted)}, got {value!r}")
    return plan


def _claim(found: Mapping[str, Any]) -> Claim:
    checks = []
    for check in found.get("checks") or ():
        mine, other = (
            {key: plain_value(v) for key, v in check[side].items()} for side in ("mine", "other")
        )
        checks.append(Check(**{**check, "mine": mine, "other": other}))
    value = found.get("value")
    return Claim(str(found["claim"]), None if value is None else str(value), tuple(checks))


def _timing(found: dict[str, Any]) -> Timing:
    rows = tuple({**row, "spectral": plain_value(row.get("spectral"))} for row in found["rows"])
    for row in rows:
        row["method"], float(row["seconds_per_epoch"]), float(row["seconds_per_iteration"])
    paper = (found.get("paper") or {}).items()
    pairs = {str(method): (float(pair[0]), float(pair[1])) for method, pair in paper}
    return Timing(rows, str(found.get("device") or ""), pairs)


def _searches(found: dict[str, Any]) -> list[SearchOutcome]:
    outcomes = []
    for row in found["tuned"]:
        tried = tuple({**one, "lr": float(one["lr"])} for one in row["tried"])
        config = RunConfig.from_dict(row["config"])
        outcomes.append(SearchOutcome(config, bool(row.get("at_edge")), tried))
    return outcomes
