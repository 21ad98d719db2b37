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
    """η Λ_j^{−1} with Λ_j from `diagonal`, measured on the rows at the start."""

    def __init__(
        self, bound: float, m: int, b_small: float, n: float, width: int, even: bool, eta: Eta
    ) -> None:
        self.blocks = m
        self._measure: Callable[[Rows, int], Array] = lambda rows, j: diagonal(
            rows, j, bound, b_small, n=n, width=width, even=even
        )
        self.Lambda: list[Array] = []
        super().__init__(eta)

    def measure(self, rows: Rows) -> None:
        """Take Λ_j from these rows."""
        self.Lambda = [self._measure(rows, j) for j in range(self.blocks)]

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array]:
        """g^j and η Λ_j^{−1}."""
        return gj, self.current(j)

    def current(self, j: int) -> Array:
        """η Λ_j^{−1}."""
        return self.rate / self.Lambda[j]

    def metric(self, j: int) -> Array:
        """Λ_j."""
        return self.Lambda[j]

    def prepare(self, at_x0: Any) -> None:
        """Measure the rows of the sweep at x_0."""
        self.measure(at_x0.rows)

    def memory(self) -> dict[str, Any]:
        """The Λ_j so far."""
        return super().memory() | {"Lambda": list(self.Lambda)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these Λ_j."""
        super().recall(memory)
        self.Lambda = list(memory["Lambda"])


class Growing(RowSteps):
    """`RowSteps` on a stream: a large sample that shows more curvature raises Λ_j for good."""

    large: int  # the size from which samples are measured

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array]:
        """g^j and η Λ_j^{−1}; on a large sample Λ_j is looked at first."""
        if now.rows.n >= self.large:
            self.Lambda[j] = np.maximum(self.Lambda[j], self._measure(now.rows, j))
        return gj, self.current(j)


class Curving(RowSteps):
    """`RowSteps` for a φ'' without bound: in its place, the largest since the last large sample.

    Where a step went too far, φ'' is large and the next steps are short, so that they lead back.
    """

    large: float  # the size from which a sample tells what φ'' is now
    bend = 1.0

    def at(self, j: int, now: Any, gj: Array, reg: Any) -> tuple[Array, Array]:
        """g^j and η Λ_j^{−1}, with φ'' where the block is."""
        here = now.most_curved()
        fresh = j == 0 and now.rows.n >= self.large
        self.bend = here if fresh and here > 0 else max(self.bend, here)
        return gj, self.current(j)

    def current(self, j: int) -> Array:
        """η Λ_j^{−1}."""
        return super().current(j) / self.bend

    def metric(self, j: int) -> Array:
        """Λ_j."""
        return self.bend * self.Lambda[j]

    def prepare(self, at_x0: Any) -> None:
        """Measure the rows of the sweep at x_0, and φ'' there."""
        super().prepare(at_x0)
        self.bend = at_x0.most_curved() or 1.0

    def memory(self) -> dict[str, Any]:
        """The Λ_j so far."""
        return super().memory() | {"bend": self.bend}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from these Λ_j."""
        super().recall(memory)
        self.bend = memory["bend"]


def falling(eta: float, per_epoch: float) -> Callable[[int], float]:
    """η_k = η / √(1 + epochs done): for methods whose gradients stay noisy.

    Example
    -------
    >>> falling(1.0, 10.0)(30)
    0.5
    """
    return lambda k: eta / math.sqrt(1.0 + k / per_epoch)
