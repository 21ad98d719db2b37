"""Convex losses of the residual u = z − y."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from cyclade._checks import positive
from cyclade.linear.checks import between
from cyclade.linear.losses.base import BY_NAME, Array, Loss, rows

__all__ = ["Huber", "Quantile", "Squared"]


@dataclass(frozen=True)
class Squared(Loss):
    """φ(y, z) = ½ (z − y)², summed over outputs.

    Examples
    --------
    >>> Squared().value(np.array([1.0, 2.0]), np.array([3.0, 2.0]))
    array([2., 0.])
    """

    bound = 1.0
    flat = False

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        """Whether this is the squared loss itself; a subclass may change `value`."""
        return type(self) is Squared

    def value(self, y: Array, z: Array) -> Array:
        """½ (z − y)²."""
        u = z - y
        return rows(0.5 * u * u)

    def gradient(self, y: Array, z: Array) -> Array:
        """z − y."""
        return np.asarray(z - y)

    def conjugate(self, y: Array, u: Array) -> Array:
        """u y + ½ u²."""
        return rows(u * (y + 0.5 * u))


@dataclass(frozen=True)
class Huber(Loss):
    """φ(u) = ½ u² where |u| ≤ δ, else δ|u| − ½ δ², of the residual u = z − y.

    The default δ is 95 % as efficient as least squares on normal errors of variance 1. `factor`
    multiplies φ and all that follows from it.

    Examples
    --------
    >>> Huber(1.0).value(np.zeros(2), np.array([1.0, 10.0]))
    array([0.5, 9.5])
    """

    delta: float = 1.345
    factor: float = field(default=1.0, repr=False, kw_only=True)  # φ is multiplied by it
    bound: float = field(init=False, repr=False, default=1.0)

    def __post_init__(self) -> None:
        positive("Huber: delta", self.delta)
        object.__setattr__(self, "bound", positive("Huber: factor", self.factor))

    def value(self, y: Array, z: Array) -> Array:
        """½ c² + c (u − c), where c is u clipped to [−δ, δ]."""
        u = z - y
        c = u.clip(-self.delta, self.delta)
        return rows(self.factor * c * (u - 0.5 * c))

    def gradient(self, y: Array, z: Array) -> Array:
        """u clipped to [−δ, δ]."""
        return np.asarray(self.factor * np.clip(z - y, -self.delta, self.delta))

    def curvature(self, y: Array, z: Array) -> Array:
        """1 where |u| ≤ δ, else 0."""
        return self.factor * np.asarray(abs(z - y) <= self.delta, dtype=z.dtype)

    def majoriser(self, y: Array, z: Array) -> Array:
        """φ'(u)/u = min(1, δ/|u|)."""
        return np.asarray(self.factor * (self.delta / np.maximum(abs(z - y), self.delta)))

    def conjugate(self, y: Array, u: Array) -> Array:
        """u y + ½ u² where |u| ≤ δ."""
        inside = abs(u) <= self.factor * self.delta
        return rows(np.where(inside, u * (y + 0.5 * u / self.factor), np.inf))

    @property
    def width(self) -> float:
        """Half of the window in which φ bends."""
        return self.delta

    def widened(self, times: float) -> Huber:
        """The loss with a window so many times as wide and the same slopes outside."""
        return Huber(self.delta * times, factor=self.factor / times)


@dataclass(frozen=True)
class Quantile(Loss):
    """The check loss of a quantile q, smoothed: φ = (q − ½) v + ½ s(v) with v = y − z.

    s(v) = |v| where |v| ≥ h, else v²/(2h) + h/2, and h is `smoothing`. So φ is the check loss
    outside [−h, h] and at most h/4 above it inside: the check loss averaged over a uniform window.

    Examples
    --------
    >>> Quantile(0.9, smoothing=0.1).value(np.array([1.0, -1.0]), np.zeros(2))
    array([0.9, 0.1])
    """

    q: float = 0.5
    smoothing: float = 0.1
    bound: float = field(init=False, repr=False, default=math.inf)

    def __post_init__(self) -> None:
        between("Quantile: q", self.q)
        positive("Quantile: smoothing", self.smoothing)
        object.__setattr__(self, "bound", 0.5 / self.smoothing)

    def value(self, y: Array, z: Array) -> Array:
        """(q − ½) v + ½ s(v), s(v) = |v − c| + c²/(2h) + h/2 where c is v clipped to [−h, h]."""
        v, h = y - z, self.smoothing
        c = v.clip(-h, h)
        return rows((self.q - 0.5) * v + 0.5 * abs(v - c) + c * c / (4.0 * h) + 0.25 * h)

    def gradient(self, y: Array, z: Array) -> Array:
        """½ − q − ½ clip(v/h, −1, 1)."""
        return np.asarray(0.5 - self.q - 0.5 * np.clip((y - z) / self.smoothing, -1.0, 1.0))

    def curvature(self, y: Array, z: Array) -> Array:
        """1/(2h) where |v| ≤ h, else 0."""
        inside = np.asarray(abs(y - z) <= self.smoothing, dtype=z.dtype)
        return inside * self.bound

    def majoriser(self, y: Array, z: Array) -> Array:
        """1 / (2 max(|v|, h))."""
        return np.asarray(0.5 / np.maximum(abs(y - z), self.smoothing))

    def conjugate(self, y: Array, u: Array) -> Array:
        """u y + (h/4) (b² − 1) with b = 1 − 2q − 2u, where |b| ≤ 1."""
        b = 1.0 - 2.0 * self.q - 2.0 * u
        # b comes back from a clipped gradient: an excess of rounding is no excess
        inside = abs(b) <= 1.0 + 8.0 * np.finfo(np.asarray(u).dtype).eps
        b = np.clip(b, -1.0, 1.0)
        return rows(np.where(inside, u * y + 0.25 * self.smoothing * (b * b - 1.0), np.inf))

    @property
    def width(self) -> float:
        """Half of the window in which φ bends."""
        return self.smoothing

    def widened(self, times: float) -> Quantile:
        """The loss with a window so many times as wide and the same slopes outside."""
        return Quantile(self.q, self.smoothing * times)


BY_NAME.update({"squared": Squared, "huber": Huber, "quantile": Quantile})
