"""The loss around a z: value, slopes and curvature, each computed once and when asked for.

Line searches, models and checks look at the same points; what one has computed the next reuses.
The logistic loss has all three from one exponential, in compiled passes that make no temporaries.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.losses import Logistic, Loss

Array = NDArray[Any]


class Look:
    """φ(y_i, z_i) and its derivatives in z at one z."""

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
        return np.asarray(self.s * self.u)

    @cached_property
    def second(self) -> Array:
        """φ'', whatever its sign."""
        return np.asarray(self.loss.second_derivative(self.y, self.z), np.float64)


class LogisticLook(Look):
    """With e = exp(−|z|), all else is arithmetic and one logarithm."""

    @cached_property
    def e(self) -> Array:
        """exp(−|z|)."""
        e = np.abs(self.z)
        np.negative(e, out=e)
        return np.exp(e, out=e)

    @cached_property
    def value(self) -> float:
        """Σ s_i (log(1 + e_i) − min(y_i z_i, 0))."""
        from cyclade.linear.kernels.logistic import total

        return float(total(self.y, self.z, np.log1p(self.e), self.s))

    @cached_property
    def _both(self) -> tuple[Array, Array]:
        from cyclade.linear.kernels.logistic import derivatives

        u, second = np.empty_like(self.z), np.empty_like(self.z)
        derivatives(self.y, self.z, self.e, u, second)
        return u, second

    @cached_property
    def u(self) -> Array:
        """−y / (1 + e^{yz})."""
        return self._both[0]

    @cached_property
    def second(self) -> Array:
        """p (1 − p) = e / (1 + e)²."""
        return self._both[1]


def look(loss: Loss, y: Array, s: Array, z: Array) -> Look:
    """The loss around z."""
    kind = LogisticLook if type(loss) is Logistic else Look
    return kind(loss, y, s, z)
