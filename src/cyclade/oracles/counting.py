"""Wrappers that count what a run asks of f and r, and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclade._arrays import Array, same_bits
from cyclade.sampling.samplers import Sample, Sampler


@dataclass
class Calls:
    """How often the functions a user gave were called: for values, and for gradients."""

    nfev: int = 0
    njev: int = 0


class Counting:
    """An oracle that counts what the method asks for; `evaluate`, which watches it, is not counted.

    One block's gradient on a sample of size s counts s · d^j / d component gradients, so a cycle
    over all blocks counts s, as in the paper's complexity. `values` and `hvps` count function
    values and Hessian-vector products, in samples. What is asked again while the point stays counts
    once, and a point that moves to a trial has its value already.
    """

    def __init__(self, oracle: Any, sampler: Sampler, shares: list[float]) -> None:
        self.oracle, self.sampler, self.shares = oracle, sampler, shares
        self.calls: Calls = getattr(oracle, "calls", None) or Calls()
        self.gradients = self.values = self.hvps = 0.0
        self.valued: tuple[object, Sample] = (None, None)  # where the last value was asked for

    def sweep(self, x: Any, sample: Sample) -> _CountingSweep:
        """The wrapped oracle's sweep, counted."""
        return _CountingSweep(self, self.oracle.sweep(x, sample), x, sample)

    def evaluate(self, x: Any, sample: Sample) -> tuple[float, list[Array]]:
        """f_S(x) and ∇f_S(x), not counted."""
        found: tuple[float, list[Array]] = self.oracle.evaluate(x, sample)
        return found


class _CountingSweep:
    def __init__(self, counts: Counting, sweep: Any, x: Any, sample: Sample) -> None:
        self._counts, self._sweep, self._x, self._sample = counts, sweep, x, sample
        self._size, self._shares = counts.sampler.size(sample), counts.shares
        self._asked: set[int] = set()  # blocks whose gradients were asked for at `_stamp`
        self._stamp: object = None
        self._tried: tuple[int, Array] | None = None
        self.get, self._grad, self._set = sweep.get, sweep.grad, sweep.set  # asked every turn

    def set(self, j: int, u: Array) -> None:
        self._set(j, u)
        if self._tried is not None:
            (block, where), self._tried = self._tried, None
            if block == j and same_bits(where, u):
                self._counts.valued = (self._x.stamp, self._sample)

    def grad(self, j: int) -> Array:
        stamp = self._x.stamp
        if stamp is not self._stamp:
            self._stamp, self._asked = stamp, {j}
            self._counts.gradients += self._size * self._shares[j]
        elif j not in self._asked:
            self._asked.add(j)
            self._counts.gradients += self._size * self._shares[j]
        return self._grad(j)

    def value(self) -> float:
        stamp, sample = self._counts.valued
        if stamp is not self._x.stamp or sample is not self._sample:
            self._counts.values += self._size
            self._counts.valued = (self._x.stamp, self._sample)
        return float(self._sweep.value())

    def trial(self, j: int, u: Array) -> float:
        if self._tried is None or self._tried[0] != j or not same_bits(self._tried[1], u):
            self._counts.values += self._size
            self._tried = (j, u)
        return float(self._sweep.trial(j, u))

    def trial_grad(self, j: int, u: Array) -> Array:
        self._counts.gradients += self._size * self._shares[j]
        return self._sweep.trial_grad(j, u)

    def hvp(self, j: int, v: Array) -> Array:
        self._counts.hvps += self._size * self._shares[j]
        return self._sweep.hvp(j, v)

    @property
    def terms(self) -> float:
        """How many terms the sample has."""
        return self._size

    def bend(self, j: int, u: Array) -> tuple[float, float]:
        """⟨∇^j f_S with block j at `u` less that here, the move⟩, a product; and Σ|…|."""
        self._counts.hvps += self._size * self._shares[j]
        if hasattr(self._sweep, "bend"):
            found: tuple[float, float] = self._sweep.bend(j, u)
            return found
        here, move = self._sweep.grad(j), u - self.get(j)
        turned = self._sweep.trial_grad(j, u) - here
        return float((turned * move).sum()), float(abs(here * move).sum())

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
        self._prox = reg.prox

    def prox(self, j: int, u: Array, t: Array | float) -> Array:
        """The wrapped prox, counted."""
        self.calls += 1
        return self._prox(j, u, t)
