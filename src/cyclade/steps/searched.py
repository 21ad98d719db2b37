"""Steps for methods that sample: Λ_j searched on the samples as they come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cyclade._arrays import Array, norm2
from cyclade.steps.base import Eta, Rated
from cyclade.theory import max_eta

SHRINK = 0.97  # Λ_j from one visit of a block to the next, where it may come down
SLACK = 1.001  # a curvature that does not change is met again to rounding
MOST_TRIALS = 60
ROUNDED = 1e-10  # a difference of gradients, beside them, that says nothing
LEAST = 1e-12  # of the largest Λ_j so far: the smallest


def eta_of(n: float, b: int, b_small: int, p: float) -> float:
    """How much the noise of the estimates lowers the largest η of Theorem 2, with L̂ = L̃ = 1.

    >>> round(eta_of(10_000, 10_000, 300, 300 / 10_300), 2)
    0.9
    >>> round(eta_of(10_000, 10_000, 10, 10 / 10_010), 2)
    0.08
    """
    return max_eta(1.0, 1.0, n, b, b_small, p) / max_eta(1.0, 1.0, 1, 1, 1, 1.0)


def falling(eta: float, per_epoch: float) -> Callable[[int], float]:
    """η_k = η / √(1 + epochs done): for methods whose gradients stay noisy.

    >>> falling(1.0, 10.0)(30)
    0.5
    """
    return lambda k: eta / math.sqrt(1.0 + k / per_epoch)


def rate_and_large(sampler: Any, eta: Any = None) -> tuple[Eta, float]:
    """η for the samples of a method, and the size of those that are not searched.

    The η of SCCD and SGD falls.
    """
    n, b, small = sampler.source.n, sampler.b, sampler.b_small
    if not sampler.recursive:
        per_epoch = n / b if math.isfinite(n) else 64.0
        return falling(1.0, per_epoch) if eta is None else eta, math.inf
    if eta is None:
        eta = eta_of(n if math.isinf(n) else int(n), b, small, sampler.p)
    return eta, b if small < b else math.inf


class Searched(Rated):
    """Λ_j = β_j D_j, with β_j raised until the sample in hand curves no more along the step.

    With u = x_k^j − x_{k−1}^j, a step is taken where

        ⟨∇^j f_S(x_{k−1,j+1}) − ∇^j f_S(x_{k−1,j}), u⟩ ≤ β_j ‖u‖²_{D_j}

    on the sample S; else β_j is at least doubled. After a step β_j comes down by `SHRINK`, or to
    the curvature that was seen, if that is more. Samples of at least `large` terms are not asked.
    """

    measured = True  # `metric` is the curvature of f along steps
    guess: float = math.nan  # β_j before anything was seen; NaN: from a first, tiny step

    def __init__(self, blocks: int, eta: Eta = 1.0, large: float = math.inf) -> None:
        super().__init__(eta)
        self.blocks, self.large = blocks, large
        self.beta, self.top = [self.guess] * blocks, 0.0
        self.D: list[Any] = [1.0] * blocks

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Any]:
        """g^j, and η Λ_j^{−1} for the first β_j that fits the sample."""
        xj = now.get(j)
        if math.isnan(self.beta[j]):
            self.beta[j] = self._first(j, now, xj)
        if now.terms >= self.large:
            return gj, self.current(j)
        for _ in range(MOST_TRIALS):
            t, beta = self.current(j), self.beta[j]
            u = reg.prox(j, xj - t * gj, t)
            length = norm2(u - xj, self.D[j])
            if not length > 0.0:
                break
            bend, size = now.bend(j, u)
            if abs(bend) <= ROUNDED * size:
                break
            bend /= length
            if bend <= SLACK * beta:
                self.top = max(self.top, beta)
                self.beta[j] = max(SHRINK * beta, bend, LEAST * self.top)
                return gj, t
            most = 16.0 * beta  # what is seen far away says little about here
            self.beta[j] = most if math.isnan(bend) else min(max(2.0 * beta, bend), most)
        return gj, self.current(j)

    def _first(self, j: int, now: Any, xj: Array) -> float:
        """The curvature along a step that is short beside x."""
        grad = now.grad(j)
        size = norm2(grad)
        if not 0.0 < size < math.inf:
            return 1.0
        short = 1e-4 * (1.0 + math.sqrt(norm2(xj))) / math.sqrt(size)
        bend = now.bend(j, xj - short * grad)[0] / (short * short * norm2(grad, self.D[j]))
        return bend if 0.0 < bend < math.inf else 1.0

    def current(self, j: int) -> Any:
        """η Λ_j^{−1}."""
        return self.rate / (self.beta[j] * self.D[j])

    def metric(self, j: int) -> Any:
        """Λ_j; before anything was seen, that of the Euclidean norm."""
        return 1.0 if math.isnan(self.beta[j]) else self.beta[j] * self.D[j]

    def memory(self) -> dict[str, Any]:
        """Λ_j so far."""
        learnt = {"beta": list(self.beta), "top": self.top, "D": list(self.D)}
        return super().memory() | learnt

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these Λ_j."""
        super().recall(memory)
        self.beta, self.top, self.D = list(memory["beta"]), memory["top"], list(memory["D"])
