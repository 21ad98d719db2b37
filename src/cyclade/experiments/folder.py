"""The folder of a run: config, where it ran, history, checkpoint, and a mark when it is done.

Every file is written beside its place and renamed into it, so that a kill at any moment leaves
either the old file or the new one. The checkpoint holds the history, too: what it says is true, and
``history.csv`` follows it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from cyclade.experiments.config import RunConfig
from cyclade.experiments.errors import ConfigError, FolderError

CONFIG, ABOUT, HISTORY, CHECKPOINT, DONE = (
    "config.toml", "about.json", "history.csv", "checkpoint.pt", "done",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The state of a run after an epoch; epoch 0 is the start.

    Samples and multiply-adds are those of training alone, and so are the seconds. `batch_loss` is
    the mean over the samples the epoch trained on, as they were met; `train_loss` and the
    accuracies are of the whole sets at the end of the epoch. Losses are without weight decay.
    """

    epoch: int
    cycles: int
    samples_paper: int
    samples: int
    multiply_adds: float
    seconds: float
    lr: float
    batch_loss: float | None
    train_loss: float
    train_accuracy: float
    held_out_accuracy: float | None
    test_accuracy: float


@dataclass(frozen=True)
class RunResult:
    """What a run came to: `status` is "finished", "diverged" or, before its end, "unfinished"."""

    config: RunConfig
    folder: Path
    status: str
    history: list[Row]

    @property
    def last(self) -> Row:
        """The state after the last epoch."""
        return self.history[-1]


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def claim(self, config: RunConfig) -> None:
        """Make the folder this config's, or make sure that it is; else nothing is touched."""
        if not (self.path / CONFIG).exists():
            if self.path.exists() and not self.path.is_dir():
                raise FolderError(f"{self.path} is a file, not a folder")
            if self.path.exists() and any(_lasting(self.path)):
                raise FolderError(
                    f"{self.path} is not empty and holds no {CONFIG}: give a new folder"
                )
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._write(CONFIG, config.to_toml().encode())
            except OSError as error:
                raise FolderError(f"{self.path} cannot be used: {error.strerror}") from error
            return
        there = self.config()
        different = config.differences(there)
        if different:
            changes = ", ".join(
                f"{key} = {getattr(there, key)!r} there, {getattr(config, key)!r} here"
                for key in different
            )
            raise FolderError(
                f"{self.path} holds a run of another config ({changes}): give another folder"
            )

    def config(self) -> RunConfig:
        """The config this folder belongs to."""
        try:
            return RunConfig.read(self.path / CONFIG)
        except ConfigError as error:
            raise FolderError(str(error)) from error

    def result(self) -> RunResult:
        """What the run came to so far."""
        config, done = self.config(), self.done()
        status = "unfinished" if done is None else str(done["status"])
        return RunResult(config, self.path, status, self.history())

    def done(self) -> dict[str, Any] | None:
        """How the run ended; None if it has not."""
        try:
            found: dict[str, Any] = json.loads((self.path / DONE).read_text("utf-8"))
            found["status"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise FolderError(f"{self.path / DONE} cannot be read: {error}") from error
        return found

    def finish(self, status: str, epoch: int) -> None:
        """Mark the run as ended."""
        self._write(DONE, (json.dumps({"status": status, "epoch": epoch}) + "\n").encode())

    def add_start(self, about: dict[str, Any]) -> None:
        """Note where and with what the run was started, or resumed."""
        starts = []
        if (self.path / ABOUT).exists():
            try:
                starts = json.loads((self.path / ABOUT).read_text("utf-8"))["starts"]
            except (ValueError, KeyError, TypeError):
                starts = []
        text = json.dumps({"starts": [*starts, about]}, indent=2, ensure_ascii=False)
        self._write(ABOUT, (text + "\n").encode())

    # -------------------------------------------------------------------------------- history

    def write_history(self, rows: list[Row]) -> None:
        """The whole table; a value that does not exist is empty."""
        text = io.StringIO()
        table = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)
        self._write(HISTORY, text.getvalue().encode())

    def history(self) -> list[Row]:
        """The table as it stands; empty before the first epoch."""
        path = self.path / HISTORY
        if not path.exists():
            return []
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                return [_row(cells) for cells in csv.DictReader(stream)]
        except (ValueError, KeyError, TypeError) as error:
            raise FolderError(f"{path} cannot be read: {error!r}") from error

    # ----------------------------------------------------------------------------- checkpoint

    def save(self, checkpoint: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        self._write(CHECKPOINT, buffer.getvalue())

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """The checkpoint; None before the first one. Only tensors and plain values are read."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        try:
            found: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
            return found
        except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
            first = (str(error) or repr(error)).splitlines()[0]
            raise FolderError(
                f"{path} is damaged ({first}): delete it to start this run again"
            ) from error

    def _write(self, name: str, content: bytes) -> None:
        temporary = self.path / f".{name}.{os.getpid()}"
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, self.path / name)


def find_runs(root: str | Path) -> list[RunResult]:
    """Every run at or below a folder, in order of their paths."""
    root = Path(root)
    if not root.is_dir():
        raise FolderError(f"{root} is not a folder")
    found = sorted(p.parent for p in root.rglob(CONFIG) if p.with_name(ABOUT).exists())
    return [RunFolder(path).result() for path in found]


def _lasting(path: Path) -> Iterator[Path]:
    """What is in a folder, but for the remains of a write that was cut off."""
    return (entry for entry in path.iterdir() if not entry.name.startswith(f".{CONFIG}."))


def _row(cells: dict[str, str]) -> Row:
    values: dict[str, Any] = {}
    for field in fields(Row):
        text = cells[field.name]
        if text == "" and "None" in str(field.type):
            values[field.name] = None
        else:
            values[field.name] = int(text) if field.type == "int" else float(text)
    return Row(**values)
