"""A positive multiple of a convex loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade.linear.losses.base import Array, Loss


@dataclass(frozen=True)
class Multiple(Loss):
    """φ(y, z) = a ψ(y, z), for a convex ψ with a conjugate and an a > 0.

    Examples
    --------
    >>> from cyclade.linear.losses import Squared
    >>> Multiple(Squared(), 3.0).gradient(np.zeros(2), np.array([1.0, -2.0]))
    array([ 3., -6.])
    """

    loss: Any
    factor: float

    @property
    def bound(self) -> float:  # type: ignore[override]
        """a sup ψ''."""
        return float(self.factor * self.loss.bound)

    @property
    def width(self) -> float:
        """That of ψ."""
        return float(self.loss.width)

    def value(self, y: Array, z: Array) -> Array:
        """a ψ."""
        return np.asarray(self.factor * self.loss.value(y, z))

    def gradient(self, y: Array, z: Array) -> Array:
        """a ψ'."""
        return np.asarray(self.factor * self.loss.gradient(y, z))

    def curvature(self, y: Array, z: Array) -> Array:
        """a ψ''."""
        return np.asarray(self.factor * self.loss.curvature(y, z))

    def majoriser(self, y: Array, z: Array) -> Array:
        """a times the weights of ψ."""
        return np.asarray(self.factor * self.loss.majoriser(y, z))

    def conjugate(self, y: Array, u: Array) -> Array:
        """a ψ*(u/a), where an excess of rounding over the domain of ψ* is no excess."""
        exact = np.asarray(u) / self.factor * (1.0 - 4.0 * np.finfo(np.float64).eps)
        return np.asarray(self.factor * self.loss.conjugate(y, exact))

    def check(self, y: Array) -> None:
        """As for ψ."""
        self.loss.check(y)
