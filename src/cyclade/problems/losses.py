"""Losses φ(z, y) of a linear prediction z = aᵀx; one small class each.

A loss is `value`, its derivative `slope` in z, and `curvature`, the supremum of |φ''| (None where
there is none). `value` is written once for NumPy and torch, so torch differentiates it too.
"""

from __future__ import annotations

import abc
import math

import numpy as np

from cyclade._arrays import Array, array_namespace


class Loss(abc.ABC):
    """φ(z, y), entry by entry."""

    curvature: float | None
    """sup |∂²φ/∂z²|, or None where it is unbounded."""

    @abc.abstractmethod
    def value(self, z: Array, y: Array) -> Array:
        """φ(z, y), for NumPy and torch arrays."""

    @abc.abstractmethod
    def slope(self, z: Array, y: Array) -> Array:
        """∂φ/∂z, for NumPy arrays."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Logistic(Loss):
    """φ(z, y) = log(1 + e^{−yz}) for labels y = ±1.

    >>> Logistic().slope(np.zeros(2), np.array([1.0, -1.0]))
    array([-0.5, 0.5])
    """

    curvature = 0.25

    def value(self, z: Array, y: Array) -> Array:
        """log(1 + e^{−yz}), without overflow."""
        xp = array_namespace(z)
        return xp.logaddexp(xp.zeros_like(z), -y * z)

    def slope(self, z: Array, y: Array) -> Array:
        """−y / (1 + e^{yz})."""
        return -0.5 * y * (1.0 - np.tanh(0.5 * y * z))


class Squared(Loss):
    """φ(z, y) = ½ (z − y)².

    >>> Squared().slope(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    array([1., 0.])
    """

    curvature = 1.0

    def value(self, z: Array, y: Array) -> Array:
        """½ (z − y)²."""
        return 0.5 * (z - y) ** 2

    def slope(self, z: Array, y: Array) -> Array:
        """z − y."""
        return z - y


class _Robust(Loss):
    """A loss of the residual u = z − y that is ½u² near 0 and bounded; c is where it turns.

    All have φ'(u) = u ω(u²/c²) with a weight 0 ≤ ω ≤ ω(0) = 1, and −1 < φ'' ≤ φ''(0) = 1.
    """

    curvature = 1.0

    def __init__(self, c: float) -> None:
        if not (c > 0 and math.isfinite(c)):
            raise ValueError(f"{type(self).__name__}: c must be positive and finite, got {c}")
        self.c = float(c)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.c:g})"


class Welsch(_Robust):
    """φ(u) = (c²/2) (1 − e^{−u²/c²}) of the residual u = z − y.

    The default c is 95 % as efficient as least squares on normal errors of variance 1.

    >>> Welsch(1.0).value(np.array([0.0, 10.0]), np.zeros(2))
    array([0. , 0.5])
    """

    def __init__(self, c: float = 2.985) -> None:
        super().__init__(c)

    def value(self, z: Array, y: Array) -> Array:
        """(c²/2) (1 − e^{−u²/c²})."""
        return -0.5 * self.c**2 * array_namespace(z).expm1(-(((z - y) / self.c) ** 2))

    def slope(self, z: Array, y: Array) -> Array:
        """u e^{−u²/c²}."""
        u = z - y
        return u * np.exp(-((u / self.c) ** 2))


class GemanMcClure(_Robust):
    """φ(u) = ½ u² / (1 + u²/c²) of the residual u = z − y.

    The default c is 95 % as efficient as least squares on normal errors of variance 1.

    >>> GemanMcClure(1.0).value(np.array([0.0, 1.0]), np.zeros(2))
    array([0. , 0.25])
    """

    def __init__(self, c: float = 3.787) -> None:
        super().__init__(c)

    def value(self, z: Array, y: Array) -> Array:
        """½ u² / (1 + u²/c²)."""
        square = (z - y) ** 2
        return 0.5 * square / (1.0 + square / self.c**2)

    def slope(self, z: Array, y: Array) -> Array:
        """u / (1 + u²/c²)²."""
        u = z - y
        return u / (1.0 + (u / self.c) ** 2) ** 2


class Tukey(_Robust):
    """φ(u) = (c²/6) (1 − (1 − u²/c²)₊³) of the residual u = z − y: Tukey's biweight.

    The default c is 95 % as efficient as least squares on normal errors of variance 1.

    >>> Tukey(1.0).slope(np.array([0.5, 2.0]), np.zeros(2))
    array([0.28125, 0. ])
    """

    def __init__(self, c: float = 4.685) -> None:
        super().__init__(c)

    def value(self, z: Array, y: Array) -> Array:
        """(c²/6) (1 − (1 − u²/c²)₊³)."""
        inside = (1.0 - ((z - y) / self.c) ** 2).clip(0.0, None)
        return (self.c**2 / 6.0) * (1.0 - inside**3)

    def slope(self, z: Array, y: Array) -> Array:
        """u (1 − u²/c²)₊²."""
        u = z - y
        return u * (1.0 - (u / self.c) ** 2).clip(0.0, None) ** 2


class Intensity(Loss):
    """φ(z, y) = ¼ (z² − y)² of a measured intensity y ≥ 0. Its curvature 3z² − y has no bound.

    >>> Intensity().slope(np.array([2.0, -1.0]), np.ones(2))
    array([ 6., 0.])
    """

    curvature = None

    def value(self, z: Array, y: Array) -> Array:
        """¼ (z² − y)²."""
        return 0.25 * (z * z - y) ** 2

    def slope(self, z: Array, y: Array) -> Array:
        """(z² − y) z."""
        return (z * z - y) * z
