"""Structures of arrays: what a user's x may be, taken apart into arrays and put back together.

A structure is an array, or a list, tuple, namedtuple or dict of structures, nested as deep as one
likes. A list or tuple of plain numbers is an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from cyclade._arrays import Array, kind


class Structure(Protocol):
    """The way back from a list of arrays; classes, so that layouts pickle."""

    def build(self, arrays: Iterator[Array]) -> Any:
        """The structure, filled with the next arrays."""

    def arrays(self, x: Any) -> list[Any]:
        """The arrays of `x`, which must be built like this; ValueError if it is not."""


class _Leaf:
    """One array."""

    def build(self, arrays: Iterator[Array]) -> Any:
        return next(arrays)

    def arrays(self, x: Any) -> list[Any]:
        return [x]


class _Keyed:
    """A dict; a gradient is read by its keys, in whatever order it comes."""

    def __init__(self, keys: Sequence[Any], parts: Sequence[Structure]) -> None:
        self.keys, self.parts = tuple(keys), tuple(parts)

    def build(self, arrays: Iterator[Array]) -> Any:
        return {key: part.build(arrays) for key, part in zip(self.keys, self.parts, strict=True)}

    def arrays(self, x: Any) -> list[Any]:
        if not isinstance(x, Mapping) or set(x) != set(self.keys):
            raise ValueError(f"a dict with the keys {list(self.keys)} is needed")
        pairs = zip(self.keys, self.parts, strict=True)
        return [a for key, part in pairs for a in part.arrays(x[key])]


class _Listed:
    """A list, a tuple or a namedtuple."""

    def __init__(self, parts: Sequence[Structure], like: Any) -> None:
        self.parts = tuple(parts)
        self.named = type(like) if hasattr(like, "_fields") else None
        self.is_tuple = isinstance(like, tuple)

    def build(self, arrays: Iterator[Array]) -> Any:
        built = [part.build(arrays) for part in self.parts]
        if self.named is not None:
            return self.named(*built)
        return tuple(built) if self.is_tuple else built

    def arrays(self, x: Any) -> list[Any]:
        if isinstance(x, Mapping):
            raise ValueError("a list of arrays is needed, not a dict")
        entries = list(x)
        if len(entries) != len(self.parts):
            raise ValueError(f"{len(self.parts)} arrays are needed, not {len(entries)}")
        return [a for part, e in zip(self.parts, entries, strict=True) for a in part.arrays(e)]


def take_apart(x: Any) -> tuple[list[Any], list[str], Structure]:
    """The arrays of `x`, a label for each ([""] for a bare array), and the way back.

    Labels are the keys and positions on the way to an array, joined by dots.

    Example
    -------
    >>> import numpy as np
    >>> arrays, labels, structure = take_apart({"enc": {"W": np.ones(2)}, "b": [np.zeros(1)]})
    >>> labels
    ['enc.W', 'b.0']
    >>> structure.build(iter(arrays))
    {'enc': {'W': array([1., 1.])}, 'b': [array([0.])]}
    """
    arrays: list[Any] = []
    labels: list[str] = []

    def walk(part: Any, label: str) -> Structure:
        if not _is_container(part):
            arrays.append(part)
            labels.append(label)
            return _Leaf()
        names = list(part) if isinstance(part, Mapping) else _positions(part)
        children = list(part.values()) if isinstance(part, Mapping) else list(part)
        below = [
            walk(child, f"{label}.{name}" if label else str(name) or "''")
            for name, child in zip(names, children, strict=True)
        ]
        return _Keyed(names, below) if isinstance(part, Mapping) else _Listed(below, part)

    structure = walk(x, "")
    doubled = sorted({label for label in labels if labels.count(label) > 1})
    if doubled:
        raise ValueError(f"x0 has more than one array named {doubled[0]!r}: rename its keys")
    return arrays, labels, structure


def _positions(part: Any) -> list[Any]:
    return list(getattr(part, "_fields", range(len(part))))


def _is_container(x: Any) -> bool:
    """Whether `x` holds arrays, rather than being one."""
    if isinstance(x, Mapping):
        return True
    if not isinstance(x, list | tuple):
        return False
    return hasattr(x, "_fields") or any(kind(a) or _is_container(a) for a in x)
