"""Adapters around operators of other libraries."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from cyclade._arrays import Array, from_numpy, to_numpy, weighted_norm
from cyclade.regularisers.base import Regulariser


class PyProximal(Regulariser):
    """A PyProximal operator as a regulariser.

    `op(x)` is the value (indicators that answer True or False become 0 or +inf) and
    `op.prox(x, tau)` the prox, for scalar steps only. The operator sees the flattened block as a
    NumPy vector; torch blocks are converted there and back, keeping dtype and device.

    An operator does not describe its subdifferential, so `distance` is the residual
    ‖(u - prox(u - w v, w))/w‖_w of a proximal gradient step, w scalar. It is zero exactly at
    stationary points and, for a convex operator, a lower bound of the true distance to -∂r;
    `exact_distance` is False to say so.

    Examples
    --------
    >>> import numpy as np, pyproximal
    >>> PyProximal(pyproximal.L1(sigma=0.5)).prox(np.array([2.0, -0.25, -1.0]), 1.0)
    array([ 1.5, 0. , -0.5])
    """

    exact_distance: ClassVar[bool] = False

    def __init__(self, op: Any) -> None:
        if not callable(op) or not callable(getattr(op, "prox", None)):
            raise TypeError(
                "PyProximal: op must be a PyProximal operator, with op(x) and op.prox(x, tau), "
                f"got {type(op).__name__}"
            )
        self.op = op

    def value(self, u: Array) -> float:
        """Return op(u); indicators give 0 inside and +inf outside."""
        u = self._block(u)
        answer = self.op(_flat(u))
        if isinstance(answer, (bool, np.bool_)):
            return 0.0 if answer else math.inf
        return float(answer)

    def _contains(self, u: Array) -> bool:
        return self.value(u) < math.inf

    def _prox(self, u: Array, t: float | Array) -> Array:
        if not isinstance(t, float):
            raise ValueError(
                f"{self!r}: PyProximal operators take scalar steps only, got an array as t or w; "
                "use one step per block"
            )
        return from_numpy(np.array(self.op.prox(_flat(u), t)), u).reshape(u.shape)

    def _distance(self, u: Array, v: Array, w: float | Array) -> float:
        return weighted_norm((u - self._prox(u - w * v, w)) / w, w)

    def __repr__(self) -> str:
        return f"PyProximal({type(self.op).__name__})"


def _flat(u: Array) -> np.ndarray[Any, Any]:
    """Return a copy of the block as a NumPy vector, so that an operator may write to it."""
    return np.array(to_numpy(u)).reshape(-1)
