"""One run, from its config to its folder; interrupted, it resumes to a bit-identical end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from cyclade.experiments.about import about, resolve
from cyclade.experiments.config import RunConfig
from cyclade.experiments.data import Dataset, load
from cyclade.experiments.errors import ConfigError, FolderError
from cyclade.experiments.folder import DONE, HISTORY, Row, RunFolder, RunResult, row_of
from cyclade.experiments.repeatable import before_cuda_starts, repeatable
from cyclade.experiments.training import Training
from cyclade.optim.capture.graphs import alone

_log = logging.getLogger("cyclade.experiments")

Watch = Callable[[Row], None]
"""Called after every epoch (and at the start, and with the last epoch when a run is resumed)."""


def run(
    config: RunConfig,
    folder: str | Path,
    *,
    data_dir: str | Path | None = None,
    watch: Watch | None = None,
    side_by_side: int = 1,
) -> RunResult:
    """Train as `config` says and keep everything in `folder`.

    If the folder holds a part of this very run, training goes on after its last whole epoch, and
    ends bit for bit as if it had never stopped (on the same hardware; seconds excepted). If the run
    is done, its result is read, and files that do not fit each other are made again from the last
    good checkpoint, with a warning that names them (logger ``cyclade.experiments``). A folder of
    another config, or one that another process works in, is an error, and nothing is touched. A
    loss that is not finite ends the run with the status "diverged". `side_by_side`, the number of
    runs that share the machine, is noted in ``about.json``: it bears on the seconds.
    """
    before_cuda_starts()
    place = RunFolder(folder)
    device = resolve(config.device)
    place.check(config)
    if not place.problems():
        return place.result()
    with repeatable(config.threads, config.tf32), on(device):
        with alone:  # initial weights come from torch's one generator
            training = Training(config, prepared(config, data_dir), device)
        with place.locked():
            return _trained(training, place, watch, side_by_side)


def _trained(
    training: Training, place: RunFolder, watch: Watch | None, side_by_side: int
) -> RunResult:
    """The run from where its folder stands to its end."""
    config = training.config
    place.claim(config)
    problems = place.problems()
    if not problems:  # another process has just ended it
        return place.result()
    place.sweep()
    if (place.path / DONE).exists():
        for problem in problems:
            _log.warning("%s: made again from the last good checkpoint", problem)
        (place.path / DONE).unlink()
    rows = _take_up(training, place)
    place.add_start({**about(training.device, training.epoch), "side_by_side": side_by_side})
    place.write_history(rows)
    if watch is not None:
        watch(rows[-1])
    while training.epoch < config.epochs and not training.diverged:
        rows.append(training.train_epoch())
        place.save({**training.state(), "history": [asdict(row) for row in rows]})
        place.write_history(rows)
        if watch is not None:
            watch(rows[-1])
    status = "diverged" if training.diverged else "finished"
    place.finish(status, training.epoch)
    return RunResult(config, place.path, status, rows)


def on(device: torch.device) -> AbstractContextManager[Any]:
    """With this device as the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def prepared(config: RunConfig, data_dir: str | Path | None) -> Dataset:
    """The data of a run on its device, read once for many runs."""
    folder = None if data_dir is None else Path(data_dir)
    return _prepared(config.dataset, folder, resolve(config.device), config.held_out)


@lru_cache(maxsize=4)
def _prepared(name: str, folder: Path | None, device: torch.device, held_out: float) -> Dataset:
    if held_out == 0:
        return load(name, folder, device)
    try:
        return _prepared(name, folder, device, 0.0).held_out(held_out)
    except ValueError as error:
        raise ConfigError(f"held_out = {held_out}: {error}") from error


def _take_up(training: Training, place: RunFolder) -> list[Row]:
    """The history in the last good checkpoint, with the training standing at its end."""
    refused = ""
    for name, state in place.checkpoints(training.device):
        device = state.get("device")
        if device in ("cpu", "cuda") and device != training.device.type:
            raise FolderError(
                f"{place.path} was begun on {device}, and here the device is "
                f"{training.device.type}: give device = {device!r}, or another folder"
            )
        try:
            rows = [row_of(row) for row in state["history"]]
            training.resume(state)
            if [row.epoch for row in rows] != list(range(training.epoch + 1)):
                raise ValueError("its history does not lead to its epoch")
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else _first_line(error)
            refused = f"{place.path / name} does not fit this version of cyclade ({reason})"
            _log.warning("%s", refused)
            continue
        _compare(place, len(rows))
        place.use(name)
        return rows
    if refused:
        raise FolderError(f"{refused}: delete it to start this run again")
    _compare(place, 1)
    return [training.start()]


def _compare(place: RunFolder, rows: int) -> None:
    """``history.csv`` follows the checkpoint; say so where it loses epochs by that."""
    try:
        there = len(place.history())
    except FolderError as error:
        _log.warning("%s: written again", error)
        return
    if there > rows:
        _log.warning(
            "%s goes to epoch %d, the last good checkpoint to epoch %d: training goes on there",
            place.path / HISTORY, there - 1, rows - 1,
        )  # fmt: skip


def _first_line(error: Exception) -> str:
    return (str(error) or repr(error)).splitlines()[0]
