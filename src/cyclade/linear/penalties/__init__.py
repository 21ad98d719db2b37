"""Penalties of linear models: a value, an exact prox and a distance to the subdifferential.

They are scalar (`L1`, `ElasticNet`, `WeightedL1`, `Box` and the nonconvex `MCP`, `SCAD`,
`LogSum`), act on blocks (`GroupL2`, `SparseGroup`, `Rows`, the nonconvex `GroupMCP` and
`GroupSCAD`, and `OverlappingGroups`), or sort all coordinates (`Slope`).
`get` finds them by name.

To add a penalty on single coordinates, touch one file:

1. In `scalar` write a class with `convex`, `value`, `prox` and `distance` (see `ScalarPenalty`);
   with `threshold` columns can be left out, with `scaled` and `lam_max` there are paths. It is
   compiled when it is first used.
2. Add it to `__all__` and, under its name, to `BY_NAME` in that file.

To share the machine code of the other shipped penalties, which is kept on disk, and to have a
duality gap, it becomes a `ShippedScalar` instead: its formulas are a new `kind` in `formulas`, and
its class holds the table of its numbers. A penalty of your own needs neither step: give the object
to `solve` or an estimator.

A penalty on groups is a `BlockPenalty`, λ_k‖x‖_2 + ν‖x‖_1 on every block, which is what the
solvers know: its class in `joined` chooses the blocks and their weights.
"""

from __future__ import annotations

from cyclade.linear.penalties import joined, scalar
from cyclade.linear.penalties.joined import *  # noqa: F403
from cyclade.linear.penalties.scalar import *  # noqa: F403
from cyclade.linear.penalties.scalar import BY_NAME as BY_NAME
from cyclade.linear.penalties.scalar import is_separable as is_separable

__all__ = [*joined.__all__, *scalar.__all__]
