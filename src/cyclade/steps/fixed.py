"""Steps with given Λ_j: numbers, diagonals or matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cyclade._arrays import Array, kind
from cyclade.steps.base import Eta, Rated
from cyclade.steps.matrix import Matrix


class Fixed(Rated):
    """Given Λ_j: one positive number, diagonal or matrix per block.

    The step is η Λ_j^{−1}. With Λ_j = L_j I and η = 1 this is the step of Algorithm 1. A matrix
    (symmetric, positive definite) is given as a `cyclade.Matrix`.

    Example
    -------
    >>> steps = Fixed([2.0, 4.0], eta=0.5)
    >>> steps.begin(0)
    >>> steps.current(1)
    0.125
    """

    def __init__(self, Lambda: Sequence[Array | float | Matrix], eta: Eta = 1.0) -> None:
        super().__init__(eta)
        try:
            self.Lambda = list(Lambda)
        except TypeError:
            raise TypeError(
                f"Lambda must be a list with one entry per block, got {type(Lambda).__name__}"
            ) from None
        if not self.Lambda:
            raise ValueError("Lambda is empty: give one entry per block")
        self.blocks = len(self.Lambda)
        for j, entry in enumerate(self.Lambda):
            _check(entry, j)
        self._steps: list[Any] = []

    def begin(self, k: int) -> None:
        """Scale the steps by η_k, if it changed."""
        before = self.rate
        super().begin(k)
        if self.rate != before:
            self._steps = [self.rate / Lambda for Lambda in self.Lambda]
            for j, step in enumerate(self._steps):
                if isinstance(step, float) and not 0 < step < math.inf:
                    raise ValueError(f"eta / L[{j}] = {step} is no step: eta or L is out of range")

    def current(self, j: int) -> Any:
        """η Λ_j^{−1}."""
        return self._steps[j]

    def metric(self, j: int) -> Any:
        """Λ_j."""
        return self.Lambda[j]


def _check(entry: Any, j: int) -> None:
    if isinstance(entry, Matrix):
        return
    try:
        positive = bool((entry > 0).all()) if kind(entry) else float(entry) > 0
        finite = math.isfinite(float(entry.sum() if kind(entry) else entry))
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(
            f"Lambda[{j}] must be a positive number, an array of them or a Matrix, got {entry!r}"
        ) from None
    if isinstance(entry, bool | str) or not (positive and finite):
        raise ValueError(f"Lambda[{j}] must be positive and finite, got {entry!r}")
