"""The convex penalties on single coordinates: l1 and its relatives, bounds included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade.linear.penalties import formulas
from cyclade.linear.penalties.base import Array, ShippedScalar
from cyclade.linear.penalties.checks import finite_number, fraction, nonnegative_vector

if TYPE_CHECKING:
    from typing_extensions import Self


FREE = (-math.inf, math.inf)  # no bounds


def pull_at_zero(g0: Array, lower: Array | float, upper: Array | float) -> Array:
    """How hard each coordinate is pulled off zero by −g0, towards where its bounds let it go."""
    g0 = np.asarray(g0, dtype=np.float64)
    up = np.where(np.asarray(upper) > 0, -g0, 0.0)
    down = np.where(np.asarray(lower) < 0, g0, 0.0)
    return np.maximum(np.maximum(up, down), 0.0)


class _ConvexScalar(ShippedScalar):
    """λ w_j |x| + ½ μ x² on lower_j ≤ x ≤ upper_j: what all penalties of this file are."""

    convex = True

    def _set(self, lam: Array, mu: float, lower: Array, upper: Array) -> None:
        """Choose the cheaper kind where there is neither a quadratic nor a bound."""
        if np.ndim(lam) == 0 and mu == 0.0 and lower is FREE[0] and upper is FREE[1]:
            self.kind, self._table = formulas.L1, np.array([[lam]], dtype=np.float64)
            return  # the same as below, for paths that make hundreds of them
        free = np.all(np.isneginf(lower)) and np.all(np.isposinf(upper))
        self.kind = formulas.L1 if free and mu == 0.0 else formulas.BOXED
        columns = [lam] if self.kind == formulas.L1 else [lam, mu, lower, upper]
        rows = np.broadcast_arrays(*[np.atleast_1d(column) for column in columns])
        self._table = np.ascontiguousarray(np.stack(rows, axis=1), dtype=np.float64)


class L1(_ConvexScalar):
    """The l1 norm, r(x) = λ Σ_j |x_j|; with `positive`, restricted to x ≥ 0.

    Examples
    --------
    >>> L1(0.5).prox(2.0, 1.0, 0)
    1.5
    >>> L1(0.5, positive=True).prox(-2.0, 1.0, 0)
    0.0
    """

    def __init__(self, lam: float, *, positive: bool = False) -> None:
        self.lam = finite_number("L1", "lam", lam)
        self.positive = bool(positive)
        self._set(self.lam, 0.0, 0.0 if positive else FREE[0], FREE[1])

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ."""
        return type(self)(lam, positive=self.positive)

    def lam_max(self, g0: Array) -> float:
        """max_j |g0_j|, or max_j −g0_j (at least 0) where x ≥ 0."""
        if not self.positive:
            return float(np.abs(g0).max())
        return float(pull_at_zero(g0, 0.0, 1.0).max())


class ElasticNet(_ConvexScalar):
    """The elastic net, r(x) = λ Σ_j (ρ |x_j| + ½ (1 − ρ) x_j²) with ρ = `l1_ratio`.

    Examples
    --------
    >>> ElasticNet(2.0, l1_ratio=0.5).prox(3.0, 1.0, 0)
    1.0
    """

    def __init__(self, lam: float, l1_ratio: float = 0.5, *, positive: bool = False) -> None:
        self.lam = finite_number("ElasticNet", "lam", lam)
        self.l1_ratio = fraction("ElasticNet", "l1_ratio", l1_ratio)
        self.positive = bool(positive)
        mu = self.lam * (1.0 - self.l1_ratio)
        self._set(self.lam * self.l1_ratio, mu, 0.0 if positive else -math.inf, math.inf)

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ."""
        return type(self)(lam, self.l1_ratio, positive=self.positive)

    def lam_max(self, g0: Array) -> float:
        """max_j |g0_j| / ρ, which is infinite for ρ = 0 (unless g0 = 0)."""
        largest = float(pull_at_zero(g0, 0.0 if self.positive else -1.0, 1.0).max())
        if self.l1_ratio == 0.0:
            return math.inf if largest > 0.0 else 0.0
        return largest / self.l1_ratio

    def __repr__(self) -> str:
        return f"ElasticNet({self.lam:g}, {self.l1_ratio:g})"


class WeightedL1(_ConvexScalar):
    """The weighted l1 norm, r(x) = λ Σ_j w_j |x_j|; a weight of zero leaves x_j unpenalised.

    Examples
    --------
    >>> penalty = WeightedL1(0.5, weights=[1.0, 2.0])
    >>> penalty.prox(2.0, 1.0, 0), penalty.prox(2.0, 1.0, 1)
    (1.5, 1.0)
    """

    def __init__(
        self, lam: float, weights: Sequence[float] | Array, *, positive: bool = False
    ) -> None:
        self.lam = finite_number("WeightedL1", "lam", lam)
        self.weights = nonnegative_vector("WeightedL1", "weights", weights)
        self.positive = bool(positive)
        self._set(self.lam * self.weights, 0.0, 0.0 if positive else -math.inf, math.inf)

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ."""
        return type(self)(lam, self.weights, positive=self.positive)

    def lam_max(self, g0: Array) -> float:
        """max_j |g0_j| / w_j over the penalised coordinates.

        Unpenalised ones are left out, so g0 should be the gradient where those are fitted.
        """
        pull = pull_at_zero(g0, 0.0 if self.positive else -1.0, 1.0)
        penalised = self.weights > 0
        return float((pull[penalised] / self.weights[penalised]).max(initial=0.0))

    def __repr__(self) -> str:
        return f"WeightedL1({self.lam:g}, weights=<{len(self.weights)}>)"


class Box(_ConvexScalar):
    """Bounds, lower ≤ x ≤ upper, with an optional l1 norm: r(x) = λ Σ_j |x_j| inside the box.

    Bounds are numbers or one number per coordinate; ±inf means none.

    Examples
    --------
    >>> Box(-1.0, 1.0).prox(2.0, 0.1, 0)
    1.0
    >>> Box(0.0, math.inf, lam=0.5).prox(2.0, 1.0, 0)
    1.5
    """

    def __init__(self, lower: Any = 0.0, upper: Any = math.inf, lam: float = 0.0) -> None:
        self.lam = finite_number("Box", "lam", lam)
        self.lower, self.upper = (np.array(bound, dtype=np.float64) for bound in (lower, upper))
        if self.lower.ndim > 1 or self.upper.ndim > 1:
            raise ValueError("Box: lower and upper must be numbers or vectors")
        sizes = {bound.size for bound in (self.lower, self.upper) if bound.ndim}
        if len(sizes) > 1:
            raise ValueError(
                f"Box: lower has {self.lower.size} entries but upper has {self.upper.size}"
            )
        if np.isnan(self.lower).any() or np.isnan(self.upper).any():
            raise ValueError("Box: lower and upper must not be NaN")
        if np.any(self.lower > self.upper):
            raise ValueError(f"Box: lower must be <= upper, got lower={lower!r}, upper={upper!r}")
        if np.any(self.lower == math.inf) or np.any(self.upper == -math.inf):
            raise ValueError("Box: lower must be < inf and upper must be > -inf")
        self._set(self.lam, 0.0, self.lower, self.upper)

    def scaled(self, lam: float) -> Self:
        """The same bounds with an l1 norm at another λ."""
        return type(self)(self.lower, self.upper, lam)

    def lam_max(self, g0: Array) -> float:
        """The largest pull off zero that the bounds let through; infinite if zero is outside."""
        if np.any(self.lower > 0) or np.any(self.upper < 0):
            return math.inf
        return float(pull_at_zero(g0, self.lower, self.upper).max())

    def __repr__(self) -> str:
        return f"Box({self.lower}, {self.upper}, lam={self.lam:g})"
