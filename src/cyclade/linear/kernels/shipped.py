"""The formulas of the shipped penalties, compiled for kernels.

A kernel knows a penalty by a few functions of a `parameters` tuple and a coordinate. For shipped
penalties the tuple is (kind, table) and the kind is an ordinary number, so one machine code
serves them all; `cyclade.linear.kernels.penalties` gives the same functions for a user's penalty.
"""

from __future__ import annotations

from numba.extending import register_jitable

from cyclade.linear.kernels.jit import inner
from cyclade.linear.penalties import formulas

for _part in (
    formulas.row_of, formulas.slope, formulas.soft_threshold,
    formulas.prox_mcp, formulas.prox_scad, formulas.prox_log_sum,
):  # fmt: skip
    register_jitable(_part)  # the formulas below call them

value = inner(formulas.value)
prox = inner(formulas.prox)
distance = inner(formulas.distance)
threshold = inner(formulas.threshold)
conjugate = inner(formulas.conjugate)
soft_threshold = inner(formulas.soft_threshold)
