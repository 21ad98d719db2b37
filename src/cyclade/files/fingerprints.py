"""Which run a file belongs to: digests of numbers, texts, arrays and objects."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def fingerprint(*parts: Any) -> str:
    """The SHA-256 of numbers, texts and arrays: which run a checkpoint belongs to.

    >>> fingerprint(1, np.zeros(2)) == fingerprint(1, np.zeros(2))
    True
    >>> fingerprint(1, np.zeros(2)) == fingerprint(1, np.ones(2))
    False
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(repr((part.shape, str(part.dtype))).encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(repr(part).encode() + b"\0")
    return found.hexdigest()


def rounded(values: Any) -> Array:
    """Eight digits of numbers of a run: sums made in another order differ in the last ones alone.

    >>> rounded([0.1 + 0.2, 1e-20]).tolist() == rounded([0.3, 1e-20]).tolist()
    True
    """
    given = np.asarray(values, np.float64)
    texts = [f"{number:.7e}" for number in given.ravel().tolist()]
    return np.array(texts, np.float64).reshape(given.shape)


def described(thing: Any) -> Any:
    """An object by its class and what it holds, for a fingerprint."""
    held = getattr(thing, "__dict__", {})
    return type(thing).__name__, [(name, told(held[name])) for name in sorted(held)]


def told(value: Any) -> Any:
    """A value without what differs between processes: addresses, the last digits of sums.

    >>> told({"a": np.ones(2), "b": len}) == told({"a": np.ones(2), "b": len})
    True
    """
    if hasattr(value, "detach"):
        value = np.asarray(value.detach().cpu())
    if isinstance(value, np.ndarray):
        return fingerprint(rounded(value) if value.dtype.kind == "f" else value)
    if isinstance(value, dict):
        return [(repr(name), told(entry)) for name, entry in value.items()]
    if isinstance(value, list | tuple):
        return [told(entry) for entry in value]
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return described(value)
    return repr(value)
