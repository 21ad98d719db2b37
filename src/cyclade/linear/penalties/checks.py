"""Arguments of penalties, checked before any work: numbers, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cyclade._checks import as_float, require
from cyclade.regularisers._index_lists import index_lists, require_cover

Array = Any
Groups = int | Sequence[Sequence[int]]


def fraction(name: str, value: Any) -> float:
    """`value` as a float; ValueError unless it lies between 0 and 1."""
    require(0 <= as_float(value) <= 1, name, value, "between 0 and 1")
    return float(value)


def nonnegative_vector(owner: str, name: str, values: Any) -> Array:
    """`values` as a float64 vector; ValueError unless all are finite and >= 0."""
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{owner}: {name} must be a list of numbers, got {values!r}")
    wrong = ~(np.isfinite(vector) & (vector >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{owner}: {name} must be finite numbers >= 0, but entry {at} is {vector[at]:g}"
        )
    return vector


def size_or_lists(owner: str, groups: Any) -> int | list[Array]:
    """`groups` as a size or a list of int64 vectors; ValueError if they can fit no X at all."""
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        if groups < 1:
            raise ValueError(f"{owner}: groups given as a size must be >= 1, got {groups}")
        return int(groups)
    return index_lists(owner, groups, "a group size or a list of index lists", "feature")


def partition(owner: str, groups: int | list[Array], p: int) -> tuple[Array, Array]:
    """The groups of p features as `order, starts`; ValueError if they do not partition them."""
    if isinstance(groups, int):
        if p % groups:
            raise ValueError(
                f"{owner}: groups of {groups} do not divide the {p} features; give lists of indices"
            )
        return np.arange(p), np.arange(0, p + 1, groups)
    order = np.concatenate(groups)
    require_cover(owner, order, p, "feature", "features")
    return order, np.cumsum([0] + [len(group) for group in groups])
