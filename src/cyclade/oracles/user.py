"""An oracle that the user wrote: sweeps of their own, made fit for line searches and the rest."""

from __future__ import annotations

from typing import Any

from cyclade._arrays import Array, same_bits
from cyclade.blocks import Blocks, Layout, Point
from cyclade.oracles.callables import CallableSweep, OneFunction, block_like, number
from cyclade.oracles.counting import Calls
from cyclade.sampling.samplers import Sample

NEEDED = {
    "get": "get(j): block j of the point",
    "set": "set(j, u): move block j of the point to u",
    "grad": "grad(j): the gradient of f with respect to block j",
    "value": "value(): f at the point",
}


class UserOracle:
    """The oracle that a user gives: any object with ``sweep(x, sample)``.

    A sweep is a point that moves along a cycle, one block at a time, with whatever is worth keeping
    between blocks (residuals, products). It has

    * ``get(j)``: block j; ``x.get`` of the point it was given will do;
    * ``set(j, u)``: move block j to u, both in ``x`` (by ``x.set(j, u)``) and in what it keeps;
    * ``grad(j)``: ∇^j f_S here, shaped like the block;
    * ``value()``: f_S here.

    ``x.view()`` gives the whole point in the structure of x0. `sample` is `cyclade.sampling.ALL`
    where all of f is meant, an array of indices for a finite sum, or, of a stream, a
    `cyclade.sampling.StreamBatch`, which has its samples in ``data``.

    What else is needed is made from these: trials move the block there and back, products with the
    Hessian are central differences of gradients, evaluations use a fresh sweep on a copy of x. What
    is missing or wrong in a sweep is said before it moves for the first time.
    """

    def __init__(self, oracle: Any, layout: Layout) -> None:
        self.oracle, self.layout, self.calls = oracle, layout, Calls()
        self._checked = False
        self._last: tuple[object, Sample, tuple[float, list[Array]]] | None = None

    def sweep(self, x: Blocks, sample: Sample) -> UserSweep:
        """The user's sweep from `x` on `sample`."""
        assert isinstance(x, Point)
        if not self._checked:
            self._check(x, sample)
        return UserSweep(x, sample, self.oracle.sweep(x, sample), self.calls)

    def evaluate(self, x: Blocks, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x), and ∇f_S(x) by blocks; remembered while x stays."""
        assert isinstance(x, Point)
        if self._last is not None:
            stamp, seen, found = self._last
            if stamp is x.stamp and seen is sample:
                return found
        at = self.sweep(x.copy(), sample)
        found = at.value(), [at.grad(j) for j in range(self.layout.m)]
        self._last = (x.stamp, sample, found)
        return found

    def _check(self, x: Point, sample: Sample) -> None:
        """See on a copy that sweeps have what they need and do as they should."""
        trial = x.copy()
        sweep = self.oracle.sweep(trial, sample)
        lacking = [name for name in NEEDED if not callable(getattr(sweep, name, None))]
        missing = "; ".join(NEEDED[name] for name in lacking)
        if missing:
            raise TypeError(f"the sweep {type(sweep).__name__} of the oracle lacks {missing}")
        at, last = UserSweep(trial, sample, sweep, self.calls), self.layout.m - 1
        at.value()
        at.grad(last)
        place = 1.001 * x.get(last) + 0.001
        at.set(last, place)
        if not (same_bits(trial.get(last), place) and same_bits(at.get(last), place)):
            raise ValueError(
                f"set(j, u) of the sweep {type(sweep).__name__} did not move block {last} of the "
                "point to u: it must call x.set(j, u), and get(j) must return what x.get(j) does"
            )
        self._checked = True


class UserSweep(CallableSweep):
    """A user's sweep, with trials and Hessian-vector products."""

    def __init__(self, x: Point, sample: Sample, sweep: Any, calls: Calls) -> None:
        super().__init__(_Asked(sweep, calls), x, sample)
        self._sweep, self.get, self._move = sweep, sweep.get, sweep.set

    def __getattr__(self, name: str) -> Any:
        """What else the user's sweep has, for steps that are made for it."""
        if name.startswith("_"):  # a copy under construction has no sweep to ask
            raise AttributeError(name)
        return getattr(self._sweep, name)


class _Asked(OneFunction):
    """Value and gradients of a user's sweep, where it stands."""

    def __init__(self, sweep: Any, calls: Calls) -> None:
        self._sweep, self.calls = sweep, calls

    def value(self, at: CallableSweep) -> float:
        self.calls.nfev += 1
        return number(self._sweep.value())

    def grad(self, at: CallableSweep, j: int) -> Array:
        self.calls.njev += 1
        return block_like(self._sweep.grad(j), at.x, j, "grad")
