"""The kernels of scalar penalties: of the shipped ones, and of a user's own.

Shipped penalties are known to the kernels by a kind and a table. For a user's penalty the same
kernels are compiled again with that class's `value`, `prox` and `distance` in place of the shipped
ones; the numbers and arrays an object holds become a tuple that the compiled methods read as
`self`, so another λ of the same class needs no new compilation.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from cyclade.linear.kernels import columns, gram, newton, storage
from cyclade.linear.kernels.jit import compiled, rebound
from cyclade.linear.kernels.shipped import prox


@compiled
def proxes(parameters: Any, cols: Any, u: Any, t: Any, out: Any) -> None:
    """out_i = argmin_v r_j(v) + (v − u_i)² / (2 t_i) with j = cols[i]."""
    for i in range(cols.shape[0]):
        step = t[i] if t.shape[0] > 1 else t[0]
        out[i] = prox(parameters, float(u[i]), float(step), cols[i])


SHIPPED: dict[str, Any] = {
    "cycles": storage.cycles,
    "gram_cycles": gram.cycles,
    "gram_step": gram.step,
    "newton_cycles": newton.cycles,
    "total": columns.total,
    "distances": columns.distances,
    "check": columns.check,
    "project": columns.project,
    "proxes": proxes,
    "thresholds": columns.thresholds,
    "conjugates": columns.conjugates,
}
REQUIRED = {"value": "(x, j)", "prox": "(u, t, j)", "distance": "(x, g, j)"}


def compiled_for(penalty: Any) -> dict[str, Any]:
    """The kernels compiled with the methods of a user's penalty."""
    lacking = []
    for method, form in REQUIRED.items():
        own = getattr(type(penalty), method, None)
        if own is None or getattr(own, "__isabstractmethod__", False):
            lacking.append(method + form)
    if not hasattr(penalty, "convex"):
        lacking.append("convex (True or False)")
    if lacking:
        raise TypeError(
            f"penalty: {type(penalty).__name__} lacks {' and '.join(lacking)}; a penalty has "
            f"{', '.join(m + args for m, args in REQUIRED.items())} and convex"
        )
    scalar, kernels = _functions(penalty.__class__)
    state = numbers_of(penalty)
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


def numbers_of(penalty: Any) -> Any:
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
