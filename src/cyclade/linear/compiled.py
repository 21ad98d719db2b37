"""A penalty as the kernels see it: shipped ones by kind and table, the user's compiled at once.

The text of the kernels is the same. For a penalty of the user's it is compiled again with that
class's `value`, `prox` and `distance` in place of the shipped ones; the numbers and arrays an
object holds become a tuple that the compiled methods read as `self`, so that another λ of the
same class needs no new compilation.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import columns, dense, sparse
from cyclade.linear.kernels.jit import rebound

Array = NDArray[Any]
REQUIRED = {"value": "(x, j)", "prox": "(u, t, j)", "distance": "(x, g, j)"}


@dataclass(frozen=True)
class Compiled:
    """A scalar penalty, ready for the kernels."""

    penalty: Any
    convex: bool
    parameters: Any
    dense_cycles: Any
    sparse_cycles: Any
    _total: Any
    _distances: Any
    _project: Any
    _thresholds: Any  # None where zero has no known threshold
    _conjugates: Any  # None where there is no dual to measure by

    def total(self, names: Array, x: Array) -> float:
        """Σ r_j(x_j) over the coordinates `names`."""
        return float(self._total(self.parameters, names, x))

    def distances(self, names: Array, x: Array, g: Array) -> Array:
        """dist(−g_j, ∂r_j(x_j)) for the coordinates `names`."""
        out = np.empty(names.size)
        self._distances(self.parameters, names, x, g, out)
        return out

    def project(self, x: Array) -> None:
        """Move x, in place, into the domain of r."""
        self._project(self.parameters, x)

    def thresholds(self, p: int) -> Array | None:
        """The largest |g_j| for which x_j = 0 stays stationary, or None if that is unknown."""
        if self._thresholds is None:
            return None
        out = np.empty(p)
        self._thresholds(self.parameters, out)
        return out

    @property
    def has_dual(self) -> bool:
        """Whether r* can be evaluated."""
        return self._conjugates is not None

    def conjugates(self, v: Array) -> float:
        """r*(v)."""
        return float(self._conjugates(self.parameters, v))


def compiled(penalty: Any, p: int) -> Compiled:
    """The penalty for p coordinates, as the kernels see it.

    Raises
    ------
    TypeError
        If a method is missing, or cannot be compiled.

    Examples
    --------
    >>> from cyclade.linear.penalties import L1
    >>> compiled(L1(2.0), 3).total(np.arange(3), np.array([1.0, -2.0, 0.0]))
    6.0
    """
    if hasattr(penalty, "kind"):
        return Compiled(
            penalty, penalty.convex, (penalty.kind, penalty.parameters(p)), dense.cycles,
            sparse.cycles, columns.total, columns.distances, columns.project, columns.thresholds,
            columns.conjugates if penalty.convex else None,
        )  # fmt: skip
    return _users(penalty, p)


def missing(penalty: Any) -> list[str]:
    """The methods a penalty must have and has not."""
    return [f"{m}{args}" for m, args in REQUIRED.items() if not callable(_own(penalty, m))]


def _own(penalty: Any, method: str) -> Any:
    """The plain function behind a method, or None if it is absent or only declared."""
    function = getattr(type(penalty), method, None)
    return None if getattr(function, "__isabstractmethod__", False) else function


def _users(penalty: Any, p: int) -> Compiled:
    lacking = missing(penalty)
    if lacking:
        raise TypeError(
            f"penalty: {type(penalty).__name__} lacks {' and '.join(lacking)}; a penalty has "
            + ", ".join(f"{m}{args}" for m, args in REQUIRED.items())
        )
    functions = _functions(type(penalty))
    state = _state(penalty)
    try:
        for j, name in ((0, "value"), (0, "prox"), (0, "distance")):
            arguments = (0.5, 0.25, j) if name != "value" else (0.5, j)
            functions["scalar"][name](state, *arguments)
    except Exception as error:
        raise TypeError(
            f"penalty: {type(penalty).__name__}.{name} could not be compiled; it may use plain "
            f"numbers, `math`, and attributes of self that are numbers or arrays. {error}"
        ) from error
    return Compiled(
        penalty, bool(getattr(penalty, "convex", False)), state, functions["dense"],
        functions["sparse"], functions["total"], functions["distances"], functions["project"],
        functions["thresholds"], functions["conjugates"],
    )  # fmt: skip


@lru_cache(maxsize=32)
def _functions(kind: type) -> dict[str, Any]:
    """The kernels with the methods of that class inside."""
    names = [m for m in (*REQUIRED, "threshold", "conjugate") if hasattr(kind, m)]
    scalar = {name: rebound(getattr(kind, name), {}, cache=False) for name in names}

    def kernel(text: Any) -> Any:
        return rebound(text, scalar, cache=False)

    return {
        "scalar": scalar,
        "dense": kernel(dense.cycles),
        "sparse": kernel(sparse.cycles),
        "total": kernel(columns.total),
        "distances": kernel(columns.distances),
        "project": kernel(columns.project),
        "thresholds": kernel(columns.thresholds) if "threshold" in scalar else None,
        "conjugates": kernel(columns.conjugates) if "conjugate" in scalar else None,
    }


def _state(penalty: Any) -> Any:
    """The numbers and arrays of an object, as a tuple with names."""
    held = {
        name: np.asarray(value, np.float64) if isinstance(value, np.ndarray) else float(value)
        for name, value in vars(penalty).items()
        if isinstance(value, (int, float, np.number, np.ndarray)) and name.isidentifier()
    }
    return _tuple_type(type(penalty), tuple(held))(*held.values())


@lru_cache(maxsize=64)
def _tuple_type(kind: type, fields: tuple[str, ...]) -> Any:
    """One tuple type per class and set of attributes, or every object would compile anew."""
    return namedtuple(kind.__name__, fields, rename=False)


__all__ = ["Compiled", "compiled", "missing"]
