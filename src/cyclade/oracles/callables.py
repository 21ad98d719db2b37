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
    Arguments,
    Derivatives,
    FiniteDifferences,
    Jacobian,
    Pair,
    Position,
    number,
    out_of_gradient,
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
        self.derivatives, self.calls = derivatives, derivatives.calls
        self.n = 1.0 if n is None else float(n)
        self._like = like
        # The last positions: of the current point, the lagged one, and the one evaluated.
        self._positions: deque[Position] = deque(maxlen=3)
        self._takes_sample = n is not None
        self._all_rows = Arguments()
        if n is not None and math.isfinite(n) and derivatives.needs_rows:
            self._all_rows = Arguments((as_index(np.arange(int(n)), like),))

    def sweep(self, x: Blocks, sample: Sample) -> CallableSweep:
        """A sweep from `x` on `sample`."""
        assert isinstance(x, Point)
        return CallableSweep(self.derivatives, self._position(x, sample))

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks."""
        assert isinstance(x, Point)
        at, derivatives = self._position(x, sample), self.derivatives
        value = at.value_by(derivatives)
        if derivatives.by_blocks and (self.layout.m == 1 or not derivatives.at_once):
            return value, [at.grad_by(derivatives, j) for j in range(self.layout.m)]
        # Not put where the sweeps look for blocks: a gradient at once may differ from theirs by
        # rounding, and evaluations must not change a run.
        return value, [out_of_gradient(derivatives, at, j) for j in range(self.layout.m)]

    def arguments(self, sample: Sample) -> Arguments:
        """What f takes beside x for this sample: nothing, indices or a batch."""
        if sample is ALL or not self._takes_sample:
            return self._all_rows
        rows = (sample.data if isinstance(sample, Batch) else as_index(sample, self._like),)
        return Arguments(rows, rows)

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

    def __init__(self, derivatives: Derivatives, at: Position) -> None:
        self._derivatives, self._at, self._x = derivatives, at, at.x
        self._trial: tuple[int, Array, Position] | None = None  # block, its place, what is known
        self.get, self._grad = at.x.get, derivatives.grad

    def set(self, j: int, u: Array) -> None:
        """Move block j to `u`; what a trial found there is taken over."""
        if self._trial is None:
            self._x.set(j, u)
            return
        known, self._trial = self._known_trial(j, u), None
        self._x.set(j, u)
        if known is not None:
            self._at.learn(known)

    def grad(self, j: int) -> Array:
        """∇^j f_S here."""
        at = self._at
        if at.stamp is not self._x.stamp:
            at.forget()
        gj = at.blocks.get(j)
        if gj is None:
            gj = at.blocks[j] = self._grad(at, j)
        return gj

    def value(self) -> float:
        """f_S here."""
        at = self._at
        if at.stamp is not self._x.stamp:
            at.forget()
        return at.value_by(self._derivatives)

    def trial(self, j: int, u: Array) -> float:
        """f_S at the point with block j at `u`; the point itself stays."""
        at = self._trial_at(j, u)
        with self._x.moved(j, u):
            return at.value_by(self._derivatives)

    def trial_grad(self, j: int, u: Array) -> Array:
        """∇^j f_S at the point with block j at `u`; the point itself stays."""
        at = self._trial_at(j, u)
        with self._x.moved(j, u):
            return at.grad_by(self._derivatives, j)

    def hvp(self, j: int, v: Array) -> Array:
        """∇²_jj f_S v here."""
        return self._derivatives.hvp(self._at, j, v)

    def _trial_at(self, j: int, u: Array) -> Position:
        """What is known with block j at `u`; its stamp is that of the point before the trial."""
        known = self._known_trial(j, u)
        if known is None:
            known = Position(self._x, self._at.sample, self._at.arguments)
            self._trial = (j, self._x.layout.copy(u), known)
        return known

    def _known_trial(self, j: int, u: Array) -> Position | None:
        """What the last trial found, if it was this one."""
        if self._trial is None:
            return None
        block, place, known = self._trial
        same = block == j and known.stamp is self._x.stamp and same_bits(place, u)
        return known if same else None
