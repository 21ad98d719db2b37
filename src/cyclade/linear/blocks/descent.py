"""Descent on one quadratic model: cycles over the blocks that matter, and extrapolation.

After every few cycles the points passed are combined so that the combination of their differences
is as short as can be (Anderson); the combination is kept only if it is lower. It costs no product
with X, as the residual is combined alongside.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.extrapolation import combine, weights
from cyclade.linear.blocks.panels import Panel, Past
from cyclade.linear.blocks.steps import copy_blocks

Array = NDArray[Any]

DEPTH = 4
"""Differences that are combined: one extrapolation after so many cycles."""

LAST = np.eye(DEPTH)[-1]
"""Of the points combined, the last alone."""

PATIENCE = 4
"""Looks at the blocks in a row that find them no better: the caller had better measure afresh."""


class Descent:
    """A panel with the penalty that goes with it, in the units of the panel."""

    def __init__(self, panel: Panel, reg: Any) -> None:
        self.panel, self.reg, self.unit = panel, reg, panel.unit
        self.table = reg.table if self.unit == 1.0 else reg.table / self.unit

    def distances(self, blocks: Array) -> Array:
        """How far each of the blocks is from stationary in the model."""
        panel = self.panel
        slopes = panel.slopes(blocks)
        x = panel.x.reshape(-1)
        return np.asarray(self.unit * self.reg.distances(blocks, x, -slopes, self.unit))

    def value(self, blocks: Array) -> float:
        """The model at the present point over `unit`, but for the penalty on other blocks."""
        penalty = float(self.reg.total(blocks, self.panel.x.reshape(-1)))
        return self.panel.loss() + penalty / self.unit

    def run(
        self, blocks: Array, eps: float, most: int, first: Array | None = None,
        trust: bool = False, bursts: int = 1,
    ) -> int:  # fmt: skip
        """Cycle until all of the blocks are eps-stationary, or `most` times; the cycles made.

        `first` are their distances at the start, where these are known. With `trust`, small moves
        are taken for stationarity: for callers that look at all blocks next anyway. `bursts` of
        cycles are made before the blocks are first looked at again.
        """
        panel, reg = self.panel, self.reg
        panel.include(blocks)
        passes, stale, best = 0, 0, np.inf
        while True:
            far = self.distances(blocks) if first is None else first
            first = None
            worst = float(far.max(initial=0.0))
            stale = 0 if worst < 0.9 * best else stale + 1
            best = min(best, worst)
            if passes >= most or worst <= eps or stale > PATIENCE:
                return passes
            active = reg.occupied(panel.x)[blocks] | (far > 0.1 * eps)
            chosen = blocks[active]
            panel.choose(chosen)
            for _ in range(bursts):
                done, largest = self.burst(chosen, min(DEPTH, most - passes), 0.3 * eps / self.unit)
                passes += done
                if passes >= most:
                    break
                if largest <= 0.3 * eps / self.unit:
                    if trust:
                        return passes
                    break
            bursts = min(2 * bursts, 8)

    def burst(self, blocks: Array, most: int, enough: float) -> tuple[int, float]:
        """A few cycles over the chosen blocks, and an extrapolation."""
        panel = self.panel
        past_x, past_R = self.past
        copy_blocks(panel.x.reshape(-1), self.reg.starts, blocks, past_x[0].reshape(-1))
        past_R[0] = panel.R
        done, largest = panel.cycles(self.table, most, enough, (past_x, past_R))
        if done == DEPTH and largest > enough:
            self.extrapolate(blocks, past_x.reshape(DEPTH + 1, -1), past_R.reshape(DEPTH + 1, -1))
        return done, largest

    @cached_property
    def past(self) -> Past:
        """Room for the points passed."""
        x, R = self.panel.x, self.panel.R
        return np.empty((DEPTH + 1, *x.shape)), np.empty((DEPTH + 1, *R.shape), R.dtype)

    def extrapolate(self, blocks: Array, past_x: Array, past_R: Array) -> None:
        """Combine the points passed; keep the combination if it is lower."""
        x, R, c = self.panel.x.reshape(-1), self.panel.R.reshape(-1), np.empty(DEPTH)
        if not weights(past_x, self.reg.starts, blocks, c):
            return
        value = self.value(blocks)
        combine(past_x, past_R, self.reg.starts, blocks, c, x, R)
        if not self.value(blocks) < value:
            combine(past_x, past_R, self.reg.starts, blocks, LAST, x, R)
