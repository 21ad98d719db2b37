"""Cycles on one panel: bursts over the active columns, on products of columns once these pay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.panels.protocols import Panel
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.state import State
from cyclade.linear.subproblem.gram import Gram

Array = NDArray[Any]

BURST = 4  # cycles before the active columns are chosen anew, at first; then more
ENTRY = 0.1  # of the distance aimed at: columns with less do not move
RATE = 4.0  # cycles that bring distances down by a factor e, to begin with
CHEAP = 8  # cycles: below, the price of moving products about is not looked at
PATIENCE = 100  # the most cycles on a model that is not exact


class PanelSolver:
    """A panel at work, and what was learnt about its columns."""

    def __init__(self, panel: Panel) -> None:
        self.panel, self.gram = panel, Gram()
        self.spent = 0  # cycles made on the panel itself

    def cycle(
        self, penalty: BoundPenalty, state: State, at: Array, eps: float, most: int, forcing: float,
        first: Array | None = None, leave: bool = False, least: float = math.inf,
    ) -> bool:  # fmt: skip
        """Cycle over the active ones of the columns `at` until all of them are eps-stationary.

        The first distances are those of the true objective, since a model has its slopes: if they
        are small enough nothing is done, and the answer is no. An inexact model is not worth an
        exact minimum: its distances come down by the factor `forcing`, which is zero for an exact
        one. `first` are the correlations at the start, where they are known; with `leave`, what
        cycles on products came to is left for the caller to look at. `least` is the distance that
        will be asked for in the end: with rows enough, products are used until that is reached.
        """
        panel, gram, burst, goal, begun = self.panel, self.gram, BURST, None, state.passes
        W, enough = panel.cols[at], 0.3 if forcing else 0.6
        while state.passes < most:
            x = panel.x[at]
            correlations = panel.correlations(at) if first is None else first
            first = None
            distances = penalty.distances(W, x, -correlations)
            worst = float(distances.max(initial=0.0))
            if goal is None:
                if worst <= eps:
                    return False
                goal = max(0.3 * eps, forcing * worst) if forcing else eps
                most = min(most, state.passes + PATIENCE) if forcing else most
            elif worst <= goal:
                break
            active = at[(x != 0) | (distances > ENTRY * goal)]
            left, ahead = most - state.passes, 0.0
            if not forcing and 2 * np.count_nonzero(x) > active.size:  # they will stay active
                end = min(goal, least) if 2 * active.size <= panel.root.size else goal
                ahead = RATE * math.log(worst / end) if end > 0 else PATIENCE
            pays = self.spent + ahead >= panel.gram_breakeven_cycles(
                active, gram.lacking(panel, active)
            )
            if pays and not forcing:  # products that are kept are still k² numbers at every call
                moved = active.size**2 // max(panel.entries(active), 1.0)
                pays = moved < CHEAP or state.passes - begun + ahead >= moved
            if pays:
                gram.take(panel, penalty, active, correlations, at)
                exact = not forcing and int(np.count_nonzero(gram.x)) <= panel.root.size
                done = gram.minimise(0.3 * goal, left, exact)
                gram.give(panel)
                most = 0 if leave else most
            else:
                panel.choose(active)
                done = self._burst(penalty, active, min(burst, left), enough * goal)
                self.spent += done
                burst = min(2 * burst, 32)
            state.passes += done
        return True

    def _burst(self, penalty: BoundPenalty, active: Array, most: int, enough: float) -> int:
        """Cycles over these columns; after the first, where that is free, over those that moved."""
        panel, done = self.panel, 0
        if panel.choice_is_free and most > 1:
            done, largest = panel.cycles(penalty, 1, enough)
            if largest <= enough:
                return done
            panel.choose(active[panel.x[active] != 0])
        return done + panel.cycles(penalty, most - done, enough)[0]


class IncrementalPanelSolver(PanelSolver):
    """For weights that never change: columns come in, none leaves, and all products are kept."""

    def __init__(self, panel: Panel, p: int, w: Array, centred: bool) -> None:
        super().__init__(panel)
        self._place = np.full(p, -1)
        self._root, self.mass, self._centred = np.sqrt(w), float(w.sum()), centred

    def start(self, x: Array, slopes: Array, slope: float) -> None:
        """Begin at x (of all columns), where the loss has these slopes in z, of sum `slope`."""
        R = -slopes
        R /= self._root
        if self._centred:
            R += (slope / self.mass) * self._root
        self.panel.start(R, x[self.panel.cols])

    def places(self, W: Array) -> Array:
        """The columns of the panel that have these names, which it takes in where it has not."""
        new = W[self._place[W] < 0]
        if new.size:
            self._place[new] = self.panel.extend(new)
        return np.sort(self._place[W], kind="stable")  # runs are merged
