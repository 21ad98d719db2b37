"""Reading what a user gives as x0 and as `blocks`.

Structures: a user's x, taken apart into arrays and put back together. A structure is an array, or
a list, tuple, namedtuple or dict of structures, nested as deep as one likes. A list or tuple of
plain numbers is an array. Partitions: sizes, indices or names, checked to be a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade._arrays import Array, kind


def cuts(blocks: Any, d: int, name: str = "blocks") -> list[tuple[Any, int]]:
    """(index, size) of each block of one array with d entries; `name` is what errors call it."""
    if isinstance(blocks, str):
        if blocks != "coordinates":
            raise ValueError(
                f"{name}={blocks!r} is unknown: use 'each', 'coordinates', a number of blocks, "
                "a list of sizes or a list of index lists"
            )
        return _contiguous([1] * d)
    if _is_integer(blocks):
        m = int(blocks)
        if not 1 <= m <= d:
            raise ValueError(f"{name}={m}: a number of blocks must be between 1 and d = {d}")
        return _contiguous([d // m + (j < d % m) for j in range(m)])
    if isinstance(blocks, Mapping) or not _is_list(blocks):
        raise TypeError(
            f"{name} must be 'each', 'coordinates', a number, a list of sizes or a list of index "
            f"lists, got {type(blocks).__name__}"
        )
    entries = list(blocks)
    if not entries:
        raise ValueError(f"{name} is empty: give at least one block")
    if all(map(_is_integer, entries)):
        sizes = [int(size) for size in entries]
        if min(sizes) < 1:
            raise ValueError(f"{name}: every size must be at least 1, got {few(sizes)}")
        if sum(sizes) != d:
            raise ValueError(
                f"{name}: the sizes {few(sizes)} add up to {sum(sizes)}, but x0 has {d}"
            )
        return _contiguous(sizes)
    return _indexed(entries, d, name)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0  # no array of shape ()


def few(entries: Sequence[Any]) -> str:
    """Entries as a message shows them."""
    if len(entries) <= 12:
        return repr(entries)
    return f"{repr(entries[:10])[:-1]}, …{repr(entries)[-1]}"


def _contiguous(sizes: list[int]) -> list[tuple[Any, int]]:
    ends = np.cumsum(sizes).tolist()
    return [(slice(end - size, end), size) for end, size in zip(ends, sizes, strict=True)]


def _indexed(entries: list[Any], d: int, name: str) -> list[tuple[Any, int]]:
    seen = np.zeros(d, dtype=int)
    cut: list[tuple[Any, int]] = []
    for j, entry in enumerate(entries):
        try:
            index = np.atleast_1d(np.asarray(entry))
        except (TypeError, ValueError, RuntimeError):  # ragged, or not an array at all
            index = np.empty(0)
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
            raise ValueError(f"{name}[{j}] must be a non-empty list of integer indices")
        if index.min() < 0 or index.max() >= d:
            raise ValueError(f"{name}[{j}] has indices outside 0 … {d - 1}")
        np.add.at(seen, index, 1)
        cut.append((index.astype(np.int64), index.size))
    if (seen > 1).any():
        raise ValueError(f"{name} overlap: indices {_some(seen > 1)} are in more than one place")
    if (seen == 0).any():
        raise ValueError(f"{name} miss indices {_some(seen == 0)}: every coordinate needs a block")
    return cut


def _some(mask: np.ndarray[Any, Any]) -> str:
    found = np.flatnonzero(mask).tolist()
    return ", ".join(map(str, found[:5])) + (" …" if len(found) > 5 else "")


def groups_of_arrays(blocks: Any, labels: list[str]) -> list[list[int]]:
    """Which arrays make up each block, from names (of parts too) or positions."""
    if isinstance(blocks, str) or not _is_list(blocks):
        raise ValueError(
            f"blocks={blocks!r}: for several arrays, blocks lists the names (or positions) of the "
            f"arrays of each block, or is a dict from names to how each is cut; the arrays are "
            f"{labels}"
        )
    groups: list[list[int]] = []
    for entry in blocks:
        single = isinstance(entry, str) or not isinstance(entry, Iterable)
        members = [entry] if single else list(entry)
        groups.append([i for name in members for i in _under(name, labels)])
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


def cuts_of_arrays(blocks: Mapping[Any, Any], labels: list[str]) -> list[Any]:
    """How each array is cut, from a dict of names; one that is not named is a block."""
    found: list[Any] = ["each"] * len(labels)
    for name, cut in _flat(blocks):
        for i in _under(name, labels):
            found[i] = "each" if cut is None else cut
    return found


def _flat(blocks: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    for name, cut in blocks.items():
        if isinstance(cut, Mapping):
            yield from ((f"{name}.{below}", inner) for below, inner in _flat(cut))
        else:
            yield str(name), cut


def _under(name: Any, labels: list[str]) -> list[int]:
    """The arrays that `name` stands for."""
    if str(name) in labels:
        return [labels.index(str(name))]
    below = [i for i, label in enumerate(labels) if label.startswith(f"{name}.")]
    if not below:
        raise ValueError(f"blocks names {name!r}, which x0 has not; it has {labels}")
    return below


@dataclass(frozen=True)
class Tree:
    """The way back from a list of arrays: one array, or a container of trees."""

    container: Any = None  # dict, list, tuple or a class of namedtuples; None for one array
    keys: tuple[Any, ...] = ()  # of its parts: those of a dict, names or positions
    parts: tuple[Tree, ...] = ()

    def build(self, arrays: Iterator[Array]) -> Any:
        """The structure, filled with the next arrays."""
        if self.container is None:
            return next(arrays)
        built = [part.build(arrays) for part in self.parts]
        if self.container is dict:
            return dict(zip(self.keys, built, strict=True))
        named = hasattr(self.container, "_fields")
        return self.container(*built) if named else self.container(built)

    def arrays(self, x: Any) -> list[Any]:
        """The arrays of `x`, which must be built like this; a dict is read by its keys."""
        if self.container is None:
            return [x]
        if self.container is dict:
            if not isinstance(x, Mapping) or set(x) != set(self.keys):
                raise ValueError(f"a dict with the keys {list(self.keys)} is needed")
            entries = [x[key] for key in self.keys]
        elif isinstance(x, Mapping):
            raise ValueError("a list of arrays is needed, not a dict")
        else:
            entries = list(x)
        if len(entries) != len(self.parts):
            raise ValueError(f"{len(self.parts)} arrays are needed, not {len(entries)}")
        return [a for part, e in zip(self.parts, entries, strict=True) for a in part.arrays(e)]


def take_apart(x: Any) -> tuple[list[Any], list[str], Tree]:
    """The arrays of `x`, a label for each ([""] for a bare array), and the way back.

    Labels are the keys and positions on the way to an array, joined by dots.
    """
    arrays: list[Any] = []
    labels: list[str] = []

    def walk(part: Any, label: str) -> Tree:
        if not _is_container(part):
            arrays.append(part)
            labels.append(label)
            return Tree()
        container: Any = tuple if isinstance(part, tuple) else list
        keys, children = tuple(range(len(part))), part
        if isinstance(part, Mapping):
            container, keys, children = dict, tuple(part), part.values()
        elif hasattr(part, "_fields"):
            container, keys = type(part), part._fields
        below = [
            walk(child, f"{label}.{name}" if label else str(name) or "''")
            for name, child in zip(keys, children, strict=True)
        ]
        return Tree(container, keys, tuple(below))

    structure = walk(x, "")
    doubled = sorted({label for label in labels if labels.count(label) > 1})
    if doubled:
        raise ValueError(f"x0 has more than one array named {doubled[0]!r}: rename its keys")
    return arrays, labels, structure


def _is_container(x: Any) -> bool:
    """Whether `x` holds arrays, rather than being one."""
    if isinstance(x, Mapping):
        return True
    if not isinstance(x, list | tuple):
        return False
    return hasattr(x, "_fields") or any(kind(a) or _is_container(a) for a in x)
