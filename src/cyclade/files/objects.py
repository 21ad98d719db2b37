"""Objects as arrays and a description: what a run carries, written so that reading runs no code.

The description is a pickle that may name classes marked `stored` and nothing else: reading it
constructs those. Arrays, tensors and generators of random numbers stand beside it.

Fingerprints tell which run a file belongs to: digests of numbers, texts, arrays and objects.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_STORED: dict[tuple[str, str], Any] = {}
_Thing = TypeVar("_Thing")


def stored(thing: _Thing, name: str | None = None) -> _Thing:
    """Mark a class, or a value that pickles as this name of its module, as part of a state."""
    _STORED[thing.__module__, name or thing.__qualname__] = thing  # type: ignore[attr-defined]
    return thing


def packed(carried: Any, shared: Any) -> dict[str, Any]:
    """Arrays by name, and the description as bytes; objects of the class of `shared` stay out."""
    arrays: list[Any] = []
    stream = io.BytesIO()
    _Pickler(stream, arrays, type(shared)).dump(carried)
    named = {f"array {k}": a for k, a in enumerate(arrays)}
    return {"description": np.frombuffer(stream.getvalue(), np.uint8), **named}


def unpacked(found: dict[str, Any], shared: Any) -> Any:
    """The reverse, with `shared` in place of what was left out."""
    arrays = [found[f"array {k}"] for k in range(len(found) - 1)]
    return _Unpickler(found["description"].tobytes(), arrays, shared).load()


def as_numpy(leaf: Any) -> Any:
    """An array or a tensor as a NumPy array."""
    return np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)


class _Pickler(pickle.Pickler):
    """Arrays go into a list; the layout is that of the run which resumes."""

    def __init__(self, stream: io.BytesIO, arrays: list[Any], shared: type) -> None:
        super().__init__(stream, 4)
        self._arrays, self._shared, self._places = arrays, shared, dict[int, int]()
        self._held: list[Any] = []  # so that no id is used twice

    def persistent_id(self, value: Any) -> Any:
        """What stands for a layout, an array or a generator."""
        if isinstance(value, self._shared):
            return ("layout",)
        if isinstance(value, np.random.Generator):
            return ("generator", *_numbers_of(value))
        if isinstance(value, np.ndarray | np.generic):
            return ("numpy", isinstance(value, np.generic), self._place(value))
        if hasattr(value, "detach"):
            return ("torch", str(value.device), self._place(value))
        return None

    def _place(self, value: Any) -> int:
        """Where an array is in the list: an array that is met twice stays one."""
        array = as_numpy(value)
        if array.dtype.kind not in "fiubc":
            raise TypeError(f"checkpoint: cannot write an array of dtype {array.dtype}")
        if id(value) not in self._places:
            self._places[id(value)] = len(self._arrays)
            self._arrays.append(array)
            self._held.append(value)
        return self._places[id(value)]


class _Unpickler(pickle.Unpickler):
    """Builds what `_Pickler` wrote; every other class is refused."""

    def __init__(self, text: bytes, arrays: list[Any], shared: Any) -> None:
        super().__init__(io.BytesIO(text))
        self._arrays, self._shared = arrays, shared
        self._made: dict[Any, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A class that a state is made of."""
        if (module, name) not in _STORED:
            raise pickle.UnpicklingError(f"checkpoint: names {module}.{name}, which is no state")
        return _STORED[module, name]

    def persistent_load(self, said: Any) -> Any:
        """The layout, an array or a generator."""
        what, *rest = said
        if what == "layout":
            return self._shared
        if what == "generator":
            return _generator(*rest)
        if said not in self._made:
            how, array = rest[0], self._arrays[rest[-1]]
            if what == "torch":
                import torch

                self._made[said] = torch.from_numpy(array.copy()).to(how)
            else:
                self._made[said] = array[()] if how else array
        return self._made[said]


def _numbers_of(generator: np.random.Generator) -> tuple[Any, ...]:
    """A generator as plain numbers."""
    bits = generator.bit_generator
    if type(bits).__name__ not in _GENERATORS:
        raise TypeError(f"checkpoint: cannot write a generator of {type(bits).__name__}")
    seeds: Any = bits.seed_seq
    spawned = (seeds.entropy, seeds.spawn_key, seeds.pool_size, seeds.n_children_spawned)
    return type(bits).__name__, _without_arrays(bits.state), spawned


def _without_arrays(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _without_arrays(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _generator(name: str, state: dict[str, Any], spawned: tuple[Any, ...]) -> np.random.Generator:
    if name not in _GENERATORS:
        raise pickle.UnpicklingError(f"checkpoint: names a generator {name}")
    entropy, key, size, children = spawned
    seeds = np.random.SeedSequence(
        entropy, spawn_key=key, pool_size=size, n_children_spawned=children
    )
    bits = getattr(np.random, name)(seeds)
    bits.state = state
    return np.random.Generator(bits)


def fingerprint(*parts: Any) -> str:
    """The SHA-256 of numbers, texts and arrays: which run a checkpoint belongs to.

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


def rounded(values: Any) -> NDArray[Any]:
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
    return type(thing).__name__, [(name, stable_repr(held[name])) for name in sorted(held)]


def stable_repr(value: Any) -> Any:
    """A value without what differs between processes: addresses, the last digits of sums.

    >>> stable_repr({"a": np.ones(2), "b": len}) == stable_repr({"a": np.ones(2), "b": len})
    True
    """
    if hasattr(value, "detach"):
        value = np.asarray(value.detach().cpu())
    if isinstance(value, np.ndarray):
        return fingerprint(rounded(value) if value.dtype.kind == "f" else value)
    if isinstance(value, dict):
        return [(repr(name), stable_repr(entry)) for name, entry in value.items()]
    if isinstance(value, list | tuple):
        return [stable_repr(entry) for entry in value]
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return described(value)
    return repr(value)
