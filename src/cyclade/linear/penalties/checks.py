"""Arguments of penalties, checked before any work: numbers, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from cyclade._checks import non_negative

Array = Any
Groups = int | Sequence[Sequence[int]]

__all__ = [
    "Groups",
    "above",
    "finite_number",
    "fraction",
    "nonnegative_vector",
    "partition",
    "tidy_groups",
]


def finite_number(owner: str, name: str, value: Any) -> float:
    """`value` as a float; ValueError unless it is a finite number >= 0."""
    return non_negative(f"{owner}: {name}", value)


def above(owner: str, name: str, value: Any, bound: float, why: str) -> float:
    """`value` as a float; ValueError unless it is a finite number greater than `bound`."""
    number = finite_number(owner, name, value)
    if number <= bound:
        raise ValueError(f"{owner}: {name} must be > {bound:g} ({why}), got {value!r}")
    return number


def fraction(owner: str, name: str, value: Any) -> float:
    """`value` as a float; ValueError unless it lies between 0 and 1."""
    number = finite_number(owner, name, value)
    if number > 1.0:
        raise ValueError(f"{owner}: {name} must be between 0 and 1, got {value!r}")
    return number


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


def tidy_groups(owner: str, groups: Any) -> int | list[Array]:
    """`groups` as a size or a list of int64 vectors; ValueError if they can fit no X at all."""
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        if groups < 1:
            raise ValueError(f"{owner}: groups given as a size must be >= 1, got {groups}")
        return int(groups)
    if isinstance(groups, (str, bool)) or not hasattr(groups, "__iter__"):
        raise ValueError(
            f"{owner}: groups must be a group size or a list of index lists, got {groups!r}"
        )
    lists = list(groups)
    members = _all_at_once(lists) or [_group(owner, number, g) for number, g in enumerate(lists)]
    if not members:
        raise ValueError(f"{owner}: groups must not be empty")
    found, counts = np.unique(np.concatenate(members), return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{owner}: groups overlap: feature {found[counts > 1][0]} repeats")
    return members


def _all_at_once(lists: list[Any]) -> list[Array] | None:
    """The groups as int64 vectors (there may be thousands), or None if any is not such a list."""
    if not all(type(group) is list and group for group in lists):
        return None
    try:
        flat = np.array(list(chain.from_iterable(lists)))
    except ValueError:  # lists within lists
        return None
    if flat.ndim != 1 or flat.dtype.kind not in "iu" or flat.min(initial=0) < 0:
        return None
    flat, ends = flat.astype(np.int64), np.cumsum([len(group) for group in lists]).tolist()
    return [flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _group(owner: str, number: int, group: Any) -> Array:
    """One group as an int64 vector; ValueError says what is wrong with it."""
    indices = np.asarray(group)
    if indices.ndim != 1 or indices.size == 0:
        raise ValueError(f"{owner}: group {number} must be a non-empty list of indices")
    if not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"{owner}: group {number} must hold integers, got {group!r}")
    if indices.min() < 0:
        raise ValueError(f"{owner}: group {number} has a negative index, {indices.min()}")
    return indices.astype(np.int64)


def partition(owner: str, groups: int | list[Array], p: int) -> tuple[Array, Array]:
    """The groups of p features as `order, starts`; ValueError if they do not partition them."""
    if isinstance(groups, int):
        if p % groups:
            raise ValueError(
                f"{owner}: groups of {groups} do not divide the {p} features; give lists of indices"
            )
        return np.arange(p), np.arange(0, p + 1, groups)
    order = np.concatenate(groups)
    if order.max() >= p:
        raise ValueError(
            f"{owner}: groups name feature {order.max()}, out of range for {p} features"
        )
    if order.size < p:
        missing = np.setdiff1d(np.arange(p), order)[0]
        raise ValueError(
            f"{owner}: groups miss feature {missing} of {p}; every feature must be in one group"
        )
    return order, np.cumsum([0] + [len(group) for group in groups])
