"""The prox of a scalar penalty on the coordinates of a block, for methods that move blocks."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled, rebound
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.penalty_bound import BoundPenalty, bind


@compiled
def proxes(parameters: Any, cols: Any, u: Any, t: Any, out: Any) -> None:
    """out_i = argmin_v r_j(v) + (v − u_i)² / (2 t_i) with j = cols[i]."""
    for i in range(cols.shape[0]):
        step = t[i] if t.shape[0] > 1 else t[0]
        out[i] = prox(parameters, float(u[i]), float(step), cols[i])


def bound_prox(penalty: Any, p: int) -> tuple[BoundPenalty, Any]:
    """The penalty for p coordinates, and `proxes` with its prox; a user's is compiled."""
    bound = bind(penalty, p)
    if bound.shipped:
        return bound, proxes
    own = rebound(type(penalty).prox, {}, cache=False)
    return bound, rebound(proxes, {"prox": own}, cache=False)
