"""One run, from its config to its folder; interrupted, it resumes to a bit-identical end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from cyclade.experiments.about import about, resolve
from cyclade.experiments.config import RunConfig
from cyclade.experiments.data import load
from cyclade.experiments.errors import FolderError
from cyclade.experiments.folder import Row, RunFolder, RunResult
from cyclade.experiments.training import Training, repeatable

_load = lru_cache(maxsize=2)(load)

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
    place = RunFolder(folder)
    device = resolve(config.device)
    if place.path.exists():
        place.claim(config)
        if place.done() is not None:
            return place.result()
    with repeatable(device, config.threads):
        data = _load(config.dataset, None if data_dir is None else Path(data_dir), device)
        training = Training(config, data, device)
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
