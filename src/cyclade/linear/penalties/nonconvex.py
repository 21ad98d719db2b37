"""Nonconvex penalties on single coordinates, by their exact prox and by the paper's template.

The template asks for f + r with r convex: `split` writes each penalty as λ_0 Σ_j |x_j| plus a
smooth concave part, which belongs to f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade.linear.penalties import formulas
from cyclade.linear.penalties.base import Array, ShippedScalar
from cyclade.linear.penalties.checks import above
from cyclade.linear.penalties.scalar import L1, pull_at_zero

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class ConcavePart:
    """The smooth concave h = Σ_j h(x_j) of a split penalty; h' is Lipschitz with `lipschitz`."""

    penalty: Any
    lipschitz: float

    def value(self, x: Array) -> Array:
        """h of every entry of x."""
        return self.penalty._concave_value(np.abs(x))

    def gradient(self, x: Array) -> Array:
        """h' of every entry of x."""
        return np.sign(x) * self.penalty._concave_slope(np.abs(x))


class _Nonconvex(ShippedScalar):
    """λ, one number for the shape, and whether x ≥ 0 is asked for."""

    convex = False
    positive: bool

    def _set(self, shape: float, positive: bool) -> None:
        self.positive = bool(positive)
        self._table = np.array([[self.lam, shape, float(self.positive)]])

    def lam_max(self, g0: Array) -> float:
        """The largest |g0_j| over the slope that λ = 1 has at zero."""
        pull = float(pull_at_zero(g0, 0.0 if self.positive else -1.0, 1.0).max())
        return pull * self.lam / self.threshold(0)

    def split(self) -> tuple[L1, ConcavePart]:
        """(convex, concave): an l1 norm with the slope at zero, and a smooth concave rest."""
        convex = L1(self.threshold(0), positive=self.positive)
        return convex, ConcavePart(self, self._concave_lipschitz())

    def straighter(self, times: float) -> Self:
        """The penalty with the same slope at zero whose concave part bends so many times less."""
        raise NotImplementedError

    def _concave_lipschitz(self) -> float:
        raise NotImplementedError


class MCP(_Nonconvex):
    """The minimax concave penalty, with slope λ at zero and none beyond γλ.

    r(x) = λ|x| − x²/(2γ) for |x| ≤ γλ, and γλ²/2 beyond; γ > 1. The prox is exact for every step:
    firm thresholding for t < γ, hard thresholding at λ√(tγ) otherwise.

    Examples
    --------
    >>> MCP(1.0, gamma=2.0).prox(1.5, 1.0, 0)
    1.0
    >>> convex, concave = MCP(1.0, gamma=2.0).split()
    >>> float(convex.value(1.5, 0) + concave.value(1.5)), MCP(1.0, gamma=2.0).value(1.5, 0)
    (0.9375, 0.9375)
    """

    kind = formulas.MCP

    def __init__(self, lam: float, gamma: float = 3.0, *, positive: bool = False) -> None:
        self.lam = above("MCP", "lam", lam, 0.0, "without it there is no penalty")
        self.gamma = above("MCP", "gamma", gamma, 1.0, "else its prox at unit step jumps")
        self._set(self.gamma, positive)

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ."""
        return type(self)(lam, self.gamma, positive=self.positive)

    def straighter(self, times: float) -> Self:
        """The penalty with the same slope at zero whose concave part bends so many times less."""
        return type(self)(self.lam, times * self.gamma, positive=self.positive)

    def _concave_value(self, size: Array) -> Array:
        knee = self.gamma * self.lam
        inside = np.minimum(size, knee)
        return -0.5 * inside**2 / self.gamma - self.lam * (size - inside)

    def _concave_slope(self, size: Array) -> Array:
        return -np.minimum(size / self.gamma, self.lam)

    def _concave_lipschitz(self) -> float:
        return 1.0 / self.gamma

    def __repr__(self) -> str:
        return f"MCP({self.lam:g}, gamma={self.gamma:g})"


class SCAD(_Nonconvex):
    """The smoothly clipped absolute deviation: λ|x| up to λ, constant beyond γλ, γ > 2.

    Between them r(x) = λ|x| − (|x| − λ)²/(2(γ − 1)). The prox is exact for every step.

    Examples
    --------
    >>> SCAD(1.0, gamma=3.0).prox(4.0, 1.0, 0)
    4.0
    """

    kind = formulas.SCAD

    def __init__(self, lam: float, gamma: float = 3.7, *, positive: bool = False) -> None:
        self.lam = above("SCAD", "lam", lam, 0.0, "without it there is no penalty")
        self.gamma = above("SCAD", "gamma", gamma, 2.0, "else its prox at unit step jumps")
        self._set(self.gamma, positive)

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ."""
        return type(self)(lam, self.gamma, positive=self.positive)

    def straighter(self, times: float) -> Self:
        """The penalty with the same slope at zero whose concave part bends so many times less."""
        return type(self)(self.lam, 1.0 + times * (self.gamma - 1.0), positive=self.positive)

    def _concave_value(self, size: Array) -> Array:
        bend = np.clip(size - self.lam, 0.0, (self.gamma - 1.0) * self.lam)
        beyond = np.maximum(size - self.gamma * self.lam, 0.0)
        return -0.5 * bend**2 / (self.gamma - 1.0) - self.lam * beyond

    def _concave_slope(self, size: Array) -> Array:
        return -np.clip((size - self.lam) / (self.gamma - 1.0), 0.0, self.lam)

    def _concave_lipschitz(self) -> float:
        return 1.0 / (self.gamma - 1.0)

    def __repr__(self) -> str:
        return f"SCAD({self.lam:g}, gamma={self.gamma:g})"


class LogSum(_Nonconvex):
    """The log-sum penalty, r(x) = λ Σ_j log(1 + |x_j|/ε); its slope at zero is λ/ε.

    Examples
    --------
    >>> LogSum(1.0, eps=1.0).prox(2.0, 1.0, 0)
    1.618
    """

    kind = formulas.LOG_SUM

    def __init__(self, lam: float, eps: float = 1.0, *, positive: bool = False) -> None:
        self.lam = above("LogSum", "lam", lam, 0.0, "without it there is no penalty")
        self.eps = above("LogSum", "eps", eps, 0.0, "it divides |x|")
        self._set(self.eps, positive)

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ."""
        return type(self)(lam, self.eps, positive=self.positive)

    def straighter(self, times: float) -> Self:
        """The penalty with the same slope at zero whose concave part bends so many times less."""
        return type(self)(times * self.lam, times * self.eps, positive=self.positive)

    def _concave_value(self, size: Array) -> Array:
        return self.lam * (np.log1p(size / self.eps) - size / self.eps)

    def _concave_slope(self, size: Array) -> Array:
        return -self.lam * size / (self.eps * (self.eps + size))

    def _concave_lipschitz(self) -> float:
        return self.lam / self.eps**2 if self.eps**2 > 0.0 else math.inf

    def __repr__(self) -> str:
        return f"LogSum({self.lam:g}, eps={self.eps:g})"
