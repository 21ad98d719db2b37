"""Partitions of x into blocks x = (x^1, …, x^m), and the storage that holds a point.

A user's x is one array, or a nested structure of arrays (see `cyclade.blocks.reading`). A `Layout`
says which part of it is which block; a `Point` is a value of x under that layout, read and written
block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array, all_finite, array_namespace, as_block, as_index, copier, kind
from cyclade._checks import shown, unmasked
from cyclade.blocks.reading import Tree, cuts, cuts_of_arrays, few, groups_of_arrays, take_apart
from cyclade.files.objects import stored


class Blocks(Protocol):
    """m blocks that can be read and written one at a time: a point x, a lagged point, or g."""

    def get(self, j: int) -> Array:
        """Block j. The array is never changed in place afterwards."""

    def set(self, j: int, u: Array) -> None:
        """Make block j equal to `u`."""


@dataclass(frozen=True)
class _Whole:
    """A block that is one whole array: it keeps that array's shape and is replaced, not copied."""

    leaf: int
    shape: tuple[int, ...]

    def read(self, leaves: list[Array]) -> Array:
        return leaves[self.leaf]

    def write(self, leaves: list[Array], u: Array) -> None:
        # Of a NumPy array of shape () arithmetic makes a NumPy scalar, which is no array.
        leaves[self.leaf] = u if self.shape or kind(u) == "torch" else np.asarray(u)

    def flat_index(self, offsets: list[int]) -> Any:
        return slice(offsets[self.leaf], offsets[self.leaf + 1])


@dataclass(frozen=True)
class _Part:
    """A block that is some entries of an array, which is stored flat and written in place."""

    leaf: int
    index: Any
    shape: tuple[int, ...]
    copy: Any

    def read(self, leaves: list[Array]) -> Array:
        return self.copy(leaves[self.leaf][self.index])

    def write(self, leaves: list[Array], u: Array) -> None:
        leaves[self.leaf][self.index] = u

    def flat_index(self, offsets: list[int]) -> Any:
        start, index = offsets[self.leaf], self.index
        if isinstance(index, slice):
            return slice(start + index.start, start + index.stop)
        return index + start


@dataclass(frozen=True)
class _Joined:
    """A block made of several whole arrays, flattened and laid end to end."""

    slots: tuple[_Whole, ...]
    shape: tuple[int, ...]
    concat: Any

    @property
    def leaf(self) -> int:
        return self.slots[0].leaf

    def read(self, leaves: list[Array]) -> Array:
        return self.concat([slot.read(leaves).reshape(-1) for slot in self.slots])

    def write(self, leaves: list[Array], u: Array) -> None:
        start = 0
        for slot in self.slots:
            size = math.prod(slot.shape)
            slot.write(leaves, u[start : start + size].reshape(slot.shape))
            start += size

    def flat_index(self, offsets: list[int]) -> Any:
        return np.concatenate([np.arange(offsets[s.leaf], offsets[s.leaf + 1]) for s in self.slots])


@stored
class Point:
    """A value of x, stored so that each block can be read and replaced.

    `stamp` names the value: every `set` makes a new one, a copy keeps it, so two points with the
    same stamp have the same value. Who remembers something about a point remembers its stamp.

    Example
    -------
    >>> import numpy as np
    >>> layout = Layout.of(np.zeros(4), blocks=[1, 3])
    >>> x = layout.point(np.arange(4.0))
    >>> x.set(1, x.get(1) * 10)
    >>> x.whole()
    array([ 0., 10., 20., 30.])
    """

    __slots__ = ("_replaces", "_slots", "_view", "layout", "leaves", "stamp")

    def __init__(self, layout: Layout, leaves: list[Array], stamp: object = None) -> None:
        self.layout, self.leaves, self._slots = layout, leaves, layout.slots
        self.stamp = object() if stamp is None else stamp
        self._view: Any = None
        self._replaces = not all(layout.shared)

    def get(self, j: int) -> Array:
        """Block j, as an array that later writes do not touch."""
        return self._slots[j].read(self.leaves)

    def set(self, j: int, u: Array) -> None:
        """Replace block j by `u`."""
        self._slots[j].write(self.leaves, u)
        self.stamp = object()
        if self._replaces:  # by another array than the one in view
            self._view = None

    @contextmanager
    def moved(self, j: int, u: Array, move: Any = None) -> Iterator[None]:
        """For a moment, block j at `u` (by `move` in place of `set`); then all is as before."""
        old, stamp, move = self.get(j), self.stamp, move or self.set
        move(j, u)
        try:
            yield
        finally:
            move(j, old)
            self.stamp = stamp

    def copy(self) -> Point:
        """An independent point with the same value."""
        return Point(self.layout, [self.layout.copy(a) for a in self.leaves], self.stamp)

    def blocks(self) -> list[Array]:
        """All m blocks."""
        return [self.get(j) for j in range(self.layout.m)]

    def view(self) -> Any:
        """x as `whole` gives it, but without a copy: true until the next `set`.

        NumPy arrays are read-only; torch has no such flag, so do not write to its tensors.
        """
        if self._view is None:
            views = [a.reshape(s) for a, s in zip(self.leaves, self.layout.shapes, strict=True)]
            if kind(views[0]) == "numpy":
                for a in views:
                    a.flags.writeable = False
            self._view = self.layout.structured(views)
        return self._view

    def whole(self) -> Any:
        """A copy of x in the structure and shapes the user gave."""
        copy, shapes = self.layout.copy, self.layout.shapes
        return self.layout.structured(
            [copy(a).reshape(s) for a, s in zip(self.leaves, shapes, strict=True)]
        )

    def __getstate__(self) -> tuple[Layout, list[Array]]:
        return self.layout, self.leaves  # stamps mean nothing elsewhere

    def __setstate__(self, state: tuple[Layout, list[Array]]) -> None:
        Point.__init__(self, *state)


class Layout:
    """How x (one array, or a nested list, tuple or dict of arrays) is cut into m blocks.

    Build one with `Layout.of(x0, blocks)`. `blocks` may be

    * ``None`` or ``"each"``: each array is a block;
    * ``"coordinates"``: each coordinate is a block (m = d);
    * an integer m: one array, cut into m contiguous blocks of nearly equal size;
    * a list of integers: the sizes of contiguous blocks of one array;
    * a list of lists of integers: the (flat) indices of each block of one array;
    * for several arrays, a list whose entries are names or lists of names: the arrays named
      together form one block. Arrays in a list or tuple have their positions as names. In a nested
      structure an array is named by the way to it, as in ``"enc.W"``, and ``"enc"`` means all
      arrays below it;
    * for several arrays, a dict from names to one of the first five: how each array is cut, as in
      ``{"W": 4, "b": "each"}``. An array that is not named is a block by itself.

    Every coordinate must be in exactly one block. A block that is one whole array keeps its shape
    (so a matrix block can have a nuclear norm); any other block is a flat vector. Blocks are named
    after their arrays: ``"W"``, ``"W+b"`` for two that form one block, ``"W[0]"``, ``"W[1]"``, …
    for the parts of one; the blocks of a bare array are ``"0"``, ``"1"``, …

    Examples
    --------
    >>> import numpy as np
    >>> x0 = {"W": np.zeros((3, 2)), "b": np.zeros(3)}
    >>> Layout.of(x0, None)
    Layout(m=2, sizes=(6, 3), names=('W', 'b'))
    >>> Layout.of(x0, {"W": 2})
    Layout(m=3, sizes=(3, 3, 3), names=('W[0]', 'W[1]', 'b'))
    """

    def __init__(
        self, structure: Tree, leaves: list[Array], labels: list[str], slots: list[Any],
        names: list[str], shared: list[bool],
    ) -> None:  # fmt: skip
        self._structure = structure
        self.labels = labels  # of the user's arrays; [""] for a bare one
        self.shapes = [tuple(a.shape) for a in leaves]  # of the user's arrays
        self.dtypes = [leaves[slot.leaf].dtype for slot in slots]  # of the blocks
        self.slots = slots  # one per block
        self.names = tuple(names)
        self.shared = shared  # whether an array holds several blocks, and so is written in place
        self.copy = copier(leaves[0])
        self.m = len(slots)
        self.sizes = tuple(math.prod(slot.shape) for slot in slots)
        self.d = sum(self.sizes)
        self.block_shapes = [slot.shape for slot in slots]

    def __repr__(self) -> str:
        return f"Layout(m={self.m}, sizes={few(self.sizes)}, names={few(self.names)})"

    @classmethod
    def of(cls, x0: Any, blocks: Any = None) -> Layout:
        """The layout of a point structured like `x0`, cut as `blocks` says."""
        leaves, labels, structure = _flatten(x0)
        cut: list[Any]  # how each array is cut; unless blocks joins arrays
        if blocks is None or (isinstance(blocks, str) and blocks in ("each", "coordinates")):
            cut = [blocks or "each"] * len(leaves)
        elif isinstance(blocks, Mapping) and labels != [""]:
            cut = cuts_of_arrays(blocks, labels)
        elif labels == [""]:
            cut = [blocks]
        else:
            groups = groups_of_arrays(blocks, labels)
            slots = [_joined(group, leaves, labels) for group in groups]
            names = ["+".join(labels[i] for i in group) for group in groups]
            return cls(structure, leaves, labels, slots, names, [False] * len(leaves))
        slots, names = [], []
        shared = [not (isinstance(how, str) and how == "each") for how in cut]
        for i, (a, label, how) in enumerate(zip(leaves, labels, cut, strict=True)):
            if not shared[i]:
                slots.append(_Whole(i, tuple(a.shape)))
                names.append(label or "x")
                continue
            pieces = cuts(how, math.prod(a.shape), f"blocks[{label!r}]" if label else "blocks")
            for j, (index, size) in enumerate(pieces):
                where = index if isinstance(index, slice) else as_index(index, a)
                copy = np.ndarray.copy if kind(a) == "numpy" else copier(a)
                slots.append(_Part(i, where, (size,), copy))
                names.append(f"{label}[{j}]" if label else str(j))
        return cls(structure, leaves, labels, slots, names, shared)

    def point(self, x: Any) -> Point:
        """A point with the value `x` (copied)."""
        arrays = self.arrays(x)
        leaves = [_as_array(a, label, "x") for a, label in zip(arrays, self.labels, strict=True)]
        return Point(self, [self.copy(a) for a in self._fitting(leaves)])

    def structured(self, leaves: list[Array]) -> Any:
        """The user's structure around `leaves`."""
        return self._structure.build(iter(leaves))

    def arrays(self, x: Any) -> list[Array]:
        """The arrays of `x`, a value or a gradient in the user's structure."""
        try:
            return self._structure.arrays(x)
        except (TypeError, ValueError) as error:
            raise ValueError(f"x must be structured like x0: {error}") from None

    def flat(self, arrays: list[Array]) -> list[Array]:
        """Arrays of x as a point stores them: those that hold several blocks as vectors."""
        return [a.reshape(-1) if s else a for a, s in zip(arrays, self.shared, strict=True)]

    def split(self, x: Any) -> list[Array]:
        """The m blocks of `x`, a value (or a gradient) in the user's structure."""
        leaves = self._fitting(self.arrays(x))
        return [slot.read(leaves) for slot in self.slots]

    def _fitting(self, arrays: list[Any]) -> list[Array]:
        """Arrays of x as a point stores them, if they have its shapes."""
        shapes = [tuple(a.shape) if kind(a) else type(a).__name__ for a in arrays]
        if shapes != self.shapes:
            raise ValueError(f"x must have arrays of shapes {self.shapes}, got {shapes}")
        return self.flat(arrays)

    def flat_index(self) -> list[Any]:
        """Where each block lies in x written as one vector: its arrays flattened, end to end."""
        offsets = np.cumsum([0] + [math.prod(shape) for shape in self.shapes]).tolist()
        return [slot.flat_index(offsets) for slot in self.slots]

    def shares(self) -> list[float]:
        """d^j / d: the part of a whole gradient that block j's gradient is."""
        return [size / self.d for size in self.sizes]


def _joined(group: list[int], leaves: list[Array], labels: list[str]) -> Any:
    """The block that the arrays of `group` form."""
    members = tuple(_Whole(i, tuple(leaves[i].shape)) for i in group)
    if len(group) == 1:
        return members[0]
    for what in ("dtype", "device"):
        found = {str(getattr(leaves[i], what, "")) for i in group}
        if len(found) > 1:
            raise TypeError(
                f"x0 has arrays of {what} {' and '.join(sorted(found))} in one block "
                f"({', '.join(labels[i] for i in group)}): give them one {what}"
            )
    size = sum(math.prod(slot.shape) for slot in members)
    return _Joined(members, (size,), array_namespace(leaves[group[0]]).concat)


def _flatten(x: Any) -> tuple[list[Array], list[str], Tree]:
    """The arrays of `x`, checked, a label for each ([""] for a bare array), and the way back."""
    entries, labels, structure = take_apart(x)
    leaves = [_as_array(a, label) for a, label in zip(entries, labels, strict=True)]
    if not leaves:
        raise ValueError("x0 holds no arrays: give an array, or a list or dict of arrays")
    kinds = {kind(a) for a in leaves}
    if len(kinds) > 1:
        raise TypeError(f"x0 mixes array libraries {sorted(kinds)}: give NumPy or torch, not both")
    return leaves, labels, structure


def _as_array(a: Any, label: str, whole: str = "x0") -> Array:
    """`a` as a finite, real, floating array of at least single precision, or a naming error."""
    name = f"{whole}[{label!r}]" if label else whole
    if kind(a) == "torch":
        a = as_block(a, name).detach()
        if str(a.layout) != "torch.strided":
            raise TypeError(f"{name} must be a dense tensor, got layout {a.layout}")
        size = a.element_size()
    elif type(a).__module__.partition(".")[0] in ("jax", "jaxlib"):
        raise TypeError(
            f"{name} is a JAX array: give numpy.asarray({whole}), with jax.jit(fun) and "
            "jac=jax.jit(jax.grad(fun)), which take NumPy arrays; the result is in NumPy"
        )
    else:
        a = unmasked(name, a)
        try:
            a = np.asarray(a)
            if a.dtype.kind in "iub":
                a = a.astype(float)
        except (TypeError, ValueError):  # ragged lists, objects that are no numbers
            raise TypeError(f"{name} must be an array of real numbers, got {shown(a)}") from None
        if a.dtype.kind != "f":
            raise TypeError(f"{name} must be an array of real numbers, got dtype {a.dtype}")
        size = a.itemsize
    if size < 4:
        raise TypeError(
            f"{name} has dtype {a.dtype}, too coarse for steps and certificates: give float32 or "
            "float64"
        )
    if math.prod(a.shape) == 0:
        raise ValueError(f"{name} is empty (shape {tuple(a.shape)}): every array needs an entry")
    if not all_finite(a):
        raise ValueError(f"{name} contains NaN or infinity: start from a finite point")
    return a


@stored
class Stored(Blocks):
    """One array for each of m blocks."""

    def __init__(self, arrays: Iterable[Array]) -> None:
        self.arrays = list(arrays)

    def get(self, j: int) -> Array:
        """Array j."""
        return self.arrays[j]

    def set(self, j: int, u: Array) -> None:
        """Replace array j."""
        self.arrays[j] = u


@stored
class NoEstimate:
    """The lag and the estimates of a method that carries none over."""

    def follow(self, j: int, old: Array, new: Array) -> None:
        """Nothing follows."""

    def set(self, j: int, u: Array) -> None:
        """Nothing is kept."""

    def trim(self) -> None:
        """Nothing to forget."""
