"""When to stop: the certificate of every check, and whether progress is still made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import Certificate
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.tuning import Tuning

Array = NDArray[Any]
Report = Callable[[dict[str, float]], None]
TINY = float(np.finfo(np.float64).tiny)


class NullModel(Protocol):
    """The null model."""

    @property
    def scale(self) -> float:
        """Its loss above that of a perfect fit."""


class Judged(Protocol):
    """What of a problem is needed: rows in memory and rows in chunks have it."""

    penalty: BoundPenalty
    tuning: Tuning

    @property
    def dtype(self) -> np.dtype[Any]:
        """What X is worked on in."""

    @property
    def has_dual(self) -> bool:
        """Whether there are duality gaps."""

    @property
    def null(self) -> NullModel:
        """The null model."""


class Check(Protocol):
    """A check of all columns."""

    distance: float
    objective: float

    @property
    def g(self) -> Array:
        """The gradient."""

    @property
    def dual(self) -> float:
        """D at a feasible point."""


class Checked(Protocol):
    """A point and the last check of all columns there."""

    passes: int
    working: Array
    history: list[dict[str, float]]

    @property
    def measured(self) -> Check:
        """The last check."""

    def point(self) -> Any:
        """What `return_to` needs to come back here; None where the point is not checked."""

    def return_to(self, point: Any) -> None:
        """Go back to a point that was passed."""


class Stopping:
    """From one check of all columns to the next."""

    certificate: Certificate

    def __init__(
        self, problem: Judged, state: Checked, tol: float, max_passes: int, report: Report
    ) -> None:
        """`scale` is that of distances, and `target` the distance to bring all columns to."""
        self.scale = scale_of_distance(problem, state.measured.g)
        goal = tol * self.scale
        if problem.has_dual:  # a gap is a difference of numbers of the size of F, rounded as such
            goal = max(tol * problem.null.scale, 1e-15 * abs(state.measured.objective))
        self.goal, self.kind = goal, "gap" if problem.has_dual else "distance"
        self.max_passes, self.report, self.tuning = max_passes, report, problem.tuning
        self.target = np.inf
        self._dual = -np.inf
        self._best = self._lowest = np.inf
        self._point: tuple[float, Any] | None = None  # of the best certificate, with its value
        self._stalled = self._idle = 0
        self._passes = -1
        self._precision = 4.0 * float(np.finfo(problem.dtype).eps)

    def done(self, state: Checked, rough: bool = False) -> bool:
        """Whether a point is good enough, or no better one is to be had.

        One that is `rough` is not good enough, whatever its certificate.
        """
        now, tuning = state.measured, self.tuning
        self._dual = max(self._dual, now.dual)
        value = max(now.objective - self._dual, 0.0) if self.kind == "gap" else now.distance
        self.certificate = Certificate(self.kind, value, self.goal)  # type: ignore[arg-type]
        row = {"objective": now.objective, self.kind: value, "passes": state.passes,
               "working": state.working.size}  # fmt: skip
        state.history.append(row)
        self.report(row)
        self._idle = self._idle + 1 if state.passes == self._passes else 0
        self._passes = state.passes
        if self.certificate.reached and not rough:
            return True
        self._keep(state, value)
        if state.passes >= self.max_passes or self._idle == tuning.idle_checks:
            return True
        lower = now.objective < self._lowest - self._precision * abs(now.objective)
        better = lower or value < tuning.stall_ratio * self._best
        self._stalled = 0 if better else self._stalled + 1
        self._best, self._lowest = min(self._best, value), min(self._lowest, now.objective)
        # Near the solution a gap shrinks in proportion to the distance, so one tells the other.
        self.target = min(self.target, 0.5 * now.distance * self.goal / max(value, self.goal, TINY))
        return self._stalled == tuning.stalled_checks

    def _keep(self, state: Checked, value: float) -> None:
        """Remember a point if its certificate is the best so far: rounding may lead away from it.

        A gap is measured from the best dual value of all checks, so there the lowest F is best.
        """
        rank = state.measured.objective if self.kind == "gap" else value
        if self._point is None or rank < self._point[0]:
            point = state.point()
            self._point = self._point if point is None else (rank, point)

    def settle(self, state: Checked) -> None:
        """Go back to the best point, if the certificate does not hold at the last."""
        if self.certificate.reached or self._point is None:
            return
        rank, point = self._point
        value = max(rank - self._dual, 0.0) if self.kind == "gap" else rank
        if value < self.certificate.value:
            state.return_to(point)
            self.certificate = Certificate(self.kind, value, self.goal)  # type: ignore[arg-type]


def scale_of_distance(problem: Judged, g: Array) -> float:
    """λ: the largest |g| that keeps a zero; without any, the largest entry of the gradient g."""
    return problem.penalty.scale or float(np.abs(g).max(initial=0.0)) or 1.0
