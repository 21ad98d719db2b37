"""Sees whether F rises where it should fall, so that a run can retreat instead of exploding."""

from __future__ import annotations

import math
from enum import Enum, auto

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
