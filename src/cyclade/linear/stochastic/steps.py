"""Steps of the methods that sample rows: Λ_j from the rows themselves, so that nothing is tuned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cyclade._arrays import Array
from cyclade.linear.stochastic.lipschitz import diagonal
from cyclade.linear.stochastic.sweep import Rows
from cyclade.steps import Eta, Rated


class RowSteps(Rated):
    """η Λ_j^{−1} with Λ_j = β D_j, D_j from `diagonal` and β the bound on φ''.

    D_j is measured on the rows at the start. On a stream (n = ∞), a sample of at least `large` rows
    that shows more curvature raises D_j for good.

    Where φ'' has no bound, β is the largest φ'' met since the last large sample. Where a step went
    too far, φ'' is large and the next steps are short, so that they lead back.
    """

    def __init__(
        self, bound: float, m: int, b_small: float, n: float, width: int, even: bool, eta: Eta,
        large: float = math.inf,
    ) -> None:  # fmt: skip
        super().__init__(eta)
        self.m, self.large = m, large
        self.bounded, self.stream = math.isfinite(bound), math.isinf(n)
        self.beta = bound if self.bounded else 1.0
        self._diagonal: Callable[[Rows, int], Array] = lambda rows, j: diagonal(
            rows, j, 1.0, b_small, n=n, width=width, even=even
        )
        self.D: list[Array] = []

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array]:
        """g^j and η Λ_j^{−1}, with Λ_j raised by what the sample shows."""
        if not self.bounded:
            here = now.largest_curvature()
            fresh = j == 0 and now.rows.n >= self.large and here > 0
            self.beta = here if fresh else max(self.beta, here)
        elif self.stream and now.rows.n >= self.large:
            self.D[j] = np.maximum(self.D[j], self._diagonal(now.rows, j))
        return gj, self.current(j)

    def current(self, j: int) -> Array:
        """η Λ_j^{−1}."""
        return self.rate / self.beta / self.D[j]

    def metric(self, j: int) -> Array:
        """Λ_j."""
        return self.beta * self.D[j]

    def prepare(self, at_x0: Any) -> None:
        """Measure D_j on the rows of the sweep at x_0; where φ'' has no bound, β too."""
        self.D = [self._diagonal(at_x0.rows, j) for j in range(self.m)]
        if not self.bounded:
            self.beta = at_x0.largest_curvature() or 1.0

    def memory(self) -> dict[str, Any]:
        """Λ_j so far."""
        return super().memory() | {"D": list(self.D), "beta": self.beta}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these Λ_j."""
        super().recall(memory)
        self.D, self.beta = list(memory["D"]), memory["beta"]


def falling(eta: float, per_epoch: float) -> Callable[[int], float]:
    """η_k = η / √(1 + epochs done): for methods whose gradients stay noisy.

    Example
    -------
    >>> falling(1.0, 10.0)(30)
    0.5
    """
    return lambda k: eta / math.sqrt(1.0 + k / per_epoch)
