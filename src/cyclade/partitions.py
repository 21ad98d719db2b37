"""Reading what a user gives as `blocks`: sizes, indices or names, checked to be a partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def cuts(blocks: Any, d: int) -> list[tuple[Any, int]]:
    """(index, size) of each block of one array with d entries."""
    if isinstance(blocks, str):
        if blocks != "coordinates":
            raise ValueError(
                f"blocks={blocks!r} is unknown: use 'each', 'coordinates', a number of blocks, "
                "a list of sizes or a list of index lists"
            )
        return _contiguous([1] * d)
    if isinstance(blocks, int | np.integer) and not isinstance(blocks, bool):
        m = int(blocks)
        if not 1 <= m <= d:
            raise ValueError(f"blocks={m}: a number of blocks must be between 1 and d = {d}")
        return _contiguous([len(part) for part in np.array_split(np.empty(d), m)])
    if isinstance(blocks, Mapping) or not isinstance(blocks, Iterable):
        raise TypeError(
            f"blocks must be 'each', 'coordinates', a number, a list of sizes or a list of index "
            f"lists, got {type(blocks).__name__}"
        )
    entries = list(blocks)
    if not entries:
        raise ValueError("blocks is empty: give at least one block")
    if all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in entries):
        sizes = [int(size) for size in entries]
        if min(sizes) < 1:
            raise ValueError(f"blocks: every size must be at least 1, got {sizes}")
        if sum(sizes) != d:
            raise ValueError(f"blocks: the sizes {sizes} add up to {sum(sizes)}, but x0 has {d}")
        return _contiguous(sizes)
    return _indexed(entries, d)


def _contiguous(sizes: list[int]) -> list[tuple[Any, int]]:
    ends = np.cumsum(sizes).tolist()
    return [(slice(end - size, end), size) for end, size in zip(ends, sizes, strict=True)]


def _indexed(entries: list[Any], d: int) -> list[tuple[Any, int]]:
    seen = np.zeros(d, dtype=int)
    cut: list[tuple[Any, int]] = []
    for j, entry in enumerate(entries):
        index = np.atleast_1d(np.asarray(entry))
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
            raise ValueError(f"blocks[{j}] must be a non-empty list of integer indices")
        if index.min() < 0 or index.max() >= d:
            raise ValueError(f"blocks[{j}] has indices outside 0 … {d - 1}")
        np.add.at(seen, index, 1)
        cut.append((index.astype(np.int64), index.size))
    if (seen > 1).any():
        raise ValueError(f"blocks overlap: indices {_some(seen > 1)} are in more than one place")
    if (seen == 0).any():
        raise ValueError(f"blocks miss indices {_some(seen == 0)}: every coordinate needs a block")
    return cut


def _some(mask: np.ndarray[Any, Any]) -> str:
    found = np.flatnonzero(mask).tolist()
    return ", ".join(map(str, found[:5])) + (" …" if len(found) > 5 else "")


def groups_of_arrays(blocks: Any, labels: list[str]) -> list[list[int]]:
    """Which arrays make up each block, from names or positions."""
    if isinstance(blocks, str) or not isinstance(blocks, Iterable):
        raise ValueError(
            f"blocks={blocks!r}: for several arrays, blocks lists the names (or positions) of the "
            f"arrays of each block; the arrays are {labels}"
        )
    groups: list[list[int]] = []
    for entry in blocks:
        members = [entry] if isinstance(entry, str | int | np.integer) else list(entry)
        for name in members:
            if str(name) not in labels:
                raise ValueError(f"blocks names {name!r}, which x0 has not; it has {labels}")
        groups.append([labels.index(str(name)) for name in members])
    used = [i for group in groups for i in group]
    doubled = sorted({labels[i] for i in used if used.count(i) > 1})
    if doubled:
        raise ValueError(f"blocks overlap: {doubled} are in more than one block")
    missing = [label for i, label in enumerate(labels) if i not in used]
    if missing:
        raise ValueError(f"blocks miss {missing}: every array needs a block")
    if not all(groups):
        raise ValueError("blocks has an empty block: every block needs an array")
    return groups
