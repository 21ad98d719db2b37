"""Progress of runs: bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.folder import Row

EVERY = 10.0
"""Seconds between two plain lines about the same run."""


class Display:
    """For each run loss, accuracy and time left: bars in a terminal, else a line now and then."""

    def __init__(self, shown: bool = True) -> None:
        self.shown = shown and sys.stdout is not None
        self._progress = _progress() if self.shown and sys.stdout.isatty() else None
        self._tasks: dict[str, Any] = {}
        self._lines: dict[str, tuple[float, int, float, int]] = {}

    def __enter__(self) -> Display:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, config: RunConfig, row: Row | None) -> None:
        """Where a run stands."""
        if not self.shown or row is None:
            return
        if self._progress is None:
            self._line(config, row)
            return
        name, kept = config.slug(), {"total": config.epochs, "loss": "", "accuracy": ""}
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(_title(config), **kept)
        loss, accuracy = f"{row.train_loss:.3f}", f"{row.test_accuracy:.3f}"
        self._progress.update(self._tasks[name], completed=row.epoch, loss=loss, accuracy=accuracy)

    def end(self, config: RunConfig) -> None:
        """A run is over."""
        if self._progress is not None and config.slug() in self._tasks:
            self._progress.stop_task(self._tasks[config.slug()])

    def _line(self, config: RunConfig, row: Row) -> None:
        """A plain line, every few seconds and at the end of a run."""
        name, now = config.slug(), time.monotonic()
        began, first, last, told = self._lines.setdefault(name, (now, row.epoch, now, -1))
        over = row.epoch == config.epochs
        if row.epoch == told or not (over or now - last >= EVERY):
            return
        self._lines[name] = (began, first, now, row.epoch)
        left = ""
        if not over and row.epoch > first:
            seconds = (now - began) / (row.epoch - first) * (config.epochs - row.epoch)
            left = f", about {duration(seconds)} left"
        print(
            f"{_title(config)}: epoch {row.epoch}/{config.epochs}, train loss "
            f"{row.train_loss:.3f}, test accuracy {row.test_accuracy:.3f}{left}",
            flush=True,
        )


def _title(config: RunConfig) -> str:
    spectral = f" spectral {config.spectral}" if config.spectral else ""
    return f"{config.method}{spectral} lr {config.lr:g} seed {config.seed}"


def duration(seconds: float) -> str:
    """A time in words, to two digits or so.

    >>> [duration(s) for s in (0.4, 42, 91, 3_000, 50_000, 400_000)]
    ['1 s', '42 s', '91 s', '50 min', '14 h', '4.6 days']
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{round(seconds / 60)} min"
    if seconds < 2 * 86400:
        return f"{round(seconds / 3600)} h"
    return f"{seconds / 86400:.2g} days"


def _progress() -> Any:
    try:
        from rich.progress import BarColumn, Progress, TimeRemainingColumn
    except ImportError:
        return None
    epochs, reached = "{task.completed:g}/{task.total:g}", "loss {task.fields[loss]}"
    reached += " test {task.fields[accuracy]}"
    bar, left = BarColumn(bar_width=10), TimeRemainingColumn()
    return Progress("{task.description}", bar, epochs, reached, left)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells in columns, for a terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
