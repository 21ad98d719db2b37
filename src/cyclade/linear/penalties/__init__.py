"""Penalties of linear models: a value, an exact prox and a distance to the subdifferential.

They are scalar (`L1`, `ElasticNet`, `WeightedL1`, `Box` and the nonconvex `MCP`, `SCAD`,
`LogSum`), act on blocks (`GroupL2`, `SparseGroup`, `Rows`), or sort all coordinates (`Slope`).
`get` finds them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclade.linear.penalties.base import BlockPenalty, ScalarPenalty, ShippedScalar
from cyclade.linear.penalties.block import GroupL2, Rows, SparseGroup
from cyclade.linear.penalties.nonconvex import MCP, SCAD, ConcavePart, LogSum
from cyclade.linear.penalties.scalar import L1, Box, ElasticNet, WeightedL1
from cyclade.linear.penalties.slope import Slope

__all__ = [
    "L1",
    "MCP",
    "SCAD",
    "BlockPenalty",
    "Box",
    "ConcavePart",
    "ElasticNet",
    "GroupL2",
    "LogSum",
    "Rows",
    "ScalarPenalty",
    "ShippedScalar",
    "Slope",
    "SparseGroup",
    "WeightedL1",
    "get",
]


def _nonnegative_l1(lam: float, **options: Any) -> L1:
    return L1(lam, positive=True, **options)


def _box(lam: float, **options: Any) -> Box:
    return Box(lam=lam, **options)


_NAMES: dict[str, Callable[..., ShippedScalar | BlockPenalty | Slope]] = {
    "l1": L1,
    "elastic_net": ElasticNet,
    "weighted_l1": WeightedL1,
    "nonnegative_l1": _nonnegative_l1,
    "box": _box,
    "mcp": MCP,
    "scad": SCAD,
    "log_sum": LogSum,
    "group_l2": GroupL2,
    "sparse_group": SparseGroup,
    "rows": Rows,
    "slope": Slope,
}


def get(name: str, lam: float, **options: Any) -> ShippedScalar | BlockPenalty | Slope:
    """The penalty with this name at λ = `lam`; `options` are its other arguments.

    Examples
    --------
    >>> get("mcp", 0.5, gamma=2.0)
    MCP(0.5, gamma=2)
    >>> get("group_l2", 0.5, groups=2)
    GroupL2(0.5, groups=2)
    """
    if name not in _NAMES:
        raise ValueError(f"penalty must be one of {', '.join(_NAMES)}, got {name!r}")
    try:
        return _NAMES[name](lam, **options)
    except TypeError as error:
        raise TypeError(f"penalty {name!r} cannot be built from these options: {error}") from None
