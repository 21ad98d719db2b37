"""Wrappers that count what a run asks of f and r, and change nothing else."""

from __future__ import annotations

from typing import Any

from cyclade._arrays import Array
from cyclade.samplers import Sample, Sampler


class Counting:
    """An oracle that counts.

    `gradients` counts component gradients: one block's gradient on a sample of size s counts
    s · d^j / d, so a cycle over all blocks on that sample counts s, as in the paper's complexity.
    A step of the recursive estimator looks at two points and counts both. `values` and `hvps` count
    the function values and Hessian-vector products that line searches and curvature estimates use,
    in samples.
    """

    def __init__(self, oracle: Any, sampler: Sampler, shares: list[float]) -> None:
        self.oracle, self.sampler, self.shares = oracle, sampler, shares
        self.gradients = self.values = self.hvps = 0.0

    def sweep(self, x: Any, sample: Sample) -> _CountingSweep:
        """The wrapped oracle's sweep, counted."""
        return _CountingSweep(self, self.oracle.sweep(x, sample), self.sampler.size(sample))


class _CountingSweep:
    def __init__(self, counts: Counting, sweep: Any, size: float) -> None:
        self._counts, self._sweep, self._size = counts, sweep, size
        self._asked: set[int] = set()
        self.get = sweep.get

    def set(self, j: int, u: Array) -> None:
        self._asked.clear()
        self._sweep.set(j, u)

    def grad(self, j: int) -> Array:
        if j not in self._asked:  # a sweep remembers what it was asked at a position
            self._asked.add(j)
            self._counts.gradients += self._size * self._counts.shares[j]
        return self._sweep.grad(j)

    def value(self) -> float:
        self._counts.values += self._size
        return float(self._sweep.value())

    def hvp(self, j: int, v: Array) -> Array:
        self._counts.hvps += self._size * self._counts.shares[j]
        return self._sweep.hvp(j, v)

    def __getattr__(self, name: str) -> Any:
        """What is not counted, such as what steps ask of the sweeps they are made for."""
        if name.startswith("_"):  # a copy under construction has no sweep to ask
            raise AttributeError(name)
        return getattr(self._sweep, name)


class CountingProx:
    """A separable regulariser that counts its prox calls."""

    def __init__(self, reg: Any) -> None:
        self.reg = reg
        self.calls = 0

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """The wrapped prox, counted."""
        self.calls += 1
        return self.reg.prox(j, u, t)
