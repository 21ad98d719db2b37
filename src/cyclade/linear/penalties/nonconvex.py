"""Nonconvex penalties on single coordinates, by their exact prox and by the paper's template.

The template asks for f + r with r convex: `split` writes each penalty as λ_0 Σ_j |x_j| plus a
smooth concave part, which belongs to f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade import regularisers
from cyclade._checks import above
from cyclade.linear.penalties import formulas
from cyclade.linear.penalties.scalar import BY_NAME, L1, Array, ShippedScalar, pull_at_zero

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MCP", "SCAD", "ConcavePart", "LogSum"]


@dataclass(frozen=True)
class ConcavePart:
    """The smooth concave h(x) = Σ_j ρ(|x_j|) − ρ'(0) |x_j| of a split penalty.

    h' is Lipschitz with constant `lipschitz`.
    """

    penalty: Any
    lipschitz: float

    def value(self, x: Array) -> Array:
        """h of every entry of x."""
        size = np.abs(x)
        return self.penalty._curve().height(size) - self.penalty.threshold(0) * size

    def gradient(self, x: Array) -> Array:
        """h' of every entry of x."""
        return np.sign(x) * (self.penalty._curve().slope(np.abs(x)) - self.penalty.threshold(0))


class _Nonconvex(ShippedScalar):
    """Σ_j ρ(|x_j|) with a concave ρ that has, beside λ, one number for its shape."""

    convex = False
    positive: bool
    _shape: str  # the name of that number

    def _set(self, lam: float, positive: bool) -> None:
        self.positive = bool(positive)
        self._set_lam(lam)

    def _set_lam(self, lam: float) -> None:
        self.lam = above(f"{type(self).__name__}: lam", lam, 0.0)
        self._table = np.array([[self.lam, getattr(self, self._shape), float(self.positive)]])

    def lam_max(self, g0: Array) -> float:
        """The largest |g0_j| over the slope that λ = 1 has at zero."""
        pull = float(pull_at_zero(g0, 0.0 if self.positive else -1.0).max())
        return pull * self.lam / self.threshold(0)

    def split(self) -> tuple[L1, ConcavePart]:
        """(convex, concave): an l1 norm with the slope at zero, and a smooth concave rest."""
        convex = L1(self.threshold(0), positive=self.positive)
        return convex, ConcavePart(self, self._lipschitz())

    def straighter(self, times: float) -> Self:
        """The penalty with the same slope at zero whose concave part bends so many times less."""
        return type(self)(*self._straightened(times), positive=self.positive)  # type: ignore[call-arg]

    def _straightened(self, times: float) -> tuple[float, float]:
        """λ and the shape of that penalty."""
        raise NotImplementedError

    def _curve(self) -> Any:
        """ρ and ρ' on arrays, `height` and `slope`."""
        raise NotImplementedError

    def _lipschitz(self) -> float:
        """The largest |ρ''|."""
        raise NotImplementedError

    def _shown(self) -> list[str]:
        return [f"{self._shape}={getattr(self, self._shape):g}"]


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
    _shape = "gamma"

    def __init__(self, lam: float, gamma: float = 3.0, *, positive: bool = False) -> None:
        self.gamma = above("MCP: gamma", gamma, 1.0)  # else its prox at unit step jumps
        self._set(lam, positive)

    def _straightened(self, times: float) -> tuple[float, float]:
        return self.lam, times * self.gamma

    def _curve(self) -> regularisers.MCP:
        return regularisers.MCP(self.lam, self.gamma)

    def _lipschitz(self) -> float:
        return 1.0 / self.gamma


class SCAD(_Nonconvex):
    """The smoothly clipped absolute deviation: λ|x| up to λ, constant beyond γλ, γ > 2.

    Between them r(x) = λ|x| − (|x| − λ)²/(2(γ − 1)). The prox is exact for every step.

    Examples
    --------
    >>> SCAD(1.0, gamma=3.0).prox(4.0, 1.0, 0)
    4.0
    """

    kind = formulas.SCAD
    _shape = "gamma"

    def __init__(self, lam: float, gamma: float = 3.7, *, positive: bool = False) -> None:
        self.gamma = above("SCAD: gamma", gamma, 2.0)  # else its prox at unit step jumps
        self._set(lam, positive)

    def _straightened(self, times: float) -> tuple[float, float]:
        return self.lam, 1.0 + times * (self.gamma - 1.0)

    def _curve(self) -> regularisers.SCAD:
        return regularisers.SCAD(self.lam, self.gamma)

    def _lipschitz(self) -> float:
        return 1.0 / (self.gamma - 1.0)


class LogSum(_Nonconvex):
    """The log-sum penalty, r(x) = λ Σ_j log(1 + |x_j|/ε); its slope at zero is λ/ε.

    Examples
    --------
    >>> LogSum(1.0, eps=1.0).prox(2.0, 1.0, 0)
    1.618
    """

    kind = formulas.LOG_SUM
    _shape = "eps"

    def __init__(self, lam: float, eps: float = 1.0, *, positive: bool = False) -> None:
        self.eps = above("LogSum: eps", eps, 0.0)
        self._set(lam, positive)

    def _straightened(self, times: float) -> tuple[float, float]:
        return times * self.lam, times * self.eps

    def _curve(self) -> _LogCurve:
        return _LogCurve(self.lam, self.eps)

    def _lipschitz(self) -> float:
        return self.lam / self.eps**2 if self.eps**2 > 0.0 else math.inf


@dataclass(frozen=True)
class _LogCurve:
    """ρ(s) = λ log(1 + s/ε) and its derivative, for arrays."""

    lam: float
    eps: float

    def height(self, size: Array) -> Array:
        return self.lam * np.log1p(size / self.eps)

    def slope(self, size: Array) -> Array:
        return self.lam / (self.eps + size)


BY_NAME.update({"mcp": MCP, "scad": SCAD, "log_sum": LogSum})
