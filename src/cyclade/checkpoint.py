"""Checkpoints of `minimize`: a run that is killed at any moment goes on from the last one.

What a run carries (`Carried`) is taken apart into arrays, written as they are, and a description of
how they hang together. The description is a pickle that may name a few classes of this package and
nothing else: reading it constructs those and runs no other code.
"""

from __future__ import annotations

import io
import os
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cyclade._arrays import kind
from cyclade.blocks import Layout, Point
from cyclade.kept import Kept, fingerprint
from cyclade.run_parts import Carried

_SHARE = 0.02  # of a run's time that may go into checkpoints
_CLASSES = {
    "cyclade.accelerate": {"Anderson"}, "cyclade.blocks": {"Point"}, "cyclade.core": {"State"},
    "cyclade.lag": {"Lag", "Nothing", "Stored"}, "cyclade.run_parts": {"Carried"},
    "cyclade.returned_iterate": {"Best", "Last", "SmallestChange", "Uniform"},
    "cyclade.samplers": {"ALL", "Batch"},
}  # fmt: skip
_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class Checkpoint:
    """Where a run of `minimize` is written down, and read again.

    `ranks`, if there are several: the first one writes and reads for all.
    """

    def __init__(self, place: str | os.PathLike[str], run: str, layout: Layout, ranks: Any) -> None:
        self._kept, self._layout, self._ranks = Kept(place, run), layout, ranks
        self._cost, self._last = 0.0, -np.inf

    @classmethod
    def of(cls, place: Any, ranks: Any, x: Point, seed: Any, described: list[Any]) -> Checkpoint:
        """The checkpoint at `place` for a run that `described` and its start tell apart."""
        if not isinstance(place, str | os.PathLike):
            raise TypeError(f"checkpoint must be None or a path, got {type(place).__name__}")
        own = seed if seed is None or isinstance(seed, int | np.integer) else "a generator"
        start = [_as_numpy(leaf) for leaf in x.leaves]
        return cls(place, fingerprint(own, *start, *described), x.layout, ranks)

    def load(self) -> Carried | None:
        """What the run carried when it was last written down; None if it never was."""
        found, trouble = None, None
        if self._ranks is None or self._ranks.rank == 0:
            try:
                found = self._kept.load()
            except ValueError as error:  # of another run
                trouble = error
        if self._ranks is not None:
            found, said = self._ranks.first((found, trouble and str(trouble)))
            trouble = trouble or (ValueError(said) if said else None)
        if trouble is not None:
            raise trouble
        return None if found is None else unpacked(found, self._layout)

    def save(self, carry: Callable[[], Carried]) -> None:
        """Write down what the run carries, unless that was done a moment ago."""
        begun = time.perf_counter()
        if begun - self._last < self._cost / _SHARE:
            return
        if self._ranks is None or self._ranks.rank == 0:
            self._kept.save(**packed(carry()))
        self._last = time.perf_counter()
        self._cost = self._last - begun


def packed(carried: Carried) -> dict[str, Any]:
    """Arrays by name: those of the state, and the description as bytes."""
    arrays: list[Any] = []
    stream = io.BytesIO()
    _Pickler(stream, arrays).dump(carried)
    named = {f"array {k}": a for k, a in enumerate(arrays)}
    return {"description": np.frombuffer(stream.getvalue(), np.uint8), **named}


def unpacked(found: dict[str, Any], layout: Layout) -> Carried:
    """The reverse, for a run on the same layout."""
    arrays = [found[f"array {k}"] for k in range(len(found) - 1)]
    carried: Carried = _Unpickler(found["description"].tobytes(), arrays, layout).load()
    return carried


class _Pickler(pickle.Pickler):
    """Arrays go into a list; the layout is that of the run which resumes."""

    def __init__(self, stream: io.BytesIO, arrays: list[Any]) -> None:
        super().__init__(stream, 4)
        self._arrays, self._places = arrays, dict[int, int]()
        self._held: list[Any] = []  # so that no id is used twice

    def persistent_id(self, value: Any) -> Any:
        """What stands for a layout, an array or a generator."""
        if isinstance(value, Layout):
            return ("layout",)
        if isinstance(value, np.random.Generator):
            return ("generator", *_told(value))
        if isinstance(value, np.ndarray | np.generic):
            return ("numpy", isinstance(value, np.generic), self._place(value, np.asarray(value)))
        if kind(value) == "torch":
            return ("torch", str(value.device), self._place(value, _as_numpy(value)))
        return None

    def _place(self, value: Any, array: Any) -> int:
        """Where an array is in the list: an array that is met twice stays one."""
        if array.dtype.kind not in "fiubc":
            raise TypeError(f"checkpoint: cannot write an array of dtype {array.dtype}")
        if id(value) not in self._places:
            self._places[id(value)] = len(self._arrays)
            self._arrays.append(array)
            self._held.append(value)
        return self._places[id(value)]


class _Unpickler(pickle.Unpickler):
    """Builds what `_Pickler` wrote; every other class is refused."""

    def __init__(self, text: bytes, arrays: list[Any], layout: Layout) -> None:
        super().__init__(io.BytesIO(text))
        self._arrays, self._layout = arrays, layout
        self._made: dict[Any, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A class that a state is made of."""
        if name not in _CLASSES.get(module, ()):
            raise pickle.UnpicklingError(f"checkpoint: names {module}.{name}, which is no state")
        return super().find_class(module, name)

    def persistent_load(self, said: Any) -> Any:
        """The layout, an array or a generator."""
        what, *rest = said
        if what == "layout":
            return self._layout
        if what == "generator":
            return _generator(*rest)
        if said not in self._made:
            array = self._arrays[rest[-1]]
            self._made[said] = array if what == "numpy" else _tensor(rest[0], array)
            if what == "numpy" and rest[0]:
                self._made[said] = array[()]
        return self._made[said]


def _told(generator: np.random.Generator) -> tuple[Any, ...]:
    """A generator as plain numbers."""
    bits = generator.bit_generator
    if type(bits).__name__ not in _GENERATORS:
        raise TypeError(f"checkpoint: cannot write a generator of {type(bits).__name__}")
    seeds: Any = bits.seed_seq
    spawned = (seeds.entropy, seeds.spawn_key, seeds.pool_size, seeds.n_children_spawned)
    return type(bits).__name__, _plain(bits.state), spawned


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
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


def _as_numpy(leaf: Any) -> Any:
    return np.asarray(leaf.detach().cpu() if kind(leaf) == "torch" else leaf)


def _tensor(device: str, array: Any) -> Any:
    import torch

    return torch.from_numpy(array.copy()).to(device)
