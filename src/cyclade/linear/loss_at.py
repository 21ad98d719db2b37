"""The loss at one z: value, gradient in z and curvature, each computed once and on demand.

Line searches, models and checks visit the same points; what one has computed the next reuses.
Squared and logistic losses of one output come from compiled passes without temporaries.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import losses as kernels
from cyclade.linear.losses import Logistic, Loss, Squared, xlogx

Array = NDArray[Any]


def by_rows(s: Array, values: Array) -> Array:
    """s_i times row i of values of shape (n,) or (n, T)."""
    return np.asarray(s * values if values.ndim == 1 else s[:, None] * values)


def balanced(u: Array, slope: Any, s: Array, classes: bool = False) -> Array:
    """The u with Σ s_i u_i = slope brought to zero by shrinking its entries of slope's sign.

    Entries only move towards zero and zeros stay, so u stays in the domain of every φ*: taking
    `slope` off all of them would leave that of a hinge, which ends at zero. Where the entries of a
    row form probabilities, of classes, it is taken off: their sums must stay.
    """
    if classes:
        return np.asarray(u - slope)
    side = u * (u * slope > 0)
    weight = np.asarray(s @ side)
    part = np.divide(slope, weight, out=np.zeros_like(weight), where=weight != 0)
    return np.asarray(u - part * side)


class LossAt:
    """φ(y_i, z_i) and its derivatives in z at one z of shape (n,), or (n, T) for T outputs."""

    def __init__(self, loss: Loss, y: Array, s: Array, z: Array) -> None:
        self.loss, self.y, self.s, self.z = loss, y, s, z

    @cached_property
    def value(self) -> float:
        """Σ s_i φ(y_i, z_i)."""
        return float(self.s @ self.loss.value(self.y, self.z))

    @cached_property
    def u(self) -> Array:
        """φ'."""
        return np.asarray(self.loss.gradient(self.y, self.z))

    @cached_property
    def slopes(self) -> Array:
        """s φ', the gradient in z."""
        return by_rows(self.s, self.u)

    @cached_property
    def balance(self) -> tuple[Any, Any]:
        """Σ_i s_i φ'_i and Σ_i |s_i φ'_i|: numbers, or (T,)."""
        return self.slopes.sum(axis=0), np.abs(self.slopes).sum(axis=0)

    @cached_property
    def second(self) -> Array:
        """φ'', whatever its sign."""
        return np.asarray(self.loss.second_derivative(self.y, self.z), np.float64)

    @cached_property
    def majoriser(self) -> Array:
        """Weights for which a quadratic model lies above φ; infinite where there are none."""
        return np.asarray(self.loss.majoriser(self.y, self.z), np.float64)

    @cached_property
    def perfect(self) -> float:
        """Σ s_i min φ(y_i, ·)."""
        return -self.conjugate(np.zeros_like(self.z))

    def conjugate(self, u: Array) -> float:
        """Σ s_i φ*(y_i, u_i)."""
        return float(np.sum(self.s @ np.asarray(self.loss.conjugate(self.y, u), np.float64)))  # type: ignore[attr-defined]

    def dual(self, shrink: float) -> float:
        """−Σ s_i φ*(y_i, θ_i) at θ = shrink · φ'."""
        return -self.conjugate(shrink * self.u)


class SquaredLossAt(LossAt):
    """All but u from one pass over the rows, computed eagerly: always needed."""

    perfect = 0.0

    def __init__(self, loss: Loss, y: Array, s: Array, z: Array) -> None:
        super().__init__(loss, y, s, z)
        self.slopes = np.empty_like(z)
        self._squares, self._along, *balance = kernels.residuals(y, z, s, self.slopes)
        self.balance = balance[0], balance[1]
        self.value = 0.5 * self._squares

    def dual(self, shrink: float) -> float:
        """−Σ s_i φ*(y_i, θ_i) at θ = shrink · u, φ*(y, θ) = θy + ½θ²."""
        return float(-shrink * (self._along + 0.5 * shrink * self._squares))


class LogisticLossAt(LossAt):
    """With e = exp(−|z|), all else is arithmetic and one logarithm; computed eagerly."""

    perfect = 0.0

    def __init__(self, loss: Loss, y: Array, s: Array, z: Array) -> None:
        super().__init__(loss, y, s, z)
        e = np.abs(z)
        np.negative(e, out=e)
        self.e = np.exp(e, out=e)
        self.u, self.slopes = np.empty_like(z), np.empty_like(z)
        self._sums = kernels.passage(y, z, self.e, np.log1p(e), s, self.u, self.slopes)
        self.value = self._sums[0]  # Σ s_i (log(1 + e_i) − min(y_i z_i, 0))

    def dual(self, shrink: float) -> float:
        """−Σ s_i φ*(y_i, θ_i) at θ = shrink · u.

        With a = |u|, φ*(u) = a log a + (1 − a) log(1 − a) = uz − φ. Where θ has shrunk, log a and
        the sums with it are known already; one logarithm is left, of 1 − shrink · a.
        """
        value, mass, margins, entropy = self._sums
        if shrink == 1.0:
            return value + margins
        rest = 1.0 - shrink * np.abs(self.u)
        with np.errstate(divide="ignore", invalid="ignore"):  # shrink near 1: the caller looks
            other = float((self.s * rest) @ np.log(rest))
        return -shrink * (mass * math.log(shrink) + entropy) - other

    @cached_property
    def second(self) -> Array:
        """p (1 − p) = e / (1 + e)²."""
        q = 1.0 / (1.0 + self.e)
        return np.asarray(self.e * q * q)


class SoftmaxLossAt(LossAt):
    """With e = exp(z − max z), all else is arithmetic and one logarithm a row; z is (n, T)."""

    def __init__(self, loss: Loss, y: Array, s: Array, z: Array) -> None:
        super().__init__(loss, y, s, z)
        low = z - z.max(axis=1, keepdims=True)  # so that no exponential overflows
        self.p, total = np.exp(low), np.empty(s.size)
        self.u, self.slopes = np.empty(z.shape), np.empty(z.shape)
        kernels.probabilities(y, self.p, s, self.u, self.slopes, total)
        self.own = np.arange(s.size), y.astype(np.int64)
        self.value = float(s @ (np.log(total) - low[self.own]))

    def dual(self, shrink: float) -> float:
        """−Σ s_i φ*(y_i, θ_i) at θ = shrink · u, φ* the entropy of θ + e_y."""
        q = shrink * self.u
        q[self.own] += 1.0
        return -float(self.s @ xlogx(q).sum(axis=1))


KINDS: dict[type, type[LossAt]] = {Squared: SquaredLossAt, Logistic: LogisticLossAt}


def loss_at(loss: Loss, y: Array, s: Array, z: Array) -> LossAt:
    """The loss at z."""
    if z.ndim == 2:
        return (SoftmaxLossAt if loss.softmax else LossAt)(loss, y, s, z)
    return KINDS.get(type(loss), LossAt)(loss, y, s, z)
