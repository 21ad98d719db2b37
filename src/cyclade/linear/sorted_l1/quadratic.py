"""min ½‖R‖² + Σ_k λ_k |x|_(k) over the columns of a panel: cycles, proximal and Newton steps.

Cycles over clusters (`clusters.py`) move fast but never split one. A proximal gradient step does:
it sorts the members of a cluster by what pulls them and pools anew. Where clusters, their order
and signs stay the same from one round to the next, F is a quadratic in the sizes of the clusters,
and Newton steps find its minimum, or the first point where two clusters meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.sorted_l1 import clusters, pattern
from cyclade.linear.sorted_l1.sorting import prox, sorted_residuals

Array = NDArray[Any]

CYCLES = 5  # between two proximal steps
PER_MEMBER = 8.0  # times the square of the support: what a Newton step costs beside products
MOST = 4000  # columns whose products are formed for one


class Descent:
    """A panel with the sequence λ_1 ≥ … ≥ λ_k of its k columns."""

    def __init__(self, panel: Any, lam: Array) -> None:
        self.panel, self.lam, k = panel, lam, lam.size
        self.Lam = np.concatenate([[0.0], np.cumsum(lam)])
        self.k, self.every = k, np.arange(k)
        self.bound = float(panel.L[:k].max())  # of ‖A d‖² / ‖d‖²: grows when it proves too small
        self.shape: tuple[Array, ...] | None = None
        self.spent, self.entries = 0.0, panel.entries(self.every)
        self.known, self.place, self.G = self.every[:0], np.full(k, -1), np.empty((0, 0))
        dense = hasattr(panel, "A")
        nothing = np.empty(0, panel.x.dtype if dense else panel.data.dtype)
        if dense:
            self.columns = (
                True, panel.A, nothing, np.empty(0, np.uint32), np.zeros(1, np.uint64),
                np.zeros(k), 1.0,
            )  # fmt: skip
        else:
            self.columns = (
                False, nothing.reshape(0, 0), panel.data, panel.rows, panel.starts,
                panel.sums, panel.mass,
            )  # fmt: skip

    def minimise(self, R: Array, x: Array, goal: float, most: int) -> tuple[Array, int]:
        """From x with residual R until dist(∂, 0) ≤ goal in every entry; x and the passes made."""
        self.panel.start(R, x)
        x, passes, best, tired = x.copy(), 0, np.inf, 0
        while passes < most:
            pull = self.panel.correlations()[: self.k]
            distance = float(np.abs(sorted_residuals(x, -pull, self.lam)[1]).max())
            if distance <= goal:
                break
            tired = 0 if distance < 0.9 * best else tired + 1
            best = min(best, distance)
            if tired == 100:  # rounding has the word: the check of all columns decides
                break
            x = self.split(x, pull)
            x, made = self.cycle(x, min(CYCLES, most - passes), 0.1 * goal)
            passes += 1 + made
            self.spent += 2.0 * (1 + made) * self.entries
            if self.is_due(x):
                x = self.newton(x)
                passes += 1
        return x, passes

    def split(self, x: Array, pull: Array) -> Array:
        """A proximal gradient step; its length is right if ‖A dx‖² ≤ bound ‖dx‖²."""
        while True:
            new = prox(x + pull / self.bound, self.lam / self.bound)
            dx = new - x
            square = float(dx @ dx)
            if square == 0.0:
                return x
            bend = float(np.sum(self.panel.product(dx) ** 2)) / square
            if bend <= self.bound * (1.0 + 1e-6):
                break
            self.bound = max(bend, 1.5 * self.bound)
        self.panel.advance(self.every, dx)
        return new

    def cycle(self, x: Array, most: int, enough: float) -> tuple[Array, int]:
        """Cycles over clusters."""
        k, panel = self.k, self.panel
        sign, size = np.empty(k), np.empty(k)
        rank, count, after, last = np.empty((4, k), np.int64)
        order = np.argsort(-np.abs(x), kind="stable")
        m = clusters.build(order, x, sign, rank, size, count, after, last)
        shift = 0.0 if self.columns[0] else panel.shift
        done, _, shift, m = clusters.cycles(
            *self.columns, panel.R, shift, panel.L, m, sign, rank, size, count, after, last,
            self.Lam, most, enough,
        )  # fmt: skip
        if not self.columns[0]:
            panel.shift = shift
        x = np.empty(k)
        clusters.read(m, sign, rank, size, after, x)
        panel.x[:k] = x
        return x, int(done)

    def is_due(self, x: Array) -> bool:
        """Whether clusters have settled, and a Newton step costs no more than the rounds so far."""
        order, starts, _ = shape = pattern.of(x)
        same = self.shape is not None and all(map(np.array_equal, shape, self.shape))
        self.shape = shape
        if not (same and 0 < order.size <= MOST):
            return False
        new, price = order[self.place[order] < 0], 0.0
        if new.size:
            price = 2.0 * self.panel.gram_breakeven_cycles(order, new) * self.panel.entries(order)
        price += PER_MEMBER * order.size**2 + starts.size**3 / 3
        if price > self.spent:
            return False
        self.spent = 0.0
        return True

    def newton(self, x: Array) -> Array:
        """To the minimum for these clusters, or for what becomes of them on the way there."""
        order, _, signs = pattern.of(x)
        G = self.products(order) * np.outer(signs, signs)
        pull = signs * self.panel.correlations()[order]
        size = pattern.minimise(np.abs(x[order]), G, pull, self.lam[: order.size])
        new = np.zeros(self.k)
        new[order] = signs * size
        self.panel.advance(self.every, new - x)
        return new

    def products(self, order: Array) -> Array:
        """A Aᵀ over these columns; what was formed is kept."""
        new = order[self.place[order] < 0]
        if new.size:
            self.G = self.panel.products(self.known, new, self.G)
            self.place[new] = self.known.size + np.arange(new.size)
            self.known = np.concatenate([self.known, new])
        at = self.place[order]
        return np.asarray(self.G[np.ix_(at, at)])
