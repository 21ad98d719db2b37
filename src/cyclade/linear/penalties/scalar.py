"""The convex penalties on single coordinates: l1 and its relatives, bounds included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cyclade.linear.penalties import formulas
from cyclade.linear.penalties.base import (
    BY_NAME,
    Array,
    ShippedScalar,
    fraction,
    nonnegative_vector,
)
from cyclade.regularisers.elementwise import bounds

__all__ = ["L1", "Box", "ElasticNet", "WeightedL1"]


def pull_at_zero(g0: Array, lower: Array | float = -1.0, upper: Array | float = 1.0) -> Array:
    """How hard each coordinate is pulled off zero by −g0, towards where its bounds let it go."""
    g0 = np.asarray(g0, dtype=np.float64)
    up = np.where(np.asarray(upper) > 0, -g0, 0.0)
    down = np.where(np.asarray(lower) < 0, g0, 0.0)
    return np.maximum(np.maximum(up, down), 0.0)


class _ConvexScalar(ShippedScalar):
    """λ (ρ w_j |x| + ½ (1 − ρ) x²) on lower_j ≤ x ≤ upper_j: what all penalties here are."""

    convex = True
    lower: Array | float = -math.inf
    upper: Array | float = math.inf
    weights: Array | float = 1.0
    l1_ratio: float = 1.0
    positive: bool = False  # whether x ≥ 0 was asked for

    def _tabulate(self, lam: float, positive: bool = False) -> None:
        """Set the table; the kind `L1`, without quadratic part and bounds, is cheaper."""
        if positive:
            self.positive, self.lower = True, 0.0
        if isinstance(self.lower, float) and isinstance(self.upper, float):
            free = self.lower == -math.inf and self.upper == math.inf
        else:
            free = bool(np.all(np.isneginf(self.lower)) and np.all(np.isposinf(self.upper)))
        self.kind = formulas.L1 if free and self.l1_ratio == 1.0 else formulas.BOXED
        columns: list[Any] = [
            self.l1_ratio * self.weights,
            1.0 - self.l1_ratio,
            self.lower,
            self.upper,
        ]
        columns = columns[:1] if self.kind == formulas.L1 else columns
        if all(isinstance(column, float) for column in columns):  # numbers: no need for NumPy
            self._unit = np.array([columns])
        else:
            rows = np.broadcast_arrays(*[np.atleast_1d(column) for column in columns])
            self._unit = np.stack(rows, axis=1).astype(np.float64)  # the table at λ = 1
        self._set_lam(lam)

    def _set_lam(self, lam: float) -> None:
        super()._set_lam(lam)
        self._table = self._unit.copy()
        self._table[:, :2] *= self.lam

    @property
    def unit(self) -> Array:
        """The table at λ = 1; at λ its first two columns are λ times as large."""
        return self._unit

    def lam_max(self, g0: Array) -> float:
        """max_j |g0_j| / (ρ w_j) over the penalised coordinates, on the sides that bounds allow.

        Infinite where no λ keeps zero. Unpenalised coordinates are left out, so g0 should be the
        gradient where those are fitted.
        """
        if np.max(self.lower) > 0 or np.min(self.upper) < 0:
            return math.inf
        if self.kind == formulas.L1 and len(self._unit) == 1:  # no array for a number
            weight, pull = float(self._unit[0, 0]), float(max(np.max(g0), -np.min(g0)))
            return pull / weight if weight > 0 else 0.0
        pull = pull_at_zero(g0, self.lower, self.upper)
        weights = np.broadcast_to(self.weights, pull.shape)
        pulled = (pull > 0) & (weights > 0)
        with np.errstate(divide="ignore"):
            return float((pull[pulled] / (self.l1_ratio * weights[pulled])).max(initial=0.0))


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
        self._tabulate(lam, positive)


class ElasticNet(_ConvexScalar):
    """The elastic net, r(x) = λ Σ_j (ρ |x_j| + ½ (1 − ρ) x_j²) with ρ = `l1_ratio`.

    Examples
    --------
    >>> ElasticNet(2.0, l1_ratio=0.5).prox(3.0, 1.0, 0)
    1.0
    """

    def __init__(self, lam: float, l1_ratio: float = 0.5, *, positive: bool = False) -> None:
        self.l1_ratio = fraction("ElasticNet: l1_ratio", l1_ratio)
        self._tabulate(lam, positive)

    def _shown(self) -> list[str]:
        return [f"{self.l1_ratio:g}"]


class WeightedL1(_ConvexScalar):
    """The weighted l1 norm, r(x) = λ Σ_j w_j |x_j|; a weight of zero leaves x_j unpenalised.

    Examples
    --------
    >>> penalty = WeightedL1(0.5, weights=[1.0, 2.0])
    >>> penalty.prox(2.0, 1.0, 0), penalty.prox(2.0, 1.0, 1)
    (1.5, 1.0)
    """

    weights: Array

    def __init__(
        self, lam: float, weights: Sequence[float] | Array, *, positive: bool = False
    ) -> None:
        self.weights = nonnegative_vector("WeightedL1", "weights", weights)
        self._tabulate(lam, positive)

    def _shown(self) -> list[str]:
        return [f"weights=<{len(self.weights)}>"]


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
        self.lower, self.upper = bounds("Box", lower=lower, upper=upper)
        if self.lower.ndim > 1 or self.upper.ndim > 1:
            raise ValueError("Box: lower and upper must be numbers or vectors")
        self._tabulate(lam)

    def __repr__(self) -> str:
        return f"Box({self.lower}, {self.upper}, lam={self.lam:g})"


BY_NAME.update(
    {
        "l1": L1,
        "elastic_net": ElasticNet,
        "weighted_l1": WeightedL1,
        "nonnegative_l1": lambda lam, **options: L1(lam, positive=True, **options),
        "box": lambda lam, **options: Box(lam=lam, **options),
    }
)
