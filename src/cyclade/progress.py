"""A progress bar, and an interrupt that waits for the end of the cycle."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Within this context the first Ctrl-C only sets `asked`; the second one interrupts at once.

    So a run ends between two cycles, with a state it can resume from. Outside the main thread,
    where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._installed = False

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Bar:
    """A rich progress bar with F and the certificate; nothing when not `shown`."""

    def __init__(self, title: str, total: float | None, shown: bool) -> None:
        self._progress: Any = None
        if shown:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("cycle {task.completed}"),
                TextColumn("F = {task.fields[fun]}  dist² = {task.fields[certificate]}"),
                TimeElapsedColumn(),
            )
            self._task = self._progress.add_task(title, total=total, fun="…", certificate="…")

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, k: int, fun: float, certificate: float) -> None:
        """After cycle k; `fun` and `certificate` are the last ones known."""
        if self._progress is not None:
            self._progress.update(
                self._task, completed=k, fun=f"{fun:.6g}", certificate=f"{certificate:.2e}"
            )
