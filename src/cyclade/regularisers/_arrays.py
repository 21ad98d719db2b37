"""Small helpers that let one text serve NumPy and torch arrays, and validate parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

Array = Any

TOLERANCE_ULPS = 64
"""Relative slack, in units of the dtype's machine epsilon, for tests that rounding forces to be
inexact: membership of a simplex or a ball, and lying on the boundary of a ball. Pairwise sums of
rounded numbers stay well within it."""


def machine_epsilon(u: Array) -> float:
    """Return the machine epsilon of the dtype of `u`."""
    return float(array_namespace(u).finfo(u.dtype).eps)


def to_numpy(a: Array) -> np.ndarray[Any, Any]:
    """Return `a` (NumPy, torch on any device, or a sequence) as a NumPy array of the same dtype."""
    if hasattr(a, "detach"):
        a = a.detach().cpu()
    return np.asarray(a)


def from_numpy(a: np.ndarray[Any, Any], like: Array) -> Array:
    """Return `a` in the library, dtype and device of `like`."""
    if isinstance(like, np.ndarray):
        return a.astype(like.dtype, copy=False)
    xp = array_namespace(like)
    return xp.asarray(a, dtype=like.dtype, device=like.device)


def as_double(a: Array) -> Array:
    """Return the array `a` in double precision, so that root searches lose nothing of float32."""
    xp = array_namespace(a)
    return xp.astype(a, xp.float64, copy=False)


def weighted_norm(residual: Array, w: Array) -> float:
    """Return sqrt(sum_i w_i residual_i^2) for a scalar or diagonal w."""
    return math.sqrt(float((w * residual * residual).sum()))


def finite_number(owner: str, name: str, value: Any, *, positive: bool = False) -> float:
    """Return `value` as a float; raise ValueError unless it is finite and >= 0 (or > 0)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        bound = "> 0" if positive else ">= 0"
        raise ValueError(f"{owner}: {name} must be a finite number {bound}, got {value!r}")
    return number


def as_diagonal(t: Any, u: Array, name: str) -> Array:
    """Return a step or weight as a Python float or as an array of the shape and dtype of `u`.

    Python floats keep float32 arrays float32, whereas NumPy scalars would widen them.
    """
    if isinstance(t, (float, int)) or getattr(t, "shape", None) == ():
        number = float(t)
        if not 0.0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {number!r}")
        return number
    shape = getattr(t, "shape", None)
    if shape is None or tuple(shape) != tuple(u.shape):
        raise ValueError(
            f"{name} must be a positive number or an array of the block's shape "
            f"{tuple(u.shape)}, got {type(t).__name__ if shape is None else tuple(shape)}"
        )
    if t.dtype != u.dtype:  # always so across libraries, which array_namespace then reports
        t = array_namespace(u, t).astype(t, u.dtype)
    # A NaN makes both comparisons false, so this also rejects NaN.
    if not (t.min() > 0 and t.max() < math.inf):
        raise ValueError(f"every entry of {name} must be positive and finite")
    return t


class Parameter:
    """A number, or an array shaped like the block, that follows the block's library and dtype."""

    __slots__ = ("_cast", "_key", "array", "scalar")

    def __init__(self, value: float | Sequence[Any] | Array) -> None:
        array = to_numpy(value)
        self.scalar: float | None = float(array) if array.ndim == 0 else None
        self.array = np.array(array, dtype=np.float64)
        self._key: Any = None
        self._cast: Array = None

    def like(self, u: Array) -> Array:
        """Return the number, or the array in the library, dtype and device of `u`."""
        if self.scalar is not None:
            return self.scalar
        # One conversion is remembered: blocks keep their type over a run, and on an accelerator
        # the conversion is a transfer.
        key = (type(u), u.dtype, getattr(u, "device", None))
        if key != self._key:
            self._cast, self._key = from_numpy(self.array, u), key
        return self._cast

    def matching(self, u: Array, owner: str, name: str) -> Array:
        """Return `like(u)`, after making sure that the shapes agree."""
        if self.scalar is None and self.array.shape != u.shape:
            self.check(tuple(u.shape), owner, name, "reg")
        return self.like(u)

    def check(self, shape: tuple[int, ...], owner: str, name: str, where: str) -> None:
        """Raise ValueError if the array cannot act on a block of this shape."""
        if self.scalar is None and self.array.shape != tuple(shape):
            raise ValueError(
                f"{where}: {owner}: {name} has shape {self.array.shape}, but the block has shape "
                f"{tuple(shape)}; give a number or an array of the block's shape"
            )

    def __repr__(self) -> str:
        if self.scalar is not None:
            return f"{self.scalar:g}"
        return f"array of shape {self.array.shape}"
