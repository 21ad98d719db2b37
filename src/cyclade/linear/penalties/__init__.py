"""Penalties of linear models: a value, an exact prox and a distance to the subdifferential.

They are scalar (`L1`, `ElasticNet`, `WeightedL1`, `Box` and the nonconvex `MCP`, `SCAD`,
`LogSum`), act on blocks (`GroupL2`, `SparseGroup`, `Rows`), or sort all coordinates (`Slope`).
`get` finds them by name.

To add a penalty on single coordinates, touch one file:

1. In `scalar` or `nonconvex` write a class with `convex`, `value`, `prox` and `distance` (see
   `ScalarPenalty`); with `threshold` columns can be left out, with `scaled` and `lam_max` there
   are paths. It is compiled when it is first used.
2. Add it, under its name, to `PENALTIES` and to `__all__` of that file.

To share the machine code of the other shipped penalties, which is kept on disk, and to have a
duality gap, it becomes a `ShippedScalar` instead: its formulas are a new `kind` in `formulas`, and
its class holds the table of its numbers. A penalty of your own needs neither step: give the object
to `solve` or an estimator.

A penalty on groups is a `BlockPenalty`, λ_k‖x‖_2 + ν‖x‖_1 on every block, which is what the
solvers know: its class in `block` chooses the blocks and their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclade.linear.penalties import block, nonconvex, scalar, slope
from cyclade.linear.penalties.base import ScalarPenalty, ShippedScalar
from cyclade.linear.penalties.block import *  # noqa: F403
from cyclade.linear.penalties.nonconvex import *  # noqa: F403
from cyclade.linear.penalties.scalar import *  # noqa: F403
from cyclade.linear.penalties.slope import *  # noqa: F403

BY_NAME: dict[str, Callable[..., Any]] = {
    **scalar.PENALTIES, **nonconvex.PENALTIES, **block.PENALTIES, **slope.PENALTIES,
}  # fmt: skip


def get(name: str, lam: float, **options: Any) -> ShippedScalar | block.BlockPenalty | slope.Slope:
    """The penalty with this name at λ = `lam`; `options` are its other arguments.

    Examples
    --------
    >>> get("mcp", 0.5, gamma=2.0)
    MCP(0.5, gamma=2)
    >>> get("group_l2", 0.5, groups=2)
    GroupL2(0.5, groups=2)
    """
    if name not in BY_NAME:
        raise ValueError(f"penalty must be one of {', '.join(BY_NAME)}, got {name!r}")
    try:
        penalty: ShippedScalar | block.BlockPenalty | slope.Slope = BY_NAME[name](lam, **options)
    except TypeError as error:
        raise TypeError(f"penalty {name!r} cannot be built from these options: {error}") from None
    return penalty


__all__ = ["ScalarPenalty", "ShippedScalar", "get"]
__all__ += block.__all__ + nonconvex.__all__ + scalar.__all__ + slope.__all__


def is_separable(loss: Any, penalty: Any, y_ndim: int) -> bool:
    """Whether neither loss nor penalty joins the outputs: each is a problem of its own."""
    joined = loss.target == "classes" or isinstance(penalty, block.BlockPenalty)
    return y_ndim == 2 and not joined
