"""Steps with given Λ_j: numbers, diagonals or matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cyclade._arrays import Array, kind
from cyclade._checks import as_float, is_number, listed, require, shown
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
        entries = listed("Lambda", Lambda, "a list with one entry per block")
        if not entries:
            raise ValueError("Lambda is empty: give one entry per block")
        self.Lambda = [checked(f"Lambda[{j}]", entry) for j, entry in enumerate(entries)]
        self.blocks = len(self.Lambda)
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


def checked(name: str, entry: Any) -> Any:
    """Λ_j as a float, an array or a `Matrix`; a number whose inverse overflows is none."""
    if isinstance(entry, Matrix):
        return entry
    if is_number(entry):
        require(1e-300 < as_float(entry) < math.inf, name, entry, "positive and finite")
        return as_float(entry)
    if not kind(entry):
        raise TypeError(f"{name} must be a number, an array or a Matrix, got {shown(entry)}")
    try:
        positive = bool((entry > 1e-300).all()) and math.isfinite(float(entry.sum()))
    except (TypeError, ValueError, RuntimeError):  # of complex numbers, of text, on no device
        positive = False
    require(positive, name, entry, "positive and finite in every entry")
    return entry
