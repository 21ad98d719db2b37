"""What steps are: for each block a direction and a step η Λ_j^{−1}."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Protocol

from cyclade._arrays import Array

Eta = float | Callable[[int], float]
"""The learning rate η, or a schedule: a function of the number k of cycles done."""


class Steps(Protocol):
    """Gives each block its step."""

    def begin(self, k: int) -> None:
        """Cycle k + 1 begins."""

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array | float]:
        """The direction, and the step η Λ_j^{−1} (a scalar or a diagonal) to take along it.

        The direction is g^j itself; only steps with momentum or clipping bend it.
        """

    def current(self, j: int) -> Array | float:
        """The step as it stands, without looking at the point."""

    def metric(self, j: int) -> Array | float:
        """Λ_j as it stands."""

    def prepare(self, at_x0: Any) -> None:
        """Look at the starting point, before the first cycle."""

    def memory(self) -> dict[str, Any]:
        """What has been learnt, for `recall` when a run is resumed."""

    def recall(self, memory: dict[str, Any]) -> None:
        """Take up what `memory` gave."""


class LineSearchError(RuntimeError):
    """No step can be taken: the gradient contradicts f, or F is not finite there."""

    def __init__(self, message: str, status: str = "no_step", block: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # that of the run which it ends, see `Result.status`
        self.block = block  # where it was found, for the name that the user gave it


class Rated(Steps):
    """What all steps of a run share: the learning rate, η_k of a schedule times what `slow` left.

    A kind of steps has `metric` at least; where the step is not η Λ_j^{−1}, `current` too, and `at`
    where it looks at the point.
    """

    blocks: int | None = None  # how many it is for; None: any number
    measured = False  # whether `metric` is the curvature of f: certificates need no second look
    remark = ""  # what a run's message should say of the steps, such as why they are very small
    why_short = "of the L that was given"  # the likely reason, where steps are far too short
    learnt: tuple[str, ...] = ()  # attributes that a run which is resumed takes over

    def __init__(self, eta: Eta) -> None:
        self.eta = as_schedule(eta)
        self.slowed = 1.0  # halved by `slow` each time a run retreats
        self.rate = math.nan  # η in the cycle under way

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Any]:
        """g^j and η Λ_j^{−1}."""
        return gj, self.current(j)

    def current(self, j: int) -> Any:
        """η Λ_j^{−1}."""
        return self.rate / self.metric(j)

    def begin(self, k: int) -> None:
        """Take η_k."""
        self.rate = self.slowed * self.eta(k)

    def slow(self, now: Any, g: Any, reg: Any) -> None:
        """F rose: halve η from the next cycle on; `now` is a sweep on a large sample."""
        self.slowed *= 0.5

    def prepare(self, at_x0: Any) -> None:
        """Nothing to learn."""

    def memory(self) -> dict[str, Any]:
        """How much η was slowed, and what was `learnt`."""
        return {name: copy.copy(getattr(self, name)) for name in ("slowed", *self.learnt)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from there."""
        for name in ("slowed", *self.learnt):
            setattr(self, name, copy.copy(memory[name]))


def as_schedule(eta: Any) -> Callable[[int], float]:
    """A function k → η from a positive number or a function."""
    constant = 0.0 if callable(eta) else _positive_eta(eta)
    return lambda k: constant or _positive_eta(eta(k))


def _positive_eta(eta: Any) -> float:
    try:
        value = float(eta)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"eta must be a positive number or a function of k, got {eta!r}") from None
    if isinstance(eta, bool | str) or not (value > 1e-300 and math.isfinite(value)):
        raise ValueError(f"eta must be positive and finite, got {eta!r}")
    return value
