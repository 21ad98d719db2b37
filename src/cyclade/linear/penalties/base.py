"""What a penalty is: a value, a prox and a distance; penalties by name, checks of arguments."""

from __future__ import annotations

import abc
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade._checks import as_float, non_negative, require
from cyclade.linear.penalties import formulas

if TYPE_CHECKING:
    from typing_extensions import Self

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
        """r_j(x), +inf outside the domain."""
        return float(formulas.value(self._parameters, x, j))

    def prox(self, u: float, t: float, j: int) -> float:
        """The minimiser over v of r_j(v) + (v − u)² / (2t); of several, the one nearest zero."""
        return float(formulas.prox(self._parameters, u, t, j))

    def distance(self, x: float, g: float, j: int) -> float:
        """The distance from −g to ∂r_j(x)."""
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


def fraction(name: str, value: Any) -> float:
    """`value` as a float; ValueError unless it lies between 0 and 1."""
    require(0 <= as_float(value) <= 1, name, value, "between 0 and 1")
    return float(value)


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


BY_NAME: dict[str, Callable[..., Any]] = {}  # every family adds its own


def get(name: str, lam: float, **options: Any) -> Any:
    """The penalty with this name at λ = `lam`; `options` are its other arguments.

    Examples
    --------
    >>> from cyclade.linear.penalties import get
    >>> get("mcp", 0.5, gamma=2.0)
    MCP(0.5, gamma=2)
    >>> get("group_l2", 0.5, groups=2)
    GroupL2(0.5, groups=2)
    """
    if name not in BY_NAME:
        raise ValueError(f"penalty must be one of {', '.join(BY_NAME)}, got {name!r}")
    try:
        return BY_NAME[name](lam, **options)
    except TypeError as error:
        raise TypeError(f"penalty {name!r} cannot be built from these options: {error}") from None


def is_separable(loss: Any, penalty: Any, y_ndim: int) -> bool:
    """Whether neither loss nor penalty joins the outputs: each is a problem of its own."""
    joined = loss.target == "classes" or getattr(penalty, "joins_outputs", False)
    return y_ndim == 2 and not joined
