"""When to stop: the certificate of every check, and whether any progress is still made.

It is the same for every engine of working sets: a point is looked at, and if it is not good enough
and there is hope, the engine improves it and comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Certificate
from cyclade.linear.loss_at import LossAt
from cyclade.linear.problem import Problem

Array = NDArray[Any]
Report = Callable[[dict[str, float]], None]

STALLED = 30  # checks without progress in value or certificate: the precision of X is used up
IDLE = 3  # checks in a row between which nothing moved
NO_COLUMNS = np.empty(0, np.int64)


@dataclass
class Standing:
    """A point, and what every engine knows about it."""

    x: Array
    c: float
    loss_at: LossAt
    measured: Any  # by the engine: problem, gradient, distance, objective, dual
    passes: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    working: Array = field(default_factory=lambda: NO_COLUMNS)
    trust: float = 0.1  # of a majoriser's weights, the part that φ'' < 0 is replaced by


class Stopping:
    """From one check to the next."""

    certificate: Certificate

    def __init__(
        self, problem: Problem, standing: Standing, tol: float, scale: float, most: int,
        report: Report,
    ) -> None:  # fmt: skip
        """`scale` is that of distances; `most` passes may be spent."""
        goal = tol * scale
        if problem.has_dual:  # a gap is a difference of numbers of the size of F, rounded as such
            goal = max(tol * scale_of_gap(problem), 1e-15 * abs(standing.measured.objective))
        self.goal, self.kind = goal, "gap" if problem.has_dual else "distance"
        self.most, self.report = most, report
        self.least = np.inf  # the distance that all columns will be brought to in the end
        self._dual = -np.inf
        self._best = self._lowest = np.inf
        self._stalled = self._idle = 0
        self._spent = -1
        self._precision = 4.0 * float(np.finfo(problem.design.dtype).eps)

    def done(self, at: Standing, rough: bool = False) -> bool:
        """Look at a point: whether it is good enough, or no better one is to be had.

        One that is `rough` is not good enough, whatever its certificate.
        """
        now = at.measured
        self._dual = max(self._dual, now.dual)
        gap = max(now.objective - self._dual, 0.0)
        value = gap if self.kind == "gap" else now.distance
        self.certificate = Certificate(self.kind, value, self.goal)  # type: ignore[arg-type]
        row = {"objective": now.objective, self.kind: value, "passes": at.passes,
               "working": at.working.size}  # fmt: skip
        at.history.append(row)
        self.report(row)
        # Nothing moves any more and the goal is not met: that is said, instead of going round.
        self._idle = self._idle + 1 if at.passes == self._spent else 0
        self._spent = at.passes
        if (self.certificate.reached and not rough) or at.passes >= self.most or self._idle == IDLE:
            return True
        lower = now.objective < self._lowest - self._precision * abs(now.objective)
        self._stalled = 0 if lower or value < 0.999 * self._best else self._stalled + 1
        self._best, self._lowest = min(self._best, value), min(self._lowest, now.objective)
        # Near the solution a gap shrinks in proportion to the distance, so one tells the other.
        self.least = min(self.least, 0.5 * now.distance * self.goal / max(value, self.goal))
        return self._stalled == STALLED


def scale_of_gap(problem: Problem) -> float:
    """The loss of the null model (x = 0, best intercept) above that of a perfect fit."""
    if problem.null is not None:
        return problem.null
    loss_at = problem.loss_at(np.zeros(problem.design.n) + problem.offset)
    perfect = -float(problem.s @ problem.loss.conjugate(problem.y, np.zeros_like(loss_at.z)))  # type: ignore[attr-defined]
    null = problem.loss_at(loss_at.z + problem.best_shift(loss_at)).value
    problem.null = null - perfect if np.isfinite(perfect) else abs(null)
    return problem.null


def scale_of_distance(problem: Problem, g: Array) -> float:
    """λ: the largest finite threshold of a coordinate; without any, the largest slope at hand."""
    zero_threshold, top = problem.penalty.zero_threshold, problem.penalty.top
    if not np.isfinite(top):
        top = float(zero_threshold[np.isfinite(zero_threshold)].max(initial=0.0))
    if top > 0:
        return top
    return float(np.abs(g).max(initial=0.0)) or 1.0
