"""Groups given as lists of indices: checked, and seen to cover what they should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cyclade._checks import listed, require, shown

Indices = np.ndarray[Any, np.dtype[np.int64]]


def index_lists(owner: str, groups: Any, accepted: str, noun: str = "index") -> list[Indices]:
    """`groups` as vectors; ValueError unless they are non-empty, disjoint lists of indices.

    Messages start with the class `owner` and call an index a `noun`.
    """
    given = list(groups) if isinstance(groups, Iterator) else groups
    lists = listed(f"{owner}: groups", given, accepted)
    if not lists:
        raise ValueError(f"{owner}: groups must not be empty")
    members = [_vector(f"{owner}: groups[{k}]", group) for k, group in enumerate(lists)]
    found, counts = np.unique(np.concatenate(members), return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{owner}: groups overlap: {noun} {found[counts > 1][0]} repeats")
    return members


def require_cover(
    owner: str, order: Indices, size: int, noun: str = "index", all_of: str = "entries"
) -> None:
    """Raise ValueError unless the distinct indices `order` are 0, …, size − 1."""
    if order.max() >= size:
        raise ValueError(
            f"{owner}: groups hold {noun} {order.max()}, out of range for {size} {all_of}"
        )
    if order.size < size:
        missing = np.setdiff1d(np.arange(size), order)[0]
        raise ValueError(
            f"{owner}: groups miss {noun} {missing} of {size}; they must cover all {all_of}"
        )


def _vector(name: str, group: Any) -> Indices:
    """One group; ValueError says what is wrong with it."""
    try:
        indices = np.asarray(group)
    except Exception:  # ragged lists
        indices = np.empty(0)
    if indices.ndim != 1 or indices.size == 0:
        raise ValueError(f"{name} must be a non-empty list of indices, got {shown(group)}")
    require(indices.dtype.kind in "iu", name, group, "a list of integers")
    if indices.min() < 0:
        raise ValueError(f"{name} must hold indices >= 0, got {indices.min()}")
    return indices.astype(np.int64)
