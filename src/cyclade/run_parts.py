"""What a run is made of: its setup and limits, what it carries, measures and reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from cyclade.accelerate import Anderson
from cyclade.blocks import Point
from cyclade.core import State
from cyclade.counting import Calls, Counting
from cyclade.files.objects import stored
from cyclade.gradient_check import Contradiction
from cyclade.orders import Order
from cyclade.result import HISTORY
from cyclade.returned_iterate import Best, Rule
from cyclade.samplers import Sample, Sampler
from cyclade.steps import RunSteps


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

    >>> Stop(rtol=1e-6, tol=None, max_seconds=60.0)
    Stop(tol=None, rtol=1e-06, change_tol=None, max_cycles=1000, max_samples=None, max_seconds=60.0)
    """

    tol: float | None = 1e-5
    max_cycles: int | None = 1000


@dataclass
class Setup:
    """What is run: the arguments of `core.iterate`, and the sample on which F is evaluated."""

    oracle: Counting
    reg: Any
    steps: RunSteps
    sampler: Sampler
    order: Order
    evaluation_sample: Sample  # None: F is never evaluated
    resample: Literal["cycle", "block"] = "cycle"
    visits_all: bool = True  # whether every block has its turn in every cycle
    guarded: bool = False  # whether η may be halved when F rises
    cut: tuple[str, str] | None = None  # a status and words, if the run ends before it begins
    check_gradient: Callable[[Point, list[Any]], Contradiction | None] | None = None
    measure: Callable[[Point], Measured] | None = None  # in place of dist(∂F, 0) from the oracle
    iterate: Callable[[State], Iterator[State]] | None = None  # in place of `core.iterate`
    ready: Callable[[], bool] | None = None  # whether the samples of another cycle are there
    alike: Callable[[list[float]], list[float]] = list  # numbers all ranks of a run must agree on
    calls: Calls = field(default_factory=Calls)  # of what the user gave, in this process


@stored
@dataclass
class Carried:
    """What a stopped run hands to the one that resumes it."""

    method: str
    state: State
    steps: dict[str, Any]
    rule: Rule
    best: Best
    evaluation_sample: Any  # what F and the certificate are evaluated on
    history: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in HISTORY})
    n: float = 1.0
    described: dict[str, Any] = field(default_factory=dict)  # what must be the same on resuming
    anderson: Anderson | None = None
    gradients: float = 0.0
    values: float = 0.0
    hvps: float = 0.0
    nfev: int = 0
    njev: int = 0
    prox_calls: int = 0
    seconds: float = 0.0  # in cycles
    wall: float = 0.0  # in all
    retreats: int = 0

    @property
    def first_dist(self) -> float:
        """dist at x0, or at the first iterate in the domain of r, where x0 is outside."""
        return next((d for d in self.history["dist"] if math.isfinite(d)), 0.0)


@dataclass
class Report:
    """What a callback is given after each cycle; return True from it to stop the run.

    `fun`, `certificate` and `dist` are those of the last evaluation (see `every`); `x` is a copy of
    x_k in the structure of x0.
    """

    cycle: int
    samples: float
    seconds: float
    fun: float
    certificate: float
    dist: float
    change: float
    x: Any = field(repr=False)


@dataclass
class Measured:
    """F and how far from stationary a point is."""

    fun: float
    smooth: float  # f alone
    certificate: float  # dist²(∂F, 0) in the norm of Λ^{−1}
    dist: float  # dist(∂F, 0) in the Euclidean norm
    gradient: list[Any] = field(default_factory=list, repr=False)
    reached: str | None = None  # what `Setup.measure` finds good enough to stop at


@dataclass
class Ending:
    """How a run ended: why, by a word and in words, and the point it returns."""

    status: str
    x: Point
    success: bool
    message: str
    resumable: bool = True

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.status == "interrupted"


class Ended(Exception):
    """Raised inside a run to end it."""

    def __init__(
        self, status: str, x: Point, success: bool, message: str, resumable: bool = True
    ) -> None:
        self.ending = Ending(status, x, success, message, resumable)


@dataclass
class EveryCycles:
    """F is evaluated after each `number` of cycles."""

    number: int

    def due(self, k: int, samples: float, seen: list[float]) -> bool:
        """Whether it is after cycle k."""
        return k % self.number == 0


@dataclass
class EverySamples:
    """F is evaluated each time the component gradients since x_0 pass a multiple of `size`.

    Evaluations in between do not matter, so that a run that is resumed evaluates where one that
    never stopped would.

    Example
    -------
    >>> EverySamples(100.0).due(k=7, samples=250.0, seen=[40.0, 145.0])
    True
    """

    size: float

    def due(self, k: int, samples: float, seen: list[float]) -> bool:
        """Whether it is at `samples`, after those of earlier evaluations in `seen`."""
        return self._passed(samples - seen[0]) > self._passed(seen[-1] - seen[0])

    def _passed(self, samples: float) -> int:
        return math.floor(samples / self.size * (1 + 1e-12))  # shares add up to rounding
