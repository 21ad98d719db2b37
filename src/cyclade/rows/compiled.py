"""`core.iterate` for linear models in compiled code: the same cycles, many in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks.lag import Lag
from cyclade.blocks.layout import NoEstimate, Stored
from cyclade.core import State
from cyclade.rows import kernels
from cyclade.rows.steps import RowSearch, RowSteps
from cyclade.run.runner import Setup
from cyclade.sampling.orders import Backward, Forward
from cyclade.sampling.samplers import ALL, Full
from cyclade.steps.searched import LEAST, MOST_TRIALS, ROUNDED, SHRINK, SLACK


def compiled_cycles(
    model: Any, oracle: Any, setup: Setup, pause: Callable[[], bool]
) -> Callable[[State], Iterator[State]] | None:
    """Cycles that yield the state where `pause` says so, after n gradients at the latest.

    None where only `core.iterate` serves: several outputs, penalties on groups or of one's own,
    losses of one's own, orders that change, other steps.
    """
    loss, bound = kernels.KINDS.get(type(model.loss)), getattr(setup.reg, "bound", None)
    steps, X = setup.steps, oracle.X
    known = type(steps) is RowSearch or (type(steps) is RowSteps and steps.bounded)
    dense = isinstance(X, np.ndarray)
    if (
        not known or loss is None or bound is None or not bound.shipped
        or model.features.outputs is not None or type(setup.order) not in (Forward, Backward)
        or X.dtype not in (np.float32, np.float64) or (dense and not X.flags.c_contiguous)
    ):  # fmt: skip
        return None
    return _Cycles(model, oracle, setup, pause, loss(model.loss), bound.parameters)


class _Cycles:
    """The columns lie block after block while it runs; `order` says which is where."""

    def __init__(
        self, model: Any, oracle: Any, setup: Setup, pause: Callable[[], bool], loss: Any,
        penalty: Any,
    ) -> None:  # fmt: skip
        self.setup, self.pause, self.loss, self.penalty = setup, pause, loss, penalty
        features, self.n = model.features, int(oracle.n)
        sets, p = features.sets(), features.p
        self.m, self.order = len(sets), np.concatenate(sets)
        self.free, self.per_draw = features.fit_intercept, self.m // model.draws
        self.cols = self.order[self.order < p]
        widths = [int((own < p).sum()) for own in sets]
        self.starts = np.concatenate([[0], np.cumsum(widths)])
        self.shares = np.array(features.layout.shares())
        turns = range(self.m)
        backward = type(setup.order) is Backward
        self.turns = np.array(turns[::-1] if backward else turns)
        self.table = (*self._columns(oracle.X), oracle.y.astype(np.float64), oracle.weight,
                      np.empty(0) if oracle.offset is None else oracle.offset)  # fmt: skip
        entries = 2.0 * getattr(oracle.X, "nnz", math.inf) / self.n  # beside those of all columns
        batch = getattr(setup.sampler, "b_small", getattr(setup.sampler, "b", self.n))
        self.sparse_moves = setup.reg.bound.convex and entries * batch < p
        self.rooms = np.empty((11, 0))

    def _columns(self, X: Any) -> tuple[Array, Array, Array]:
        """Entries, their columns, and the bounds of every block in every row."""
        moved = (self.cols[1:] < self.cols[:-1]).any()
        if isinstance(X, np.ndarray):
            ends = np.empty((0, self.m + 1), np.int64)
            return np.ascontiguousarray(X[:, self.cols]) if moved else X, self.cols, ends
        X = X[:, self.cols] if moved else X
        if not X.has_sorted_indices:
            X = X.sorted_indices()
        ends = np.empty((self.n, self.m + 1), np.int64)
        kernels.bounds(X.indptr, X.indices, self.starts, ends)
        return X.data, X.indices, ends

    def __call__(self, state: State) -> Iterator[State]:
        """The cycles of `state`, without end."""
        while True:
            sizes, refreshes, etas, samples, cycles = self._draw(state)
            if max(sizes) > self.rooms.shape[1]:
                self.rooms = np.empty((11, max(sizes)))
            point = self._packed(state)
            steps: Any = self.setup.steps
            search = type(steps) is RowSearch
            metric = np.ones(point[0].size)
            metric[self.places] = np.concatenate(steps.D)
            beta = np.array(steps.beta) if search else np.full(self.m, steps.beta)
            top = np.array([steps.top if search else 0.0])
            rule = (steps.large if search else 0.0, SHRINK, SLACK, ROUNDED, LEAST, MOST_TRIALS,
                    self.sparse_moves)  # fmt: skip
            before = point[0].copy()
            tried = kernels.cycles(
                self.table, self.loss, self.penalty, self.cols, self.starts, self.turns,
                self.per_draw, self.free, self.shares, point, before, metric, beta, top, rule,
                (np.array(sizes), np.array(refreshes), np.array(etas), samples),
                np.empty(max(sizes), np.int64), self.rooms,
            )  # fmt: skip
            self.setup.oracle.hvps += tried
            if search:
                steps.beta, steps.top = beta.tolist(), float(top[0])
            self._unpack(state, point, before)
            state.k += cycles
            yield state

    def _draw(self, state: State) -> tuple[list[int], list[bool], list[float], Array, int]:
        """What is drawn until the next pause: sizes, coins, η, rows; how many cycles."""
        sampler, counts, rng, steps = (
            self.setup.sampler, self.setup.oracle, state.sample_rng, self.setup.steps,
        )  # fmt: skip
        sizes: list[int] = []
        coins: list[bool] = []
        etas: list[float] = []
        parts: list[Array] = []
        k, begun = state.k, counts.gradients
        draws = self.m // self.per_draw
        while True:
            steps.begin(k)
            for draw in range(draws):
                sample, refresh = sampler.draw(rng)
                size = self.n if sample is ALL else len(sample)
                sizes.append(size)
                coins.append(refresh)
                etas.append(steps.rate)
                if sample is not ALL:
                    parts.append(sample)
                share = counts.shares[self.turns[draw]] if draws > 1 else 1.0
                counts.gradients += size * share * (1.0 if refresh else 2.0)
            k += 1
            if self.pause() or counts.gradients - begun >= self.n or isinstance(sampler, Full):
                rows = np.concatenate(parts) if parts else np.empty(0, np.int64)
                return sizes, coins, etas, rows, k - state.k

    @property
    def places(self) -> Array:
        """Where the coordinates of the blocks, one after another, are kept."""
        return np.concatenate([np.arange(len(self.cols)), [-1]])[: len(self.order)]

    def _packed(self, state: State) -> tuple[Array, Array, Array]:
        """x, the lagged point and g; the last entry is the intercept's."""
        recursive = not isinstance(state.lag, NoEstimate)
        lag = state.lag.point if recursive else state.x
        g = np.concatenate(state.g.arrays) if recursive else np.zeros(len(self.order))
        found = np.zeros((3, len(self.cols) + 1))
        for row, values in zip(found, (state.x.view()[self.order], lag.view()[self.order], g),
                               strict=True):  # fmt: skip
            row[self.places] = values
        return found[0], found[1], found[2]

    def _unpack(self, state: State, point: tuple[Array, Array, Array], before: Array) -> None:
        """The state after the last cycle, which began at `before`, as `core.iterate` leaves it."""
        x, places = state.x, self.places
        ends = np.cumsum([*x.layout.sizes])[:-1]
        now, old, g = (np.split(values[places], ends) for values in (point[0], before, point[2]))
        if not isinstance(state.lag, NoEstimate):
            state.g = Stored(g)
            for j, u in enumerate(old):
                x.set(j, u)
            state.lag = Lag(x)
            for j in self.turns.tolist():
                state.lag.follow(j, old[j], now[j])
        for j, u in enumerate(now):
            x.set(j, u)
