"""Losses of counts and positive amounts with a logarithmic link: half the unit deviance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cyclade.linear.losses.base import BY_NAME, Array, Loss, namespace, rows
from cyclade.linear.losses.labels import xlogx

__all__ = ["Gamma", "Poisson"]


def exp(z: Array) -> Array:
    """e^z, with inf for an overflow: a line search turns back from it by itself."""
    with np.errstate(over="ignore"):
        found: Array = namespace(z).exp(z)
    return found


@dataclass(frozen=True)
class Poisson(Loss):
    """φ(y, z) = e^z − yz + y log y − y for y ≥ 0: half the Poisson deviance at the mean e^z.

    Examples
    --------
    >>> Poisson().value(np.array([1.0, 0.0]), np.zeros(2))
    array([0., 1.])
    """

    flat = False

    def value(self, y: Array, z: Array) -> Array:
        """e^z − yz + y log y − y."""
        return rows(exp(z) - y * z + (xlogx(y) - y))

    def gradient(self, y: Array, z: Array) -> Array:
        """e^z − y."""
        return exp(z) - y

    def curvature(self, y: Array, z: Array) -> Array:
        """e^z."""
        return exp(z)

    def conjugate(self, y: Array, u: Array) -> Array:
        """With a = u + y: a log a − a − y log y + y where a ≥ 0."""
        a = u + y
        inside = a >= 0
        a = np.maximum(a, 0.0)
        return rows(np.where(inside, xlogx(a) - a - xlogx(y) + y, np.inf))

    def check(self, y: Array) -> None:
        """Counts must be finite and not negative."""
        if not (np.isfinite(y).all() and (y >= 0).all()):
            raise ValueError("Poisson: y must hold finite numbers >= 0")

    def mean(self, z: Array) -> Array:
        """e^z."""
        return exp(z)


@dataclass(frozen=True)
class Gamma(Loss):
    """φ(y, z) = y e^{−z} + z − log y − 1 for y > 0: half the gamma deviance at the mean e^z.

    Examples
    --------
    >>> Gamma().value(np.array([1.0, 2.0]), np.array([0.0, np.log(2.0)]))
    array([0., 0.])
    """

    flat = False

    def value(self, y: Array, z: Array) -> Array:
        """y e^{−z} + z − log y − 1."""
        return rows(y * exp(-z) + z - namespace(z).log(y) - 1.0)

    def gradient(self, y: Array, z: Array) -> Array:
        """1 − y e^{−z}."""
        return np.asarray(1.0 - y * exp(-z))

    def curvature(self, y: Array, z: Array) -> Array:
        """y e^{−z}."""
        return y * exp(-z)

    def conjugate(self, y: Array, u: Array) -> Array:
        """With a = 1 − u: a log(a/y) − a + log y + 1 where a ≥ 0."""
        a = 1.0 - u
        inside = a >= 0
        a = np.maximum(a, 0.0)
        return rows(np.where(inside, xlogx(a) - a + u * np.log(y) + 1.0, np.inf))

    def check(self, y: Array) -> None:
        """Amounts must be finite and positive."""
        if not (np.isfinite(y).all() and (y > 0).all()):
            raise ValueError("Gamma: y must hold finite numbers > 0")

    def mean(self, z: Array) -> Array:
        """e^z."""
        return exp(z)


BY_NAME.update({"poisson": Poisson, "gamma": Gamma})
