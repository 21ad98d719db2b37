"""The little that differs between NumPy and torch arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace as array_namespace
from array_api_compat import is_numpy_array, is_torch_array

from cyclade._checks import as_float, is_number, real_array, require

Array: TypeAlias = Any
"""A NumPy array or a torch tensor; a block keeps its library, dtype and device."""


def copier(like: Array) -> Callable[[Array], Array]:
    """The function that copies an array of the library of `like`."""
    return _clone if is_torch_array(like) else methodcaller("copy", "K")  # np.copy, but faster


def _clone(a: Array) -> Array:
    return a.detach().clone()


def as_index(index: np.ndarray[Any, Any], like: Array) -> Array:
    """An integer index that arrays like `like` understand, on their device."""
    if is_torch_array(like):
        return array_namespace(like).asarray(index, device=like.device)
    return index


def all_finite(a: Array) -> bool:
    """Whether every entry of `a` is finite."""
    xp = array_namespace(a)
    return bool(xp.all(xp.isfinite(a)))


def norm2(a: Array, weight: Array | float = 1.0) -> float:
    """The squared weighted norm sum_i weight_i a_i^2."""
    return float((weight * a * a).sum())


def random_like(a: Array, rng: np.random.Generator) -> Array:
    """A standard normal array with the shape, dtype and device of `a`."""
    return from_numpy(np.asarray(rng.standard_normal(tuple(a.shape))), a)


def rounding_unit(a: Array) -> float:
    """That of the numbers in `a`."""
    return float(array_namespace(a).finfo(a.dtype).eps)


def same_bits(a: Array, b: Array) -> bool:
    """Whether `a` and `b` are the same array, bit for bit (0.0 is not -0.0, a NaN is itself)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if is_torch_array(a):
        import torch

        bits = torch.int32 if a.element_size() == 4 else torch.int64
        return torch.equal(a.view(bits), b.view(bits))
    return bool(a.tobytes() == b.tobytes())


def kind(a: object) -> str:
    """Which array library `a` belongs to: "numpy", "torch" or ""."""
    if is_numpy_array(a):
        return "numpy"
    return "torch" if is_torch_array(a) else ""


def largest_entry(Lambda: Any) -> float:
    """The largest eigenvalue of Λ_j, a number, a diagonal or a `Matrix`; NaN if it is not known."""
    return float(Lambda.max() if hasattr(Lambda, "max") else Lambda)


TOLERANCE_ULPS = 64
"""Relative slack, in units of the dtype's machine epsilon, for tests that rounding forces to be
inexact: membership of a simplex or a ball, and lying on the boundary of a ball. Pairwise sums of
rounded numbers stay well within it."""


def to_numpy(a: Array) -> np.ndarray[Any, Any]:
    """`a` (NumPy, or torch) as a NumPy array; half precision becomes float32, as of bfloat16."""
    if hasattr(a, "detach"):
        a = a.detach().cpu()
        a = a.float() if a.element_size() < 4 else a
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


def clip(u: Array, low: float | Array, high: float | Array) -> Array:
    """Return u clipped; bounds beyond the range of its dtype, which torch refuses, are infinite."""
    try:
        return u.clip(low, high)
    except RuntimeError:
        if not (isinstance(low, float) and isinstance(high, float)):
            raise
        largest = float(array_namespace(u).finfo(u.dtype).max)
        bounds = [b if abs(b) <= largest else math.copysign(math.inf, b) for b in (low, high)]
        return u.clip(*bounds)


def weighted_norm(residual: Array, w: Array) -> float:
    """Return sqrt(sum_i w_i residual_i^2) for a scalar or diagonal w."""
    return math.sqrt(float((w * residual * residual).sum()))


def as_block(u: Any, name: str = "u") -> Array:
    """Return a block as an array or tensor of floats; lists and integers become float64."""
    if type(u) is np.ndarray and u.dtype.kind == "f" and u.size:
        return u  # the ordinary case, in the innermost loop
    accepted = "a non-empty NumPy array or torch tensor of real numbers"
    if kind(u) == "torch":
        if not u.is_floating_point():
            raise TypeError(f"{name} must be a real floating tensor, got dtype {u.dtype}")
        if u.is_meta:
            raise TypeError(f"{name} must be a tensor with data, got one on the meta device")
    elif not (isinstance(u, np.ndarray | np.generic) and u.dtype.kind == "f"):
        u = real_array(name, u, accepted)
    require(math.prod(u.shape) > 0, name, u, accepted)
    return u if kind(u) == "torch" else np.asarray(u)


def as_diagonal(t: Any, u: Array, name: str) -> Array:
    """A step or weight as a float, which widens no float32, or as an array like `u`."""
    if type(t) is float and 0.0 < t < math.inf:
        return t  # the ordinary case, in the innermost loop
    if is_number(t):
        require(0.0 < as_float(t) < math.inf, name, t, "positive and finite")
        return as_float(t)
    shape = getattr(t, "shape", None)
    if not kind(t) or tuple(t.shape) != tuple(u.shape):
        raise ValueError(
            f"{name} must be a positive number or an array of the block's shape "
            f"{tuple(u.shape)}, got {type(t).__name__ if not shape else tuple(shape)}"
        )
    require_same_library(name, t, u)
    if t.dtype != u.dtype:
        xp = array_namespace(u)
        if not xp.isdtype(t.dtype, ("integral", "real floating")):
            raise ValueError(f"{name} must hold real numbers, got dtype {t.dtype}")
        t = xp.astype(t, u.dtype)
    # A NaN makes both comparisons false, so this also rejects NaN.
    if not (t.min() > 0 and t.max() < math.inf):
        raise ValueError(f"every entry of {name} must be positive and finite")
    return t


def require_same_library(name: str, a: Array, u: Array) -> None:
    """Raise TypeError unless `a` is of the array library, and on the device, of the block `u`."""
    if type(a) is type(u) is np.ndarray:
        return
    if kind(a) != kind(u):
        raise TypeError(
            f"{name} must be of the array library (namespace) of the block u, {kind(u)}, "
            f"got {kind(a)}"
        )
    if kind(u) == "torch" and a.device != u.device:
        raise TypeError(f"{name} must be on the device of u, {u.device}, got {a.device}")


class Parameter:
    """A number, or an array shaped like the block, that follows the block's library and dtype."""

    __slots__ = ("_cast", "_key", "array", "name", "scalar")

    def __init__(self, name: str, value: float | Sequence[Any] | Array) -> None:
        self.name = name  # as messages say it: "L1: lam"
        self.array = np.array(real_array(name, value, "a number or an array of numbers"))
        self.scalar: float | None = float(self.array) if self.array.ndim == 0 else None
        self._key: Any = None
        self._cast: Array = None

    def like(self, u: Array) -> Array:
        """Return the number, or the array in the library, dtype and device of `u`."""
        if self.scalar is not None:
            return self.scalar
        # One conversion is remembered: on an accelerator it is a transfer.
        key = (type(u), u.dtype, getattr(u, "device", None))
        if key != self._key:
            self._cast, self._key = from_numpy(self.array, u), key
        return self._cast

    def matching(self, u: Array) -> Array:
        """Return `like(u)`, after making sure that the shapes agree."""
        if self.scalar is None and self.array.shape != u.shape:
            self.check(tuple(u.shape), "u")
        return self.like(u)

    def check(self, shape: tuple[int, ...], where: str) -> None:
        """Raise ValueError if the array cannot act on a block of this shape."""
        if self.scalar is None and self.array.shape != tuple(shape):
            raise ValueError(
                f"{where}: {self.name} has shape {self.array.shape}, but the block has shape "
                f"{tuple(shape)}; give a number or an array of the block's shape"
            )

    def __repr__(self) -> str:
        if self.scalar is not None:
            return f"{self.scalar:g}"
        return f"array of shape {self.array.shape}"
