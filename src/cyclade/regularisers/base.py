"""What a regulariser is: a value, a prox and a distance to its subdifferential, for one block."""

from __future__ import annotations

import abc
import math
from typing import ClassVar

from cyclade.regularisers._arrays import Array, as_block, as_diagonal, require_same_library

__all__ = ["Array", "Regulariser"]


class Regulariser(abc.ABC):
    """A proper, closed function r of one block u, with an exact prox; convex unless it says not.

    The block is a NumPy or torch array of any shape; results keep its library, dtype and device,
    and never share memory with it in a way that writing to one could change the other. Lists and
    arrays of integers become float64 arrays. NaN in a block gives NaN (as the value of an
    indicator, +inf), not an error.

    To add a regulariser, subclass this and write `value`, `_prox` and `_distance`; where r is
    finite only on a set, write `_contains`; where it needs a certain shape, write `check`.
    The underscored methods receive blocks, steps and weights already checked: steps and weights
    are Python floats, or arrays of the shape, dtype and library of the block. `value` may call
    `_block` for the same check.

    Examples
    --------
    >>> import numpy as np
    >>> class Linear(Regulariser):
    ...     "r(u) = sum_i u_i."
    ...
    ...     def value(self, u):
    ...         return float(u.sum())
    ...
    ...     def _prox(self, u, t):
    ...         return u - t
    ...
    ...     def _distance(self, u, v, w):
    ...         return float((w * (v + 1.0) ** 2).sum()) ** 0.5
    >>> Linear().prox(np.array([1.0, 2.0]), 0.5)
    array([0.5, 1.5])
    >>> Linear().distance(np.array([1.0, 2.0]), np.array([-1.0, 2.0]))
    3.0
    """

    exact_distance: ClassVar[bool] = True
    """Whether `distance` is the exact distance to -∂r (only adapters may say no)."""

    convex: ClassVar[bool] = True
    """Whether r is convex. If not, ∂r is the limiting subdifferential, and `prox` returns a global
    minimiser. Operators of other libraries do not say, and are taken to be convex."""

    @abc.abstractmethod
    def value(self, u: Array) -> float:
        """Return r(u), which is +inf outside the domain."""

    def prox(self, u: Array, t: float | Array) -> Array:
        """Return argmin_z r(z) + 1/2 sum_i (z_i - u_i)^2 / t_i.

        `t` is a positive number, or an array of positive numbers shaped like `u` (a diagonal).
        """
        u = as_block(u)
        return self._prox(u, as_diagonal(t, u, "the prox step t"))

    def distance(self, u: Array, v: Array, w: float | Array = 1.0) -> float:
        """Return min over s in ∂r(u) of sqrt(sum_i w_i (v_i + s_i)^2).

        This is the w-weighted distance from `v` to -∂r(u); zero certifies that u is stationary
        when v is the gradient of the smooth part. It is +inf where u is outside the domain.
        """
        u, v = self._block(u), as_block(v, "v")
        require_same_library("v", v, u)
        if v.shape != u.shape:
            raise ValueError(f"v must have the shape {tuple(u.shape)} of u, got {tuple(v.shape)}")
        weight = as_diagonal(w, u, "the weight w")
        return self._distance(u, v, weight) if self._contains(u) else math.inf

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError, naming `where`, if a block of this shape is not accepted."""
        return None

    def _block(self, u: Array) -> Array:
        """Return u as an array, after making sure that r accepts its shape."""
        u = as_block(u)
        self.check(tuple(u.shape), "u")
        return u

    def _contains(self, u: Array) -> bool:
        """Say whether u is in the domain of r, up to rounding."""
        return True

    @abc.abstractmethod
    def _prox(self, u: Array, t: float | Array) -> Array: ...

    @abc.abstractmethod
    def _distance(self, u: Array, v: Array, w: float | Array) -> float: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
