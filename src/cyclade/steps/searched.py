"""Steps for methods that sample: Λ_j searched on the samples as they come."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cyclade._arrays import Array, norm2, rounding_unit
from cyclade.sampling.samplers import FiniteSum
from cyclade.steps.base import Eta, Rated
from cyclade.steps.scaling import equilibrate
from cyclade.theory import max_eta

SHRINK = 0.97  # Λ_j from one visit of a block to the next, where it may come down
SLACK = 1.001  # a curvature that does not change is met again to rounding
CALM = 8
MOST_TRIALS = 60
ROUNDED = 1e-10  # a difference of gradients, beside them, that says nothing
LEAST = 1e-12  # of the largest Λ_j so far: the smallest


def eta_of(n: float, b: int, b_small: int, p: float) -> float:
    """How much the noise of the estimates lowers the largest η of Theorem 2, with L̂ = L̃ = 1."""
    return max_eta(1.0, 1.0, n, b, b_small, p) / max_eta(1.0, 1.0, 1, 1, 1, 1.0)


def falling(eta: float, per_epoch: float) -> Callable[[int], float]:
    """η_k = η / √(1 + epochs done): for methods whose gradients stay noisy."""
    return lambda k: eta / math.sqrt(1.0 + k / per_epoch)


def rate_and_large(sampler: Any, eta: Any = None) -> tuple[Eta, float]:
    """η for the samples of a method (that of SCCD and SGD falls), and the size not searched."""
    n, b, small = sampler.source.n, sampler.b, sampler.b_small
    if not sampler.recursive:
        per_epoch = n / b if math.isfinite(n) else 64.0
        return falling(1.0, per_epoch) if eta is None else eta, math.inf
    if eta is None:
        eta = eta_of(n if math.isinf(n) else int(n), b, small, sampler.p)
    return eta, b if small < b else math.inf


def small_batch(b: int) -> int:
    """The default b' where steps are searched: 3√b, as the calls of a cycle cost time too."""
    return min(b, round(3.0 * math.sqrt(b)))


class Searched(Rated):
    """Λ_j = β_j D_j, with β_j raised until the sample in hand curves no more along the step.

    With u = x_k^j − x_{k−1}^j, a step is taken where

        ⟨∇^j f_S(x_{k−1,j+1}) − ∇^j f_S(x_{k−1,j}), u⟩ ≤ β_j ‖u‖²_{D_j}

    on the sample S; else β_j is at least doubled. After a step β_j comes down by `SHRINK`, or to
    the curvature that was seen, if that is more. Samples of at least `large` terms are not asked.

    Where F rose, small samples miss some curvature. From then on large samples are asked too, and
    what they show is a lower bound on β_j until the next of them.

    D_j gives the rows of block j's Hessian equal norms on a sample at x_0, in the blocks that
    `scaled` names (see `cyclade.steps.scaling`); else it is one.
    """

    measured = True  # `metric` is the curvature of f along steps
    learnt = ("beta", "top", "D", "floor", "asked", "calm")
    every = 4  # once β_j was not raised for `CALM` visits, samples are asked at each so many
    why_short = "single terms curve so much more than their mean"

    def __init__(
        self, blocks: int, eta: Eta = 1.0, large: float = math.inf, scaled: Sequence[int] = ()
    ) -> None:
        super().__init__(eta)
        self.blocks, self.large, self.scaled = blocks, large, scaled
        self.asked = large  # samples of at least so many terms are not asked
        self.beta, self.floor, self.top = [1.0] * blocks, [0.0] * blocks, 0.0
        self.D: list[Any] = [1.0] * blocks
        self.calm = [0] * blocks  # visits since β_j was raised

    def first_sample(self, n: int, rng: np.random.Generator) -> Any:
        """The terms at x_0 that D_j is measured on, which cost about a pass over all n."""
        fair = n // (40 * max(len(self.scaled), 1))
        return FiniteSum(n).take(min(n, max(64, min(fair, 1024))), rng)

    def prepare(self, at_x0: Any, watch: Callable[[float], None] = lambda samples: None) -> None:
        """D_j and first guesses of β_j, on the sample of the sweep; `watch` counts products."""

        def product(j: int, v: Array) -> Array:
            watch(0.0)
            return at_x0.hvp(j, v)

        for j in range(len(self.beta)):
            if j in self.scaled:
                self.D[j] = equilibrate(partial(product, j), at_x0.get(j))
            watch(0.0)
            self.beta[j] = self._first(j, at_x0, at_x0.get(j))

    def slow(self, now: Any, g: Any, reg: Any) -> None:
        """Halve η, and search Λ_j afresh on the large sample of `now`."""
        super().slow(now, g, reg)
        if self.asked < math.inf:
            self.asked = math.inf
        elif not any(self.floor):
            return  # all samples are of one size
        for j in range(len(self.beta)):
            self.beta[j] = self._first(j, now, now.get(j))
            self.at(j, now, g.get(j), reg)

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Any]:
        """g^j, and η Λ_j^{−1} for the first β_j that fits the sample."""
        xj = now.get(j)
        self.calm[j] += 1
        if now.terms >= self.asked or (self.calm[j] > CALM and self.calm[j] % self.every):
            return gj, self.current(j)
        rounded = max(ROUNDED, 16 * rounding_unit(xj))
        shrink = SHRINK if self.calm[j] <= CALM else SHRINK**self.every
        for _ in range(MOST_TRIALS):
            t, beta = self.current(j), self.beta[j]
            u = reg.prox(j, xj - t * gj, t)
            length = norm2(u - xj, self.D[j])
            if not length > 0.0:
                break
            bend, size = now.bend(j, u)
            if abs(bend) <= rounded * size:
                break
            bend /= length
            if bend <= SLACK * beta:
                self.top = max(self.top, beta)
                if now.terms >= self.large:
                    self.floor[j] = bend
                self.beta[j] = max(shrink * beta, bend, self.floor[j], LEAST * self.top)
                return gj, t
            self.calm[j] = 0
            most = 16.0 * beta  # what is seen far away says little about here
            self.beta[j] = most if math.isnan(bend) else min(max(2.0 * beta, bend), most)
        return gj, self.current(j)

    def _first(self, j: int, now: Any, xj: Array) -> float:
        """The curvature along −D_j^{−1} ∇^j f, on a way that is short beside x."""
        way = now.grad(j) / self.D[j]
        size = norm2(way)
        if not 0.0 < size < math.inf:
            return 1.0
        short = 1e-4 * (1.0 + math.sqrt(norm2(xj))) / math.sqrt(size)
        bend = now.bend(j, xj - short * way)[0] / (short * short * norm2(way, self.D[j]))
        return bend if 0.0 < bend < math.inf else 1.0

    def metric(self, j: int) -> Any:
        """Λ_j."""
        return self.beta[j] * self.D[j]
