"""What a regulariser is: a value, a prox and a distance to its subdifferential, for one block."""

from __future__ import annotations

import abc
import math
from typing import ClassVar

from cyclade.regularisers._arrays import Array, as_diagonal

__all__ = ["Array", "Regulariser"]


class Regulariser(abc.ABC):
    """A proper, closed, convex function r of one block u, with an exact prox.

    The block is a NumPy or torch array of any shape; results keep its library, dtype and device,
    and never share memory with it in a way that writing to one could change the other.

    To add a regulariser, subclass this and write `value`, `_prox` and `_distance`; where r is
    finite only on a set, write `_contains`; where it needs a certain shape, write `check`.
    The underscored methods receive steps and weights already checked: Python floats, or arrays of
    the shape, dtype and library of the block.

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

    @abc.abstractmethod
    def value(self, u: Array) -> float:
        """Return r(u), which is +inf outside the domain."""

    def prox(self, u: Array, t: float | Array) -> Array:
        """Return argmin_z r(z) + 1/2 sum_i (z_i - u_i)^2 / t_i.

        `t` is a positive number, or an array of positive numbers shaped like `u` (a diagonal).
        """
        return self._prox(u, as_diagonal(t, u, "the prox step t"))

    def distance(self, u: Array, v: Array, w: float | Array = 1.0) -> float:
        """Return min over s in ∂r(u) of sqrt(sum_i w_i (v_i + s_i)^2).

        This is the w-weighted distance from `v` to -∂r(u); zero certifies that u is stationary
        when v is the gradient of the smooth part. It is +inf where u is outside the domain.
        """
        if not self._contains(u):
            return math.inf
        return self._distance(u, v, as_diagonal(w, u, "the weight w"))

    def check(self, shape: tuple[int, ...], where: str = "reg") -> None:
        """Raise ValueError, naming `where`, if a block of this shape is not accepted."""
        return None

    def _contains(self, u: Array) -> bool:
        """Say whether u is in the domain of r, up to rounding."""
        return True

    @abc.abstractmethod
    def _prox(self, u: Array, t: float | Array) -> Array: ...

    @abc.abstractmethod
    def _distance(self, u: Array, v: Array, w: float | Array) -> float: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
