"""Seconds of a run alone: short runs one after the other, medians over their epochs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cyclade.experiments.config import TIMED_BY, RunConfig
from cyclade.experiments.device import about, resolve
from cyclade.experiments.errors import ExperimentError, FolderError
from cyclade.experiments.folder import RunResult
from cyclade.experiments.running import run
from cyclade.files.disk import read_json, write_json

TIMING = "timing.json"
PAPER = {
    "SGD": (0.172, 16.9), "SCCD": (0.185, 18.1), "PAGE": (0.017, 20.7), "VRO-CCD": (0.041, 49.5),
}  # fmt: skip
"""Table 1 of the paper: seconds per iteration and per epoch."""


def time_alone(
    configs: Sequence[RunConfig],
    root: str | Path,
    *,
    keep: str | Path | None = None,
    data_dir: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Time each config with nothing beside it, into ``root/timing.json``; returns its rows.

    The first epoch warms up and does not count. An iteration is one cycle, as in the paper. Times
    that are in the file already are kept, so the same call resumes; those of another device are an
    error. With `keep` the runs stay in this folder, otherwise they leave nothing.
    """
    root = Path(root)
    devices = {_name(resolve(config.device)) for config in configs}
    if len(devices) != 1:
        raise ExperimentError(f"runs must be timed on one device, got {', '.join(sorted(devices))}")
    device = devices.pop()
    rows = _read(root / TIMING, device, [_key(config) for config in configs])
    for config in configs:
        if config.epochs < 2:
            raise ExperimentError("timing needs 2 epochs: the first one warms up")
        key = _key(config)
        if any(all(row.get(k) == v for k, v in key.items()) for row in rows):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(keep or scratch) / config.slug()
            rows.append({**key, **_measured(run(config, folder, data_dir=data_dir))})
        write_json(root / TIMING, {"rows": rows, "device": device, "paper": PAPER})
    return rows


def _measured(result: RunResult) -> dict[str, Any]:
    """Medians over the epochs after the first."""
    rows = result.history[1:]
    if result.status != "finished" or len(rows) < 2:
        raise ExperimentError(f"{result.folder} {result.status}: there is nothing to time")
    first, last, count = rows[0], rows[-1], len(rows) - 1
    seconds = median(b.seconds - a.seconds for a, b in pairwise(rows))
    iterations = (last.cycles - first.cycles) / count
    if iterations == 0:
        raise ExperimentError(f"{result.folder} ends before a whole cycle: time more epochs")
    multiply_adds = (last.multiply_adds - first.multiply_adds) / count
    return {
        "seconds_per_iteration": seconds / iterations,
        "seconds_per_epoch": seconds,
        "iterations_per_epoch": iterations,
        "multiply_adds_per_iteration": multiply_adds / iterations,
        "multiply_adds_per_epoch": multiply_adds,
        "samples_paper_per_epoch": (last.samples_paper - first.samples_paper) / count,
        "samples_per_epoch": (last.samples - first.samples) / count,
    }


def _key(config: RunConfig) -> dict[str, Any]:
    values = {key: getattr(config, key) for key in TIMED_BY}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def _name(device: torch.device) -> str:
    hardware = about(device, 0)["hardware"]
    return str(hardware.get("gpu") or f"CPU: {hardware['processor']}")


def _read(path: Path, device: str, keys: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The times so far; they must be of this device, and of the runs to be timed."""
    try:
        found = read_json(path)
        rows, there = list(found["rows"]), found["device"]
        strangers = [row for row in rows if {key: row[key] for key in TIMED_BY} not in keys]
    except FileNotFoundError:
        return []
    except (FolderError, ValueError, KeyError, TypeError) as error:
        said = error if isinstance(error, FolderError) else f"{path} cannot be read ({error!r})"
        raise FolderError(f"{said}: delete it, and the times are taken again") from error
    if there != device:
        raise FolderError(f"{path} has times of {there}, and this is {device}: delete it")
    if strangers:
        raise FolderError(
            f"{path} has times of other runs ({strangers[0]['method']}, b = "
            f"{strangers[0]['batch']}): delete it"
        )
    return rows
