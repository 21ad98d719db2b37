"""Progress of runs in the terminal; nothing where rich or a terminal is missing."""

from __future__ import annotations

import sys
from typing import Any

from cyclade.experiments.config import RunConfig
from cyclade.experiments.folder import Row


class Display:
    """A bar per run with loss, accuracy and time left."""

    def __init__(self, shown: bool = True) -> None:
        self._progress: Any = _progress() if shown and sys.stdout.isatty() else None
        self._tasks: dict[str, Any] = {}

    @property
    def shown(self) -> bool:
        """Whether anybody sees it."""
        return self._progress is not None

    def __enter__(self) -> Display:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, config: RunConfig, row: Row | None) -> None:
        """Where a run stands."""
        if self._progress is None or row is None:
            return
        name = config.slug()
        values = {
            "completed": row.epoch,
            "loss": f"{row.train_loss:.3f}",
            "accuracy": f"{row.test_accuracy:.3f}",
        }
        if name not in self._tasks:
            title = f"{config.method} lr {config.lr:g} seed {config.seed}"
            self._tasks[name] = self._progress.add_task(title, total=config.epochs, **values)
        else:
            self._progress.update(self._tasks[name], **values)

    def end(self, config: RunConfig) -> None:
        """A run is over."""
        task = self._tasks.get(config.slug())
        if task is not None:
            self._progress.stop_task(task)


def _progress() -> Any:
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left
    except ImportError:
        return None
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.completed:g}/{task.total:g}"),
        TextColumn("loss {task.fields[loss]} test {task.fields[accuracy]}"),
        TimeElapsedColumn(),
        Left(),
    )
