"""When a run stops, which iterate it returns (in O(1) memory), and what watches it.

Limits and rules; the course of F, a progress bar, an interrupt that waits for a cycle's end. Where
F rises where it should fall, a run can retreat instead of exploding.
"""

from __future__ import annotations

import math
import signal
import threading
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cyclade._checks import shown
from cyclade.blocks import Point
from cyclade.files.objects import stored
from cyclade.sampling.samplers import coin

MOST_RETREATS = 30
HOPELESS = 1e10  # F so many times above its start will not come back
BOTTOMLESS = 1e15  # F so many times its start below zero has no minimum


@dataclass
class Limits:
    """When to stop; None means never for that reason."""

    tol: float | None = None
    rtol: float | None = None
    change_tol: float | None = None
    max_cycles: int | None = None
    max_samples: float | None = None
    max_seconds: float | None = None

    @property
    def tolerant(self) -> bool:
        """Whether there is a tolerance to reach."""
        return any(t is not None for t in (self.tol, self.rtol, self.change_tol))


@dataclass
class Stop(Limits):
    """When `minimize` stops, as an object for its argument `stop`; the defaults are its own.

    >>> Stop(tol=None, max_samples=9)
    Stop(tol=None, rtol=None, change_tol=None, max_cycles='auto', max_samples=9, max_seconds=None)
    """

    tol: float | None = 1e-5
    max_cycles: Any = "auto"


@dataclass
class EveryCycles:
    """F is evaluated after each `number` of cycles."""

    number: int

    def due(self, k: int, samples: float, seen: list[float]) -> bool:
        """Whether it is after cycle k."""
        return k % self.number == 0


@dataclass
class EverySamples:
    """F is evaluated each time the component gradients since x_0 pass a multiple of `size`."""

    size: float

    def due(self, k: int, samples: float, seen: list[float]) -> bool:
        """Whether it is at `samples`, after those of earlier evaluations in `seen`."""
        return self._passed(samples - seen[0]) > self._passed(seen[-1] - seen[0])

    def _passed(self, samples: float) -> int:
        return math.floor(samples / self.size * (1 + 1e-12))  # shares add up to rounding


@dataclass
class BeforeRefreshes:
    """F is evaluated before cycles that take the gradient of all terms there; else rarely."""

    sampler: Any
    rng: np.random.Generator  # that samples will be drawn with
    rare: EverySamples

    def due(self, k: int, samples: float, seen: list[float]) -> bool:
        """Whether it is after cycle k; what the coin will show is looked up, and not drawn."""
        before = self.rng.bit_generator.state
        coming = coin(self.rng, self.sampler.p)
        self.rng.bit_generator.state = before
        return coming or self.rare.due(k, samples, seen)


@dataclass(eq=False)
class Ended(Exception):
    """How a run ended: why, by a word and in words, and the point it returns; raised to end it."""

    status: str
    x: Point
    success: bool
    message: str
    resumable: bool = True


ROUNDING = 4.0 * float(np.finfo(np.float64).eps)  # relative; that of a value of F


@dataclass
class Seen:
    """What a rule may look at after a cycle. `fun` is NaN in cycles where F was not evaluated."""

    k: int
    x: Point
    change: float  # ‖x_k − x_{k−1}‖_Λ
    fun: float


class Rule:
    """Keeps one iterate."""

    needs_change = False
    name: str  # which iterate it is, for messages
    x: Point | None = None
    k = 0  # the cycle that `x` came from

    def see(self, seen: Seen) -> None:
        """Consider x_k."""
        raise NotImplementedError


@stored
class Last(Rule):
    """The last iterate."""

    name = "the last iterate"

    def see(self, seen: Seen) -> None:
        """Keep it."""
        self.x, self.k = seen.x, seen.k  # live: always the last


@stored
class SmallestChange(Rule):
    """Algorithm 1, line 8: the x_k with the smallest ‖x_k − x_{k−1}‖_Λ."""

    needs_change = True
    name = "the iterate with the smallest change"
    smallest = math.inf

    def see(self, seen: Seen) -> None:
        """Keep x_k if it moved less than all before it."""
        if self.x is None or seen.change <= self.smallest:
            self.x, self.smallest, self.k = seen.x.copy(), seen.change, seen.k


@stored
class Uniform(Rule):
    """Algorithm 2, line 10: an iterate drawn uniformly from x_1, …, x_K, whatever K will be."""

    name = "an iterate drawn at random"

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def see(self, seen: Seen) -> None:
        """Keep x_k with probability 1/k, which leaves each of x_1, …, x_k with probability 1/k."""
        if self.rng.random() * seen.k < 1.0:
            self.x, self.k = seen.x.copy(), seen.k


@stored
class Best(Rule):
    """The iterate with the smallest F among those where F was evaluated, x_0 included.

    Of iterates whose F agree to rounding it is the last: which value is smallest there is chance.
    """

    name = "the best iterate seen"
    fun = math.inf  # F(x)
    smallest = math.inf

    def see(self, seen: Seen) -> None:
        """Keep x_k if no F before it was smaller."""
        rounding = ROUNDING * abs(self.smallest) if math.isfinite(self.smallest) else 0.0
        if seen.fun <= self.smallest + rounding or (self.x is None and not math.isnan(seen.fun)):
            self.x, self.fun, self.k = seen.x.copy(), seen.fun, seen.k
            self.smallest = min(seen.fun, self.smallest)


def as_rule(returns: Any, deterministic: bool, rng: np.random.Generator) -> Rule:
    """The rule named `returns`; "paper" is what the method's algorithm says."""
    if not isinstance(returns, str):
        raise TypeError(f"returns must be 'best', 'last' or 'paper', got {shown(returns)}")
    if returns == "paper":
        return SmallestChange() if deterministic else Uniform(rng)
    if returns in ("last", "best"):
        return Last() if returns == "last" else Best()
    raise ValueError(f"returns={returns!r} is unknown: use 'best', 'last' or 'paper'")


Course = Literal["well", "rising", "diverged", "unbounded"]


def course(fun: float, smooth: float, first: float, best: float, eps: float) -> Course:
    """The course of a run whose F was `first` at the start, `best` at best and is `fun` now.

    `smooth` is f alone: F may be +∞ where a block that started outside the domain of r waits. F is
    rising once it has lost half of what was gained.
    """
    size = 1.0 + (abs(first) if math.isfinite(first) else 0.0)
    if smooth == -math.inf or fun < -BOTTOMLESS * size:
        return "unbounded"
    if not math.isfinite(smooth) or math.isnan(fun):
        return "diverged"
    if not (math.isfinite(fun) and math.isfinite(first)):
        return "well"
    if fun > first + HOPELESS * size:
        return "diverged"
    rounding = 100 * eps * max(abs(first), abs(fun))
    return "rising" if fun - best > max(0.5 * (first - best), rounding) else "well"


class Interrupt:
    """Within this context the first Ctrl-C only sets `asked`; the second one interrupts at once.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Interrupt:
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: object) -> None:
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
        """After cycle k; `fun` and `dist2` are the last ones known, NaN where none is."""
        if self._progress is not None:
            known = {} if math.isnan(fun) else {"fun": f"{fun:.6g}", "dist2": f"{dist2:.2e}"}
            self._progress.update(self._task, completed=k, **known)
