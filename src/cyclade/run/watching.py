"""What watches a run: the course of F, a progress bar, an interrupt that waits for a cycle's end.

Where F rises where it should fall, a run can retreat instead of exploding.
"""

from __future__ import annotations

import math
import signal
import threading
from enum import Enum, auto
from types import FrameType, TracebackType
from typing import Any

MOST_RETREATS = 30
HOPELESS = 1e10  # F so many times above its start will not come back
BOTTOMLESS = 1e15  # F so many times its start below zero has no minimum


class Course(Enum):
    """Where F is going."""

    WELL = auto()
    RISING = auto()  # clearly above the best F seen
    DIVERGED = auto()  # not finite, or hopelessly far above the start
    UNBOUNDED = auto()  # F falls without end


def course(fun: float, smooth: float, first: float, best: float, eps: float) -> Course:
    """The course of a run whose F was `first` at the start, `best` at best and is `fun` now.

    `smooth` is f alone: F may be +∞ where a block that started outside the domain of r has not had
    its turn yet, f may not. F is rising once it has lost half of what was gained.

    Example
    -------
    >>> course(fun=8.0, smooth=8.0, first=10.0, best=2.0, eps=1e-16)
    <Course.RISING: 2>
    """
    size = 1.0 + (abs(first) if math.isfinite(first) else 0.0)
    if smooth == -math.inf or fun < -BOTTOMLESS * size:
        return Course.UNBOUNDED
    if not math.isfinite(smooth) or math.isnan(fun):
        return Course.DIVERGED
    if not (math.isfinite(fun) and math.isfinite(first)):
        return Course.WELL
    if fun > first + HOPELESS * size:
        return Course.DIVERGED
    rounding = 100 * eps * max(abs(first), abs(fun))
    return Course.RISING if fun - best > max(0.5 * (first - best), rounding) else Course.WELL


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

    def __init__(
        self, title: str, total: float | None, shown: bool, counted: str = "cycle"
    ) -> None:
        self._progress: Any = None
        if shown:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn(f"{counted} {{task.completed}}"),
                TextColumn("F = {task.fields[fun]}  dist² = {task.fields[dist2]}"),
                TimeElapsedColumn(),
            )
            self._task = self._progress.add_task(title, total=total, fun="…", dist2="…")

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, k: int, fun: float, dist2: float) -> None:
        """After cycle k; `fun` and `dist2` are the last ones known."""
        if self._progress is not None:
            self._progress.update(self._task, completed=k, fun=f"{fun:.6g}", dist2=f"{dist2:.2e}")
