"""The prox of a scalar penalty on the coordinates of a block, for methods that move blocks."""

from __future__ import annotations

from typing import Any

from cyclade.linear.kernels.jit import compiled, rebound
from cyclade.linear.kernels.shipped import prox
from cyclade.linear.penalty_bound import bind as known


@compiled
def proxes(parameters: Any, features: Any, u: Any, t: Any, out: Any) -> None:
    """out_i = argmin_v r_j(v) + (v − u_i)² / (2 t_i) with j the feature of coordinate i."""
    for i in range(features.shape[0]):
        step = t[i] if t.shape[0] > 1 else t[0]
        out[i] = prox(parameters, float(u[i]), float(step), features[i])


def of(penalty: Any, p: int) -> tuple[Any, Any]:
    """The loop for this penalty, and the parameters it takes; the user's penalties are compiled."""
    parameters = known(penalty, p).parameters
    if hasattr(penalty, "kind"):
        return proxes, parameters
    own = rebound(type(penalty).prox, {}, cache=False)
    return rebound(proxes, {"prox": own}, cache=False), parameters
