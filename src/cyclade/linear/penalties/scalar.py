"""What a penalty is: a value, a prox and a distance; and those on single coordinates."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade._checks import above, as_float, choice, fraction, non_negative
from cyclade.linear.checks import by_name
from cyclade.linear.penalties import formulas
from cyclade.regularisers.base import Regulariser
from cyclade.regularisers.elementwise import bounds

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "L1", "MCP", "SCAD", "Box", "ElasticNet", "LogSum", "ScalarPenalty", "ShippedScalar",
    "WeightedL1", "get",
]  # fmt: skip

Array = Any


class ScalarPenalty(abc.ABC):
    """A penalty r(x) = Σ_j r_j(x_j) on single coordinates.

    To write one, give `value`, `prox` and `distance` as functions of plain numbers (they are
    compiled, so use `math` rather than NumPy), and say whether r is `convex`. Two more methods
    are used where present: `threshold(j)`, the largest τ such that |g| ≤ τ keeps a zero
    stationary, which lets the solver leave columns out; and `scaled(lam)`, the same penalty at
    another λ, which paths need.

    Examples
    --------
    >>> class Quadratic(ScalarPenalty):
    ...     convex = True
    ...
    ...     def __init__(self, lam):
    ...         self.lam = lam
    ...
    ...     def value(self, x, j):
    ...         return 0.5 * self.lam * x * x
    ...
    ...     def prox(self, u, t, j):
    ...         return u / (1.0 + self.lam * t)
    ...
    ...     def distance(self, x, g, j):
    ...         return abs(g + self.lam * x)
    >>> Quadratic(1.0).prox(3.0, 0.5, 0)
    2.0
    """

    convex: bool = False

    @abc.abstractmethod
    def value(self, x: float, j: int) -> float:
        """r_j(x), +inf outside the domain."""

    @abc.abstractmethod
    def prox(self, u: float, t: float, j: int) -> float:
        """A minimiser over v of r_j(v) + (v − u)² / (2t)."""

    @abc.abstractmethod
    def distance(self, x: float, g: float, j: int) -> float:
        """The distance from −g to ∂r_j(x), where g is the gradient of the smooth part."""

    def total(self, x: Array) -> float:
        """r(x) = Σ_j r_j(x_j)."""
        return float(sum(self.value(float(xj), j) for j, xj in enumerate(x)))


class AtLam(abc.ABC):
    """A penalty with a λ, and the same penalty at another λ."""

    lam: float

    def _set_lam(self, lam: float) -> None:
        """Check λ and set it, with what is computed from it."""
        self.lam = non_negative(f"{type(self).__name__}: lam", lam)

    def scaled(self, lam: float) -> Self:
        """The same penalty at another λ; the other arguments were checked and are shared."""
        other = copy(self)
        other._set_lam(lam)
        return other

    @abc.abstractmethod
    def lam_max(self, g0: Array) -> float:
        """The smallest λ at which x = 0 is stationary, where g0 is the gradient of f at zero."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join([f'{self.lam:g}', *self._shown()])})"

    def _shown(self) -> list[str]:
        """The arguments after λ, as `repr` shows them."""
        return []


class ShippedScalar(AtLam, ScalarPenalty):
    """A scalar penalty that the kernels know by its `kind` and a table of numbers."""

    kind: int
    _table: Array  # (1, k) or (p, k)

    @property
    def _parameters(self) -> formulas.Parameters:
        return self.kind, self._table

    def value(self, x: float, j: int) -> float:
        return float(formulas.value(self._parameters, x, j))

    def prox(self, u: float, t: float, j: int) -> float:
        """The minimiser over v of r_j(v) + (v − u)² / (2t); of several, the one nearest zero."""
        return float(formulas.prox(self._parameters, u, t, j))

    def distance(self, x: float, g: float, j: int) -> float:
        return float(formulas.distance(self._parameters, x, g, j))

    def threshold(self, j: int) -> float:
        """The largest τ such that |g| ≤ τ keeps a zero stationary; −1 where zero is forbidden."""
        return float(formulas.threshold(self._parameters, j))

    def conjugate(self, v: float, j: int) -> float:
        """r_j*(v), for convex penalties."""
        if not self.convex:
            raise TypeError(f"{type(self).__name__} is not convex: it has no dual to measure by")
        return float(formulas.conjugate(self._parameters, v, j))

    def parameters(self, p: int) -> Array:
        """The table the kernels read: float64 of shape (1, k), or (p, k) if coordinates differ."""
        rows = self._table.shape[0]
        if rows not in (1, p):
            raise ValueError(
                f"{type(self).__name__}: it was given numbers for {rows} coordinates, but X has "
                f"{p} columns"
            )
        return self._table


def weighted(penalty: Any, weights: Any, p: int, names: Any = None) -> Any:
    """The penalty with λ multiplied by w_j ≥ 0 for every feature, group or row of its own.

    `weights` has one number each, or is a dict by names of features; those it lacks have 1.
    """
    if not hasattr(penalty, "weighted"):
        owner = type(penalty).__name__
        raise ValueError(f"penalty_weights must be None: {owner} lacks weighted(weights)")
    blocks = len(penalty.blocks(p)) if hasattr(penalty, "blocks") else p
    if isinstance(weights, Mapping):
        if blocks != p:
            raise ValueError(
                "penalty_weights: names are those of features, which have no weights of their own "
                f"in groups; give one number for each of the {blocks} groups"
            )
        known = {} if names is None else by_name(names)
        full = np.ones(p)
        for name, weight in weights.items():
            if name not in known and not (isinstance(name, int) and 0 <= name < p):
                raise ValueError(f"penalty_weights: X has no feature {name!r}")
            full[known.get(name, [name])] = as_float(weight)
        weights = full
    weights = nonnegative_vector("weighted", "penalty_weights", weights)
    if weights.size != blocks:
        each = "features of X" if blocks == p else "groups"
        raise ValueError(
            f"penalty_weights must have one number for each of the {blocks} {each}, "
            f"got {weights.size}"
        )
    return penalty.weighted(weights)


def nonnegative_vector(owner: str, name: str, values: Any) -> Array:
    """`values` as a float64 vector; ValueError unless all are finite and >= 0."""
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{owner}: {name} must be a list of numbers, got {values!r}")
    wrong = ~(np.isfinite(vector) & (vector >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{owner}: {name} must be finite numbers >= 0, but entry {at} is {vector[at]:g}"
        )
    return vector


def pull_at_zero(g0: Array, lower: Array | float = -1.0, upper: Array | float = 1.0) -> Array:
    """How hard each coordinate is pulled off zero by −g0, towards where its bounds let it go."""
    g0 = np.asarray(g0, dtype=np.float64)
    return np.maximum(-g0 * (np.asarray(upper) > 0), g0 * (np.asarray(lower) < 0))


class _ConvexScalar(ShippedScalar):
    """λ (ρ w_j |x| + ½ (1 − ρ) x²) on lower_j ≤ x ≤ upper_j: what all penalties here are."""

    convex = True
    lower: Array | float = -math.inf
    upper: Array | float = math.inf
    weights: Array | float = 1.0
    l1_ratio: float = 1.0
    positive: bool = False  # whether x ≥ 0 was asked for
    unit: Array  # the table at λ = 1; at λ its first two columns are λ times as large

    def _tabulate(self, lam: float, positive: bool = False) -> None:
        """Set the table; the kind `L1`, without quadratic part and bounds, is cheaper."""
        if positive:
            self.positive, self.lower = True, 0.0
        l1, rest = self.l1_ratio * self.weights, (1.0 - self.l1_ratio) * self.weights
        bounded = np.ndim(self.lower) or np.ndim(self.upper)
        bounded = bounded or not (math.isinf(self.lower) and math.isinf(self.upper))
        if self.l1_ratio == 1.0 and not bounded:
            self.kind, self.unit = formulas.L1, np.array(l1, np.float64).reshape(-1, 1)
        else:
            columns = np.broadcast_arrays(np.atleast_1d(l1), rest, self.lower, self.upper)
            self.kind, self.unit = formulas.BOXED, np.stack(columns, axis=1).astype(np.float64)
        self._set_lam(lam)

    def _set_lam(self, lam: float) -> None:
        super()._set_lam(lam)
        self._table = self.unit.copy()
        self._table[:, :2] *= self.lam

    def weighted(self, weights: Array) -> Self:
        """The same with λ w_j for λ, in both parts of an elastic net."""
        other = copy(self)
        other.weights = weights * self.weights
        other._tabulate(self.lam, self.positive)
        return other

    def within_float32(self) -> Self:
        """The same with bounds rounded to float32, inwards: coefficients so rounded keep to it."""
        if self.kind == formulas.L1:
            return self
        other, bounds = copy(self), self.unit[:, 2:]
        with np.errstate(over="ignore", invalid="ignore"):
            nearest = bounds.astype(np.float32)
            inwards = np.nextafter(nearest, np.array([np.inf, -np.inf], np.float32))
            single = np.where((nearest - bounds) * [1.0, -1.0] < 0.0, inwards, nearest)
        empty = single[:, :1] > single[:, 1:]  # one number, of float64
        other.unit = np.hstack([self.unit[:, :2], np.where(empty, nearest, single)])
        other._set_lam(self.lam)
        return other

    def lam_max(self, g0: Array) -> float:
        """max_j |g0_j| / (ρ w_j) over the penalised coordinates, on the sides that bounds allow.

        Infinite where no λ keeps zero. Unpenalised coordinates are left out, so g0 should be the
        gradient where those are fitted.
        """
        if self.kind == formulas.L1 and len(self.unit) == 1:  # no array for a number, no bounds
            weight, pull = float(self.unit[0, 0]), float(max(np.max(g0), -np.min(g0)))
            return pull / weight if weight > 0 else 0.0
        if np.max(self.lower) > 0 or np.min(self.upper) < 0:
            return math.inf
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

    For `minimize` there is `cyclade.regularisers.ElasticNet`, which has the same keywords.

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

    Bounds are numbers or one number per coordinate; ±inf means none. There is no l1 norm unless
    `lam` is given, or the estimator's `alpha`; by its name, "box", the penalty has one always. For
    `minimize` there is `cyclade.regularisers.Box`.

    Examples
    --------
    >>> Box(-1.0, 1.0).prox(2.0, 0.1, 0)
    1.0
    >>> Box(0.0, math.inf, lam=0.5).prox(2.0, 1.0, 0)
    1.5
    """

    def __init__(self, lower: Any = 0.0, upper: Any = math.inf, lam: float = 0.0) -> None:
        self.lower, self.upper = bounds("Box", lower, upper)
        if self.lower.ndim > 1 or self.upper.ndim > 1:
            raise ValueError("Box: lower and upper must be numbers or vectors")
        self._tabulate(lam)

    def __repr__(self) -> str:
        return f"Box({self.lower}, {self.upper}, lam={self.lam:g})"


class _Nonconvex(ShippedScalar):
    """Σ_j ρ(|x_j|) with a concave ρ that has, beside λ, one number for its shape."""

    convex = False
    positive: bool
    weights: Array | float = 1.0
    _shape: str  # the name of that number

    def _set(self, lam: float, positive: bool) -> None:
        self.positive = bool(positive)
        self._set_lam(lam)

    def _set_lam(self, lam: float) -> None:
        self.lam = above(f"{type(self).__name__}: lam", lam, 0.0)
        lams = np.atleast_1d(self.lam * np.asarray(self.weights))
        self._table = np.empty((lams.size, 3))
        self._table[:, 0] = lams
        self._table[:, 1:] = getattr(self, self._shape), self.positive

    def weighted(self, weights: Array) -> Self:
        """The same with λ w_j for λ."""
        return self._with(weights=weights * self.weights)

    def _with(self, **changed: Any) -> Self:
        """The same with other numbers."""
        other = copy(self)
        vars(other).update(changed)
        other._set_lam(other.lam)
        return other

    def lam_max(self, g0: Array) -> float:
        """The largest |g0_j| over the slope that λ = 1 has at zero."""
        pull = pull_at_zero(g0, 0.0 if self.positive else -1.0)
        slopes = np.array([self.threshold(j) for j in range(len(self._table))])
        least = np.broadcast_to(slopes.reshape(-1, *[1] * (pull.ndim - 1)), pull.shape)
        return float((pull[least > 0] * self.lam / least[least > 0]).max(initial=0.0))

    def convex_part(self) -> L1:
        """The l1 norm with the slope at zero; the rest is smooth and concave."""
        convex = L1(self._with(weights=1.0).threshold(0), positive=self.positive)
        return convex.weighted(self.weights)

    @abc.abstractmethod
    def straighter(self, times: float) -> Self:
        """The penalty with the same slope at zero whose concave part bends so many times less."""

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
    """

    kind = formulas.MCP
    _shape = "gamma"

    def __init__(self, lam: float, gamma: float = 3.0, *, positive: bool = False) -> None:
        self.gamma = above("MCP: gamma", gamma, 1.0)  # else its prox at unit step jumps
        self._set(lam, positive)

    def straighter(self, times: float) -> Self:
        return self._with(gamma=times * self.gamma)


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

    def straighter(self, times: float) -> Self:
        return self._with(gamma=1.0 + times * (self.gamma - 1.0))


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

    def straighter(self, times: float) -> Self:
        return self._with(lam=times * self.lam, eps=times * self.eps)


BY_NAME: dict[str, Callable[..., Any]] = {  # every family adds its own
    "l1": L1,
    "elastic_net": ElasticNet,
    "weighted_l1": WeightedL1,
    "nonnegative_l1": lambda lam, **options: L1(lam, positive=True, **options),
    "box": lambda lam, **options: Box(lam=lam, **options),
    "mcp": MCP,
    "scad": SCAD,
    "log_sum": LogSum,
}


def get(name: Any, alpha: float | None = None, **options: Any) -> Any:
    """The penalty with this name at λ = `alpha`, or the object itself; `options` go to its class.

    Examples
    --------
    >>> from cyclade.linear.penalties import get
    >>> get("mcp", 0.5, gamma=2.0)
    MCP(0.5, gamma=2)
    >>> get("group_l2", 0.5, groups=2)
    GroupL2(0.5, groups=2)
    """
    if not isinstance(name, str):
        if alpha is not None:
            raise ValueError("alpha: it can only be given with a penalty by name")
        if isinstance(name, type):
            raise ValueError(f"penalty: give an object, {name.__name__}(...), not the class")
        if isinstance(name, Regulariser):
            kind, here = type(name).__name__, "cyclade.linear.penalties"
            twin = f"{here}.{kind}" if hasattr(import_module(here), kind) else f"one of {here}"
            raise TypeError(
                f"penalty: this {kind} is for minimize (of cyclade.regularisers); use {twin}"
            )
        return name
    if alpha is None:
        raise ValueError(f"alpha: penalty {name!r} by name needs a λ, such as alpha=0.1")
    choice("penalty", name, tuple(BY_NAME))
    try:
        return BY_NAME[name](alpha, **options)
    except TypeError as error:
        raise TypeError(f"penalty {name!r} cannot be built from these options: {error}") from None


def is_separable(loss: Any, penalty: Any, y_ndim: int) -> bool:
    """Whether neither loss nor penalty joins the outputs: each is a problem of its own."""
    joined = loss.target == "classes" or getattr(penalty, "joins_outputs", False)
    return y_ndim == 2 and not joined
