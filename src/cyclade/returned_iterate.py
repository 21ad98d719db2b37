"""Which iterate a run returns, in O(1) memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cyclade.blocks import Point
from cyclade.files.objects import stored

ROUNDING = 4.0 * float(np.finfo(np.float64).eps)  # relative; that of a value of F


@dataclass
class Seen:
    """What a rule may look at after a cycle. `fun` is NaN in cycles where F was not evaluated."""

    k: int
    x: Point
    change: float  # ‖x_k − x_{k−1}‖_Λ
    fun: float


class Rule(Protocol):
    """Keeps one iterate."""

    needs_change: bool
    name: str  # which iterate it is, for messages
    x: Point | None
    k: int  # the cycle that `x` came from

    def see(self, seen: Seen) -> None:
        """Consider x_k."""


@stored
class Last:
    """The last iterate."""

    needs_change = False
    name = "the last iterate"

    def __init__(self) -> None:
        self.x: Point | None = None
        self.k = 0

    def see(self, seen: Seen) -> None:
        """Keep it."""
        self.x, self.k = seen.x, seen.k  # live: always the last


@stored
class SmallestChange:
    """Algorithm 1, line 8: the x_k with the smallest ‖x_k − x_{k−1}‖_Λ."""

    needs_change = True
    name = "the iterate with the smallest change"

    def __init__(self) -> None:
        self.x: Point | None = None
        self.smallest = math.inf
        self.k = 0

    def see(self, seen: Seen) -> None:
        """Keep x_k if it moved less than all before it."""
        if self.x is None or seen.change <= self.smallest:
            self.x, self.smallest, self.k = seen.x.copy(), seen.change, seen.k


@stored
class Uniform:
    """Algorithm 2, line 10: an iterate drawn uniformly from x_1, …, x_K, whatever K will be."""

    needs_change = False
    name = "an iterate drawn at random"

    def __init__(self, rng: np.random.Generator) -> None:
        self.x: Point | None = None
        self.rng = rng
        self.k = 0

    def see(self, seen: Seen) -> None:
        """Keep x_k with probability 1/k, which leaves each of x_1, …, x_k with probability 1/k."""
        if self.rng.random() * seen.k < 1.0:
            self.x, self.k = seen.x.copy(), seen.k


@stored
class Best:
    """The iterate with the smallest F among those where F was evaluated, x_0 included.

    Of iterates whose F agree to rounding it is the last: near a minimum F changes by the square of
    the distance, and which value is smallest there is chance.
    """

    needs_change = False
    name = "the best iterate seen"

    def __init__(self) -> None:
        self.x: Point | None = None
        self.fun = math.inf  # F(x)
        self.smallest = math.inf
        self.k = 0

    def see(self, seen: Seen) -> None:
        """Keep x_k if no F before it was smaller."""
        rounding = ROUNDING * abs(self.smallest) if math.isfinite(self.smallest) else 0.0
        if seen.fun <= self.smallest + rounding or (self.x is None and not math.isnan(seen.fun)):
            self.x, self.fun, self.k = seen.x.copy(), seen.fun, seen.k
            self.smallest = min(seen.fun, self.smallest)


def as_rule(returns: Any, deterministic: bool, rng: np.random.Generator) -> Rule:
    """The rule named `returns`; "paper" is what the method's algorithm says."""
    if returns == "paper":
        return SmallestChange() if deterministic else Uniform(rng)
    if returns == "last":
        return Last()
    if returns == "best":
        return Best()
    raise ValueError(f"returns={returns!r} is unknown: use 'best', 'last' or 'paper'")
