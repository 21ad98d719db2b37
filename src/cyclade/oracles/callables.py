"""Any f a user can write as a function: torch (autograd), or NumPy with its gradient.

This is the generic sweep: `set` stores, `grad` calls. Slow, always right. What a call of the
user's functions found is remembered while the point stays where it is, by later sweeps and
evaluations too, so that nothing is computed twice.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from cyclade._arrays import Array, as_index, same_bits
from cyclade.blocks import Blocks, Layout, Point
from cyclade.oracles.autograd import Autograd
from cyclade.oracles.derivatives import (
    Derivatives,
    FiniteDifferences,
    Jacobian,
    Pair,
    Position,
    Told,
    number,
)
from cyclade.samplers import ALL, Batch, Sample

__all__ = [
    "Autograd",
    "CallableOracle",
    "CallableSweep",
    "Derivatives",
    "FiniteDifferences",
    "Jacobian",
    "Pair",
    "number",
]


class CallableOracle:
    """f as a function: fun(x), fun(x, idx) for n terms, or fun(x, batch) for a stream.

    A function whose `idx` has a default is called without it where all n terms are meant;
    otherwise it gets all n indices.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade import Layout
    >>> from cyclade.samplers import ALL
    >>> layout = Layout.of(np.zeros(2), "coordinates")
    >>> f = Jacobian(lambda x: 0.5 * x @ x, lambda x: x)
    >>> oracle = CallableOracle(layout, f, None, np.zeros(2))
    >>> oracle.evaluate(layout.point(np.array([3.0, 4.0])), ALL)
    (12.5, [array([3.]), array([4.])])
    """

    def __init__(self, layout: Layout, derivatives: Derivatives, n: float | None, like: Array):
        self.layout = layout
        self.derivatives = derivatives
        self.n = 1.0 if n is None else float(n)
        self._like = like
        # The last positions: of the current point, the lagged one, and the one evaluated.
        self._positions: deque[Position] = deque(maxlen=3)
        self._takes_sample = n is not None
        self._told_all: Told = ((), ())
        if n is not None and math.isfinite(n) and derivatives.needs_rows:
            self._told_all = ((as_index(np.arange(int(n)), like),), ())

    def sweep(self, x: Blocks, sample: Sample) -> CallableSweep:
        """A sweep from `x` on `sample`."""
        assert isinstance(x, Point)
        return CallableSweep(self, self._position(x, sample))

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks."""
        assert isinstance(x, Point)
        at, derivatives = self._position(x, sample), self.derivatives
        value = self.value(at)
        if derivatives.by_blocks and (self.layout.m == 1 or not derivatives.at_once):
            # What the sweeps ask for too.
            blocks = [self.grad(at, j) for j in range(self.layout.m)]
        else:
            if at.arrays is None:
                at.arrays = derivatives.gradient(at)
            blocks = [slot.read(at.arrays) for slot in self.layout.slots]
        return value, blocks

    def value(self, at: Position) -> float:
        """f_S at a position, computed if it is not known there."""
        if at.value is None:
            at.value = self.derivatives.value(at)
        return at.value

    def grad(self, at: Position, j: int) -> Array:
        """∇^j f_S at a position, computed if it is not known there.

        Where blocks are asked for one by one, a whole gradient that an evaluation left is not used:
        it may differ by rounding, and evaluations must not change a run.
        """
        if self.derivatives.by_blocks:
            gj = at.blocks.get(j)
            if gj is None:
                gj = at.blocks[j] = self.derivatives.grad(at, j)
            return gj
        if at.arrays is None:
            at.arrays = self.derivatives.gradient(at)
        return self.layout.slots[j].read(at.arrays)

    def arguments(self, sample: Sample) -> Told:
        """What f takes beside x for this sample: nothing, indices or a batch."""
        if sample is ALL or not self._takes_sample:
            return self._told_all
        rows = (sample.data if isinstance(sample, Batch) else as_index(sample, self._like),)
        return rows, rows

    def _position(self, x: Point, sample: Sample) -> Position:
        """Where `x` is, with what is known there."""
        known = None
        for at in self._positions:
            if at.sample is sample:
                if at.x is x:
                    if at.stamp is not x.stamp:
                        at.forget()
                    return at
                if at.stamp is x.stamp:
                    known = at
        found = Position(x, sample, self.arguments(sample))
        if known is not None:  # of a copy of x, which may move on by itself
            found.learn(known)
        self._positions.append(found)
        return found


class CallableSweep:
    """The generic sweep."""

    def __init__(self, oracle: CallableOracle, at: Position) -> None:
        self._oracle, self._at, self._x = oracle, at, at.x
        self._trial: tuple[int, Array, Position] | None = None  # block, its place, what is known
        self.get = at.x.get

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`; what a trial found there is taken over."""
        tried, self._trial = self._trial, None
        if tried is not None:
            trial_j, trial_u, known = tried
            taken = trial_j == j and known.stamp is self._x.stamp and same_bits(trial_u, u)
            self._x.set(j, u)
            if taken:
                self._at.learn(known)
        else:
            self._x.set(j, u)

    def grad(self, j: int) -> Array:
        """∇^j f_S here."""
        at = self._at
        if at.stamp is not self._x.stamp:
            at.forget()
        return self._oracle.grad(at, j)

    def value(self) -> float:
        """f_S here."""
        at = self._at
        if at.stamp is not self._x.stamp:
            at.forget()
        return self._oracle.value(at)

    def trial(self, j: int, u: Array) -> float:
        """f_S at the point with block j at `u`; the point itself stays."""
        at = self._trial_at(j, u)
        if at.value is None:
            with self._x.moved(j, u):
                at.value = self._oracle.derivatives.value(at)
        return at.value

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S at the point with block j at `u`; the point itself stays."""
        at = self._trial_at(j, u)
        with self._x.moved(j, u):
            return self._oracle.grad(at, j)

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v here."""
        return self._oracle.derivatives.hvp(self._at, j, v)

    def _trial_at(self, j: int, u: Array) -> Position:
        """What is known with block j at `u`; its stamp is that of the point before the trial."""
        tried = self._trial
        if tried is not None:
            trial_j, trial_u, known = tried
            if trial_j == j and known.stamp is self._x.stamp and same_bits(trial_u, u):
                return known
        known = Position(self._x, self._at.sample, self._at.told)
        self._trial = (j, self._x.layout.copy(u), known)
        return known
