"""Cycles on one panel: bursts over the active columns, on products of columns once these pay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits
from cyclade.linear.panels.protocols import Panel
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class PanelSolver:
    """A panel and the products of its columns, where these were formed.

    Forming products is put off until the cycles already made, and those ahead where the columns
    will stay active, cost as much: so it at most doubles the work.
    """

    def __init__(self, panel: Panel, tuning: Tuning = DEFAULT) -> None:
        self.panel, self.gram, self.tuning = panel, Gram(tuning), tuning
        self.spent = 0  # cycles made on the panel itself
        self.rate = tuning.cycle_rate[panel.choice_is_free]  # cycles per factor e of the distance

    def minimise(
        self, penalty: BoundPenalty, at: Array, goal: float, budget: int, *, forcing: float = 0.0,
        correlations: Array | None = None, once: bool = False, final: float = np.inf,
    ) -> int:  # fmt: skip
        """Cycle over the active columns of `at` until all are goal-stationary; the cycles made.

        None are made if the columns are goal-stationary at the start.

        Parameters
        ----------
        penalty, at, goal, budget
            The penalty, columns of the panel, a distance from stationary, and the most cycles.
        forcing : float
            For a model that is not exact, the factor by which its first distance is brought down;
            a better minimum is not worth more cycles.
        correlations : array, optional
            Those of the columns at the start, where they are known.
        once : bool
            Return after products of columns have been used, for a check by the caller; R is not
            moved then.
        final : float
            The distance that later calls will come down to, for products that are kept.
        """
        panel, gram, tuning = self.panel, self.gram, self.tuning
        cols, burst, done, made, before = panel.cols[at], tuning.burst, 0, 0, 0.0
        goal = limit = max(goal, self._rounding())
        while done < budget:
            x = panel.x[at]
            if correlations is None:
                self.residual()
                correlations = panel.correlations(at)
            distances = penalty.distances(cols, x, -correlations)
            worst = float(distances.max(initial=0.0))
            if worst <= limit:
                break
            if made:
                most = tuning.cycle_rate[0]  # a distance that rises says that others have come in
                self.rate = made / max(math.log(before / worst), made / most) if most else 0.0
            before, made = worst, 0
            if done == 0 and forcing:
                limit = max(tuning.inner_part * goal, forcing * worst)
                budget = min(budget, limits.CYCLES)
            active = at[(x != 0) | (distances > tuning.active_part * limit)]
            left, ahead = budget - done, 0.0
            if not forcing and 2 * int(np.count_nonzero(x)) > active.size:  # they will stay active
                ahead = self._cycles_ahead(active, worst, limit, final)
            if self._products_pay(active, done, ahead, bool(forcing)):
                gram.take(panel, penalty, active, correlations, at)
                polish = not forcing and int(np.count_nonzero(gram.x)) <= panel.root.size
                done += gram.minimise(tuning.inner_part * limit, left, polish)
                if once:  # R is not needed any more
                    panel.x[gram.columns] += (gram.x - gram.begun).astype(panel.x.dtype)
                    break
                self.residual()
                gram.give(panel)
            else:
                self.residual()
                panel.choose(active)
                tolerance = (1 if forcing else 2) * tuning.inner_part * limit
                made = self._burst(penalty, active, min(burst, left), tolerance)
                self.spent, done, burst = self.spent + made, done + made, min(2 * burst, 32)
            correlations = None
        return done

    def residual(self) -> None:
        """Have R at the point of the panel."""

    def _rounding(self) -> float:
        """The distance that float32 cannot tell from zero: of a product a_j · R, as it is rounded.

        Cycles would go on below it to the last pass, and lead away.
        """
        panel = self.panel
        if panel.x.dtype == np.float64:
            return 0.0
        self.residual()
        size = math.sqrt(float(panel.L.max(initial=0.0))) * float(np.linalg.norm(panel.R))
        return float(np.finfo(panel.x.dtype).eps) * size

    def _cycles_ahead(self, active: Array, worst: float, limit: float, final: float) -> float:
        """Cycles from the distance `worst` down; with rows enough, to the last one asked for."""
        end = min(limit, final) if 2 * active.size <= self.panel.root.size else limit
        if end <= 0.0:
            return float(limits.CYCLES)
        return self.rate * math.log(worst / end)

    def _products_pay(self, active: Array, done: int, ahead: float, inexact: bool) -> bool:
        """Whether the cycles made and those ahead cost more than products of the active columns."""
        panel = self.panel
        lacking = self.gram.lacking(panel, active)
        if self.spent + ahead < panel.gram_breakeven_cycles(active, lacking):
            return False
        # Products that are kept are still k² numbers to copy at every call.
        return inexact or done + ahead >= active.size**2 // max(panel.entries(active), 1.0)

    def _burst(
        self, penalty: BoundPenalty, active: Array, max_cycles: int, tolerance: float
    ) -> int:
        """Cycles over these columns; after the first, where that is free, over the support."""
        panel, done = self.panel, 0
        if panel.choice_is_free and max_cycles > 1:
            done, largest = panel.cycles(penalty, 1, tolerance)
            if largest <= tolerance:
                return done
            panel.choose(active[panel.x[active] != 0])
        return done + panel.cycles(penalty, max_cycles - done, tolerance)[0]


class IncrementalPanelSolver(PanelSolver):
    """For weights that never change: columns come in, none leaves, and all products are kept."""

    def __init__(self, panel: Panel, p: int, tuning: Tuning = DEFAULT) -> None:
        super().__init__(panel, tuning)
        self._place = np.full(p, -1)
        self._slopes: tuple[Array, float] | None = None  # of the loss, until R is computed

    def start(self, x: Array, slopes: Array, slope: float) -> None:
        """Begin at x (of all columns), where the loss has these slopes in z, of sum `slope`."""
        self._slopes = slopes, slope
        self.panel.place(x[self.panel.cols])

    def residual(self) -> None:
        """Compute R where that was put off: on products of columns it may never be needed."""
        if self._slopes is None:
            return
        slopes, self._slopes = self._slopes, None
        self.panel.begin(*slopes, self.panel.x[: self.panel.cols.size])

    def places(self, W: Array) -> Array:
        """The places of the coordinates W in the panel, which takes in those it has not."""
        new = W[self._place[W] < 0]
        if new.size:
            self._place[new] = self.panel.extend(new)
        return np.sort(self._place[W], kind="stable")  # runs are merged
