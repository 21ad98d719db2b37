"""One run, from its config to its folder; interrupted, it resumes to a bit-identical end."""

from __future__ import annotations

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
from cyclade.experiments.folder import Row, RunFolder, RunResult
from cyclade.experiments.repeatable import before_cuda_starts, repeatable
from cyclade.experiments.training import Training
from cyclade.optim.capture import alone

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
    is done, its result is read. A folder of another config is an error, and nothing is touched. A
    loss that is not finite ends the run with the status "diverged". `side_by_side`, the number of
    runs that share the machine, is noted in ``about.json``: it bears on the seconds.
    """
    before_cuda_starts()
    place = RunFolder(folder)
    device = resolve(config.device)
    if place.path.exists():
        place.claim(config)
        if place.done() is not None:
            return place.result()
    with repeatable(config.threads, config.tf32), on(device):
        with alone:  # initial weights come from torch's one generator
            training = Training(config, prepared(config, data_dir), device)
        place.claim(config)
        rows = _take_up(training, place)
        place.add_start({**about(device, training.epoch), "side_by_side": side_by_side})
        place.write_history(rows)
        if watch is not None:
            watch(rows[-1])
        while training.epoch < config.epochs and not training.diverged:
            rows.append(training.train_epoch())
            place.save({**training.state(), "history": [asdict(row) for row in rows]})
            place.write_history(rows)
            if watch is not None:
                watch(rows[-1])
    place.finish("diverged" if training.diverged else "finished", training.epoch)
    return RunResult(config, place.path, "diverged" if training.diverged else "finished", rows)


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
    """The history so far, with the training standing at its end."""
    checkpoint = place.load(training.device)
    if checkpoint is None:
        return [training.start()]
    if checkpoint["device"] != training.device.type:
        raise FolderError(
            f"{place.path} was begun on {checkpoint['device']}, and here the device is "
            f"{training.device.type}: give device = {checkpoint['device']!r}, or another folder"
        )
    training.resume(checkpoint)
    return [Row(**row) for row in checkpoint["history"]]
