"""The folder of a run: config, where it ran, history, checkpoints, and a mark when it is done.

No file is trusted because it is there. The checkpoint carries a digest, the run it belongs to and
the history; the mark ``done`` carries the run and the digests of ``history.csv`` and the
checkpoint; ``about.json`` its own digest. `problem` compares them. What does not fit is named, and
made again from the last good checkpoint: the one before it is kept, too.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.errors import ConfigError, FolderError
from cyclade.files import sealed
from cyclade.files.disk import (
    as_json,
    digest,
    is_temporary,
    read,
    read_json,
    read_text,
    write,
    write_json,
)
from cyclade.files.errors import printable
from cyclade.files.lock import LOCK

CONFIG, ABOUT, HISTORY, CHECKPOINT, DONE = (
    "config.toml", "about.json", "history.csv", "checkpoint.pt", "done",
)  # fmt: skip
PREVIOUS, REFUSED = "checkpoint.previous.pt", "checkpoint.refused.pt"

_STATUS = ("finished", "diverged")
_MARK = {"status", "epoch", "run", "history", "checkpoint"}  # the keys of ``done``
_log = logging.getLogger("cyclade.experiments")


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


COLUMNS = [column.name for column in fields(Row)]


@dataclass(frozen=True)
class RunResult:
    """What a run came to: `status` is "finished", "diverged" or, before its end, "unfinished".

    `starts` are the versions and the hardware of every start, as far as they were noted.
    """

    config: RunConfig
    folder: Path
    status: str
    history: list[Row]
    starts: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

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
        self.check(config)
        if not (self.path / CONFIG).exists():
            write(self.path / CONFIG, config.to_toml().encode())

    def check(self, config: RunConfig) -> None:
        """The folder is new, or this config's; else an error."""
        if not holds(self.path, CONFIG):
            return
        there = self.config()
        changes = ", ".join(
            f"{key} = {getattr(there, key)!r} there, {getattr(config, key)!r} here"
            for key in config.differences(there)
        )
        if changes:
            raise FolderError(
                f"{self.path} holds a run of another config ({changes}): give another folder"
            )

    def config(self) -> RunConfig:
        """The config this folder belongs to."""
        try:
            return RunConfig.read(self.path / CONFIG)
        except ConfigError as error:
            raise FolderError(str(error)) from error

    # -------------------------------------------------------------------------- how it ended

    def result(self) -> RunResult:
        """What the run came to so far; files that do not fit each other are an error."""
        config, done, rows = self.config(), self.done(), self.history()
        wrong = done and self._contradiction(config, done, rows)
        if wrong:
            raise FolderError(f"{wrong}: the command that made this run mends it")
        status = str(done["status"]) if done else "unfinished"
        return RunResult(config, self.path, status, rows, self.noted())

    def noted(self) -> tuple[Mapping[str, Any], ...]:
        """The starts in ``about.json``; none if it cannot be read: they bear on no result."""
        try:
            return starts_in(as_json(read(self.path / ABOUT)))
        except (OSError, ValueError):
            return ()

    def done(self) -> dict[str, Any] | None:
        """How the run ended; None if it has not."""
        path = self.path / DONE
        try:
            found = read_json(path)
        except FileNotFoundError:
            return None
        if found.keys() - _MARK or found.get("status") not in _STATUS:
            raise FolderError(f"{path} is damaged: it does not say how the run ended")
        return found

    def finish(self, status: str, epoch: int) -> None:
        """Mark the run as ended, with its history and its checkpoint as they stand."""
        run = self.config().identity
        content: dict[str, Any] = {"status": status, "epoch": epoch, "run": run}
        content["history"] = digest(read(self.path / HISTORY))
        if (self.path / CHECKPOINT).exists():
            content["checkpoint"] = digest(sealed.checked(self.path / CHECKPOINT, run))
        write_json(self.path / DONE, content)

    def problem(self) -> str:
        """What is wrong with the files of a run that has ended; of another, that it has not.

        Checkpoints may be missing: results that were copied have none, and they take space.
        """
        try:
            config, done = self.config(), self.done()
            if done is None:
                return "not done"
            wrong = self._contradiction(config, done, self.history())
            if wrong:
                return wrong
            self._starts()
            return self._wrong_checkpoint(config, done)
        except FileNotFoundError:
            return f"{self.path / ABOUT} is missing"
        except FolderError as error:
            return str(error)

    def _wrong_checkpoint(self, config: RunConfig, done: dict[str, Any]) -> str:
        path, previous = self.path / CHECKPOINT, self.path / PREVIOUS
        try:
            content = sealed.checked(path, config.identity)
        except FileNotFoundError:
            missing = f"{path} is missing, and the one before it is there"
            return missing if previous.exists() else ""
        changed = done.get("checkpoint", digest(content)) != digest(content)
        return f"{path} is not as it was when the run ended" if changed else ""

    def _contradiction(self, config: RunConfig, done: dict[str, Any], rows: list[Row]) -> str:
        """Where the mark, the config and the history do not fit each other."""
        mark, table = self.path / DONE, self.path / HISTORY
        if done.get("run", config.identity) != config.identity:
            return f"{mark} belongs to another run than {CONFIG} beside it"
        if not table.exists():
            return f"{table} is missing, and {DONE} says that the run has ended"
        if "history" in done and done["history"] != digest(read(table)):
            return f"{table} is not as it was when the run ended"
        if [row.epoch for row in rows] != list(range(len(rows))) or not rows:
            return f"{table} does not have one line for every epoch"
        if rows[-1].epoch != done.get("epoch"):
            return f"{table} ends at epoch {rows[-1].epoch}, {DONE} says {done.get('epoch')}"
        if done["status"] == "finished" and rows[-1].epoch != config.epochs:
            return f"{mark} says finished after {rows[-1].epoch} of {config.epochs} epochs"
        return ""

    # ------------------------------------------------------------------------ where it ran

    def add_start(self, about: dict[str, Any]) -> None:
        """Note where and with what the run was started, or resumed."""
        starts: list[dict[str, Any]] = []
        try:
            with suppress(FileNotFoundError):
                starts = self._starts()
        except FolderError as error:
            _log.warning("%s: what it said of earlier starts is lost", error)
        content = {"run": self.config().identity, "starts": [*starts, about]}
        write_json(self.path / ABOUT, content)

    def _starts(self) -> list[dict[str, Any]]:
        path = self.path / ABOUT
        found = read_json(path)
        starts = found.get("starts")
        if not isinstance(starts, list):
            raise FolderError(f"{path} is damaged: it has no list of starts")
        if "run" in found and found["run"] != self.config().identity:
            raise FolderError(f"{path} belongs to another run")
        return starts

    # -------------------------------------------------------------------------------- history

    def write_history(self, rows: list[Row]) -> None:
        """The whole table; a value that does not exist is empty."""
        write(self.path / HISTORY, table(rows))

    def history(self) -> list[Row]:
        """The table as it stands; empty before the first epoch."""
        path = self.path / HISTORY
        try:
            return rows_of(read_text(path))
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise FolderError(f"{path} is damaged: {error}") from error

    # ---------------------------------------------------------------------------- checkpoints

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint, and keep the one before it."""
        content = sealed.packed(state, self.config().identity)
        write(self.path / CHECKPOINT, content, keep=self.path / PREVIOUS)

    def load(self, device: Any) -> dict[str, Any] | None:
        """The state of the last good checkpoint; None before the first one."""
        return next((state for _, state in self.checkpoints(device)), None)

    def checkpoints(self, device: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Names and states of the good checkpoints, the last one first.

        One that is not good is named in a warning. If there are some, but none is good, that is an
        error in the end.
        """
        run = self.config().identity
        bad: list[str] = []
        for name in (CHECKPOINT, PREVIOUS):
            try:
                state = sealed.unpacked(self.path / name, run, device)
            except FileNotFoundError:
                continue
            except FolderError as error:
                bad.append(str(error))
                continue
            for reason in bad:
                _log.warning("%s: going on from %s, epoch %s", reason, name, state.get("epoch"))
            bad = []
            yield name, state
        if bad:
            raise FolderError(f"{'; '.join(bad)}: delete it to start this run again")

    def use(self, name: str) -> None:
        """Make this checkpoint the current one; the one in its place was refused."""
        if name == PREVIOUS:
            current = self.path / CHECKPOINT
            if current.exists():
                os.replace(current, self.path / REFUSED)
            os.replace(self.path / PREVIOUS, current)


def table(rows: list[Row]) -> bytes:
    """Rows as ``history.csv`` holds them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue().encode()


def rows_of(text: str) -> list[Row]:
    """The rows of a ``history.csv``; ValueError for what is none."""
    try:
        head, *lines = csv.reader(io.StringIO(text, newline=""), strict=True) or [[]]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if head != COLUMNS:
        raise ValueError(f"its columns must be {','.join(COLUMNS)}, got {','.join(head)[:200]!r}")
    rows = []
    for number, cells in enumerate(lines, start=2):
        if len(cells) != len(COLUMNS):
            raise ValueError(f"line {number} has {len(cells)} cells instead of {len(COLUMNS)}")
        rows.append(row_of(dict(zip(COLUMNS, cells, strict=True)), f"line {number}: "))
    return rows


def row_of(values: Any, where: str = "") -> Row:
    """A row by its columns, as numbers or as texts; ValueError for what is none."""
    if not isinstance(values, dict) or list(values) != COLUMNS:
        raise ValueError(f"a line of its history must have the columns {', '.join(COLUMNS)}")
    found: dict[str, Any] = {}
    for column in fields(Row):
        value = values[column.name]
        empty = value in ("", None) and "None" in str(column.type)
        try:
            found[column.name] = None if empty else (int if column.type == "int" else float)(value)
        except (TypeError, ValueError):
            raise ValueError(f"{where}{column.name} is {str(value)[:50]!r}") from None
    return Row(**found)


def starts_in(about: Any) -> tuple[Mapping[str, Any], ...]:
    """The starts that the content of an ``about.json`` tells of."""
    found = about.get("starts") if isinstance(about, dict) else None
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def find_runs(root: str | Path) -> list[RunResult]:
    """Every run at or below a folder, in order of their paths."""
    root = Path(root)
    if not root.is_dir():
        raise FolderError(f"{root} is not a folder")
    found = sorted(p.parent for p in root.rglob(CONFIG) if p.with_name(ABOUT).exists())
    return [RunFolder(path).result() for path in found]


def holds(path: Path, *names: str) -> bool:
    """Whether a folder holds one of these; an error if it holds other things alone.

    A lock and the remains of a write that was cut off are nothing.
    """
    if path.exists() and not path.is_dir():
        raise FolderError(f"{path} is a file, not a folder")
    if any((path / name).exists() for name in names):
        return True
    entries = os.listdir(path) if path.exists() else ()
    if any(entry != LOCK and not is_temporary(entry) for entry in entries):
        raise FolderError(f"{path} is not empty and holds no {names[0]}: give a new folder")
    return False


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Warnings about files go to the standard error stream, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    _log.addHandler(handler)
    propagate, _log.propagate = _log.propagate, False
    try:
        yield
    finally:
        _log.propagate = propagate
        _log.removeHandler(handler)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(f"cyclade: warning: {' '.join(record.getMessage().split())}")
