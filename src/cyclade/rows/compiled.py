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


def compiled_cycles(
    model: Any, oracle: Any, setup: Setup, until: Callable[[], float]
) -> Callable[[State], Iterator[State]] | None:
    """Cycles that yield the state once `until()` component gradients were counted, or n more.

    None where only `core.iterate` serves: several outputs, penalties on groups or of one's own,
    losses of one's own, orders that change, other steps.
    """
    loss, bound = kernels.KINDS.get(type(model.loss)), getattr(setup.reg, "bound", None)
    steps, X = setup.steps, oracle.X
    known = type(steps) is RowSearch or (type(steps) is RowSteps and steps.bounded)
    if (
        not known or loss is None or bound is None or not bound.shipped
        or model.features.outputs is not None or type(setup.order) not in (Forward, Backward)
        or (isinstance(X, np.ndarray) and not X.flags.c_contiguous)
    ):  # fmt: skip
        return None
    return _Cycles(model, oracle, setup, until, loss(model.loss))


class _Cycles:
    """The columns lie block after block while it runs; `order` says which is where."""

    def __init__(
        self, model: Any, oracle: Any, setup: Setup, until: Callable[[], float], loss: Any
    ) -> None:
        self.setup, self.until, self.loss, self.penalty = setup, until, loss, setup.reg.bound
        features, n, X, sampler = model.features, int(oracle.n), oracle.X, setup.sampler
        self.searches, sets, p = type(setup.steps) is RowSearch, features.sets(), features.p
        m, self.order = len(sets), np.concatenate(sets)
        cols = self.order[self.order < p]
        self.places = np.append(np.arange(p), -1)[: len(self.order)]  # of the order, in the kernel
        starts = np.cumsum([0, *((own < p).sum() for own in sets)])
        turns = np.arange(m)[:: -1 if type(setup.order) is Backward else 1].copy()
        b, small = getattr(sampler, "b", n), getattr(sampler, "b_small", n)
        self.blocks = kernels.Blocks(
            cols, starts, turns, np.array(features.layout.shares()), features.fit_intercept
        )
        self.table = kernels.Table(
            *_by_blocks(X, cols, starts), oracle.y.astype(np.float64), oracle.weight,
            np.empty(0) if oracle.offset is None else oracle.offset,
        )  # fmt: skip
        early = getattr(sampler, "early", (0, 0))
        self.draws = kernels.Draws(
            b, small, getattr(sampler, "p", 1.0), early, model.draws, 0, 0.0, 0.0,
            getattr(setup.steps, "large", 0.0) if self.searches else 0.0,
        )  # fmt: skip
        ends = np.empty((max(b, small), m + 1), self.table.ends.dtype)
        self.rooms = np.arange(n), np.empty(max(b, small), np.int64), ends, np.empty((11, b))

    def __call__(self, state: State) -> Iterator[State]:
        """The cycles of `state`, without end."""
        counts, draws = self.setup.oracle, self.draws
        while True:
            until = min(self.until(), counts.gradients + self.table.y.size)
            ahead = max(until - counts.gradients, 0.0)
            most = math.ceil(ahead / min(draws.b, 2 * draws.b_small)) + 1
            steps: Any = self.setup.steps
            rates = np.empty(most)
            for k in range(most):
                steps.begin(state.k + k)
                rates[k] = steps.rate
            metric = np.ones(len(self.blocks.cols) + 1)
            metric[self.places] = np.concatenate(steps.D)
            beta = np.array(steps.beta) if self.searches else np.full(len(steps.D), steps.beta)
            top = np.array([steps.top if self.searches else 0.0])
            point = self._packed(state)
            made, counts.gradients, tried = kernels.cycles(
                self.table, self.loss, self.penalty.parameters, self.blocks, point,
                (metric, beta, top, rates),
                draws._replace(k=state.k, gradients=counts.gradients, until=until),
                state.sample_rng, self.rooms,
            )  # fmt: skip
            counts.hvps += tried
            steps.rate = rates[made - 1]
            if self.searches:
                steps.beta, steps.top = beta.tolist(), float(top[0])
            self._unpack(state, point)
            state.k += made
            yield state

    def _packed(self, state: State) -> tuple[Array, Array, Array, Array]:
        """x, the lagged point, g, and room for another; the last entry is the intercept's."""
        recursive = not isinstance(state.lag, NoEstimate)
        x = state.x.view()[self.order]
        found = np.zeros((4, len(self.blocks.cols) + 1))
        found[0, self.places] = x
        found[1, self.places] = state.lag.point.view()[self.order] if recursive else x
        if recursive:
            found[2, self.places] = np.concatenate(state.g.arrays)
        return found[0], found[1], found[2], found[3]

    def _unpack(self, state: State, point: tuple[Array, ...]) -> None:
        """The state after the last cycle, as `core.iterate` leaves it."""
        x, ends = state.x, np.cumsum(state.x.layout.sizes)[:-1]
        now, _, g, old = (np.split(values[self.places], ends) for values in point)
        if not isinstance(state.lag, NoEstimate):
            state.g = Stored(g)
            for j, u in enumerate(old):
                x.set(j, u)
            state.lag = Lag(x)
            for j in self.blocks.turns.tolist():
                state.lag.follow(j, old[j], now[j])
        for j, u in enumerate(now):
            x.set(j, u)


def _by_blocks(X: Any, cols: Array, starts: Array) -> tuple[Array, Array, Array]:
    """X with its columns block after block: entries, their columns, where blocks begin in rows."""
    if (cols[1:] < cols[:-1]).any():
        X = X[:, cols]
    if isinstance(X, np.ndarray):
        ends = np.tile(starts.astype(np.int32), (len(X), 1))
        return np.ascontiguousarray(X), np.empty(0, np.uint32), ends
    if not X.has_sorted_indices:
        X = X.sorted_indices()
    ends = np.empty((X.shape[0], len(starts)), X.indptr.dtype)
    kernels.bounds(X.indptr, X.indices, starts, ends)
    return X.data, X.indices.astype(np.int32, copy=False).view(np.uint32), ends
