"""A penalty as the kernels see it: shipped ones by kind and table, the user's compiled at once.

The text of the kernels is the same. For a penalty of the user's it is compiled again with that
class's `value`, `prox` and `distance` in place of the shipped ones; the numbers and arrays an
object holds become a tuple that the compiled methods read as `self`, so that another λ of the
same class needs no new compilation.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import columns, dense, gram, sparse
from cyclade.linear.kernels.jit import rebound
from cyclade.linear.penalties import formulas

Array = NDArray[Any]
SHIPPED: dict[str, Any] = {
    "dense_cycles": dense.cycles,
    "sparse_cycles": sparse.cycles,
    "gram_cycles": gram.cycles,
    "total": columns.total,
    "distances": columns.distances,
    "check": columns.check,
    "project": columns.project,
    "thresholds": columns.thresholds,
    "conjugates": columns.conjugates,
}
REQUIRED = {"value": "(x, j)", "prox": "(u, t, j)", "distance": "(x, g, j)"}


@dataclass(frozen=True)
class BoundPenalty:
    """A scalar penalty, ready for the kernels."""

    penalty: Any
    convex: bool
    parameters: Any
    zero_threshold: (
        Array  # per coordinate, the largest |g| at which zero stays; −1 where that is unknown
    )
    functions: dict[str, Any]
    shipped: bool

    @property
    def is_norm(self) -> bool:
        """Whether r is a weighted l1 norm."""
        return self.shipped and bool(self.parameters[0] == formulas.L1)

    @cached_property
    def top(self) -> float:
        """The largest threshold."""
        return float(self.zero_threshold.max())

    def total(self, cols: Array, x: Array) -> float:
        """Σ r_j(x_j) over the coordinates `cols`."""
        return float(self.functions["total"](self.parameters, cols, x))

    def distances(self, cols: Array, x: Array, g: Array) -> Array:
        """dist(−g_j, ∂r_j(x_j)) for the coordinates `cols`."""
        out = np.empty(cols.size)
        self.functions["distances"](self.parameters, cols, x, g, self.zero_threshold, out)
        return out

    def check(self, x: Array, g: Array) -> tuple[Array, float, float, bool]:
        """The distances of all coordinates, the largest, r(x), and whether g is finite.

        Shipped penalties are zero at zero, so their support is enough for r(x).
        """
        out = np.empty(x.size)
        found = self.functions["check"](
            self.parameters, x, g, self.zero_threshold, not self.shipped, out
        )
        return out, *found

    def derivatives(self, cols: Array, x: Array) -> tuple[Array, Array]:
        """r_j' and r_j'' where x_j ≠ 0; r'' = inf marks a kink, such as an active bound.

        r' is read off the distance of 0 from ∂r_j, which shipped penalties, growing in |x|, allow;
        r'' is a difference of it and need not be precise: it only shapes a Newton matrix.
        """
        if self.is_norm:
            table = self.parameters[1]
            return np.copysign(table[cols if len(table) > 1 else 0, 0], x), np.zeros(x.size)
        zero, h = np.zeros(x.size), 1e-6 * np.abs(x)
        slope = np.copysign(self.distances(cols, x, zero), x)
        ahead = np.copysign(self.distances(cols, x + h, zero), x)
        behind = np.copysign(self.distances(cols, x - h, zero), x)
        with np.errstate(invalid="ignore"):
            bend = (ahead - behind) / (2.0 * h)
        flat = (ahead == 0) & (behind == 0)  # a lone zero borders on a kink
        return slope, np.where(np.isfinite(bend) & (flat | (behind != 0)), bend, np.inf)

    def project(self, x: Array) -> None:
        """Move x, in place, into the domain of r."""
        self.functions["project"](self.parameters, x)

    @property
    def has_dual(self) -> bool:
        """Whether r* can be evaluated."""
        return "conjugates" in self.functions

    def conjugates(self, v: Array, factor: float) -> float:
        """r*(factor · v), where that is finite."""
        if self.is_norm:  # r* is zero there
            return 0.0
        return float(self.functions["conjugates"](self.parameters, v, factor))


def bind(penalty: Any, p: int) -> BoundPenalty:
    """The penalty for p coordinates, as the kernels see it.

    Raises
    ------
    TypeError
        If a method is missing, or cannot be compiled.

    Examples
    --------
    >>> from cyclade.linear.penalties import L1
    >>> bind(L1(2.0), 3).total(np.arange(3), np.array([1.0, -2.0, 0.0]))
    6.0
    """
    shipped = hasattr(penalty, "kind")
    if shipped:
        parameters, functions = (penalty.kind, penalty.parameters(p)), SHIPPED
        if not penalty.convex:
            functions = {name: f for name, f in SHIPPED.items() if name != "conjugates"}
    else:
        functions = _users(penalty)
        parameters = _state(penalty)
    zero_threshold = np.full(p, -1.0)
    if shipped and len(parameters[1]) == 1:  # the same for all: no kernel is needed
        zero_threshold[:] = formulas.threshold(parameters, 0)
    elif "thresholds" in functions:
        functions["thresholds"](parameters, zero_threshold)
    return BoundPenalty(
        penalty, bool(penalty.convex), parameters, zero_threshold, functions, shipped
    )


def missing(penalty: Any) -> list[str]:
    """What a penalty must have and has not."""
    lacking = [f"{m}{args}" for m, args in REQUIRED.items() if not callable(_own(penalty, m))]
    return lacking if hasattr(penalty, "convex") else [*lacking, "convex (True or False)"]


def _own(penalty: Any, method: str) -> Any:
    """The plain function behind a method, or None if it is absent or only declared."""
    function = getattr(type(penalty), method, None)
    return None if getattr(function, "__isabstractmethod__", False) else function


def _users(penalty: Any) -> dict[str, Any]:
    lacking = missing(penalty)
    if lacking:
        raise TypeError(
            f"penalty: {type(penalty).__name__} lacks {' and '.join(lacking)}; a penalty has "
            + ", ".join(f"{m}{args}" for m, args in REQUIRED.items())
            + " and convex"
        )
    scalar, kernels = _functions(penalty.__class__)
    state = _state(penalty)
    for name, function in scalar.items():
        arguments = {"value": (0.5, 0), "threshold": (0,)}.get(name, (0.5, 0.25, 0))
        try:
            function(state, *arguments)
        except numba.core.errors.NumbaError as error:
            raise TypeError(
                f"penalty: {type(penalty).__name__}.{name} could not be compiled; it may use plain "
                f"numbers, `math`, and attributes of self that are numbers or arrays. {error}"
            ) from error
    return kernels


@lru_cache(maxsize=32)
def _functions(kind: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """The methods of that class, compiled, and the kernels with them inside."""
    cols = [m for m in (*REQUIRED, "threshold") if hasattr(kind, m)]
    scalar = {name: rebound(getattr(kind, name), {}, cache=False) for name in cols}
    texts = {
        name: text
        for name, text in SHIPPED.items()
        if name != "conjugates" and (name != "thresholds" or "threshold" in scalar)
    }
    return scalar, {name: rebound(text, scalar, cache=False) for name, text in texts.items()}


def _state(penalty: Any) -> Any:
    """The numbers and arrays of an object, as a tuple with names."""
    held = {
        name: np.asarray(value, np.float64) if isinstance(value, np.ndarray) else float(value)
        for name, value in vars(penalty).items()
        if isinstance(value, (int, float, np.number, np.ndarray)) and name.isidentifier()
    }
    return _tuple_type(penalty.__class__, tuple(held))(*held.values())


@lru_cache(maxsize=64)
def _tuple_type(kind: type, fields: tuple[str, ...]) -> Any:
    """One tuple type per class and set of attributes, or every object would compile anew."""
    return namedtuple(kind.__name__, fields, rename=False)


__all__ = ["BoundPenalty", "bind", "missing"]
