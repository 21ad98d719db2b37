"""The little that differs between NumPy and torch arrays."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

__all__ = [
    "Array",
    "all_finite",
    "array_namespace",
    "as_index",
    "copier",
    "kind",
    "norm2",
    "random_like",
    "rounding_unit",
    "same_bits",
]

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
        import torch

        return torch.as_tensor(index, device=like.device)
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
    noise = rng.standard_normal(tuple(a.shape))
    if kind(a) == "torch":
        import torch

        return torch.as_tensor(noise, dtype=a.dtype, device=a.device)
    return np.asarray(noise).astype(a.dtype)


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
    if a.nbytes > _SMALL and a.itemsize in (4, 8):
        same: bool = np.array_equal(a.view(f"i{a.itemsize}"), b.view(f"i{b.itemsize}"))
        return same
    return bool(a.tobytes() == b.tobytes())


_SMALL = 4096
"""Bytes below which copying both arrays is faster than comparing them entry by entry."""


def kind(a: object) -> str:
    """Which array library `a` belongs to: "numpy", "torch" or ""."""
    if is_numpy_array(a):
        return "numpy"
    return "torch" if is_torch_array(a) else ""
