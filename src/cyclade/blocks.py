"""Partitions of x into blocks x = (x^1, …, x^m), and the storage that holds a point.

A user's x is one array, or a list, tuple or dict of arrays. A `Layout` says which part of it is
which block; a `Point` is a value of x under that layout, read and written block by block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cyclade._arrays import Array, all_finite, array_namespace, as_index, copier, kind
from cyclade.partitions import cuts, groups_of_arrays


class Blocks(Protocol):
    """m blocks that can be read and written one at a time: a point x, a lagged point, or g."""

    def get(self, j: int) -> Array:
        """Block j. The array is never changed in place afterwards."""

    def set(self, j: int, u: Array) -> None:
        """Make block j equal to `u`."""


class Slot(Protocol):
    """Where one block lives among the arrays of x."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the block."""

    def read(self, leaves: list[Array]) -> Array:
        """The block, out of the arrays."""

    def write(self, leaves: list[Array], u: Array) -> None:
        """Put `u` where the block is."""

    def flat_index(self, offsets: list[int]) -> Any:
        """Where the block lies in x written as one vector, whose arrays begin at `offsets`."""


@dataclass(frozen=True)
class _Whole:
    """A block that is one whole array: it keeps that array's shape and is replaced, not copied."""

    leaf: int
    shape: tuple[int, ...]

    def read(self, leaves: list[Array]) -> Array:
        return leaves[self.leaf]

    def write(self, leaves: list[Array], u: Array) -> None:
        leaves[self.leaf] = u

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
        return self.index  # only an x that is one array has parts


@dataclass(frozen=True)
class _Joined:
    """A block made of several whole arrays, flattened and laid end to end."""

    slots: tuple[_Whole, ...]
    shape: tuple[int, ...]
    concat: Any

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


@dataclass
class Point:
    """A value of x, stored so that each block can be read and replaced.

    Example
    -------
    >>> import numpy as np
    >>> layout = Layout.of(np.zeros(4), blocks=[1, 3])
    >>> x = layout.point(np.arange(4.0))
    >>> x.set(1, x.get(1) * 10)
    >>> x.whole()
    array([ 0., 10., 20., 30.])
    """

    layout: Layout
    leaves: list[Array]

    def get(self, j: int) -> Array:
        """Block j, as an array that later writes do not touch."""
        return self.layout.slots[j].read(self.leaves)

    def set(self, j: int, u: Array) -> None:
        """Replace block j by `u`."""
        self.layout.slots[j].write(self.leaves, u)

    def copy(self) -> Point:
        """An independent point with the same value."""
        return Point(self.layout, [self.layout.copy(a) for a in self.leaves])

    def blocks(self) -> list[Array]:
        """All m blocks."""
        return [self.get(j) for j in range(self.layout.m)]

    def view(self) -> Any:
        """x as `whole` gives it, but without a copy: read-only, and true until the next `set`."""
        layout = self.layout
        views = zip(self.leaves, layout.shapes, strict=True)
        return layout.structured([_read_only(a).reshape(shape) for a, shape in views])

    def whole(self) -> Any:
        """A copy of x in the structure and shapes the user gave."""
        layout = self.layout
        return layout.structured(
            [layout.copy(a).reshape(s) for a, s in zip(self.leaves, layout.shapes, strict=True)]
        )


class Layout:
    """How x (one array, or a list, tuple or dict of arrays) is cut into m blocks.

    Build one with `Layout.of(x0, blocks)`. `blocks` may be

    * ``None`` or ``"each"``: each array is a block;
    * ``"coordinates"``: each coordinate of one array is a block (m = d);
    * an integer m: one array, cut into m contiguous blocks of nearly equal size;
    * a list of integers: the sizes of contiguous blocks of one array;
    * a list of lists of integers: the (flat) indices of each block of one array;
    * for a dict, a list whose entries are names or lists of names; for a list or tuple of arrays,
      lists of positions: the arrays named together form one block.

    Every coordinate must be in exactly one block. A block that is one whole array keeps its shape
    (so a matrix block can have a nuclear norm); any other block is a flat vector.

    Example
    -------
    >>> import numpy as np
    >>> Layout.of({"W": np.zeros((3, 2)), "b": np.zeros(3)}, None)
    Layout(m=2, sizes=(6, 3), names=('W', 'b'))
    """

    def __init__(
        self, rebuild: Any, labels: list[str], shapes: list[tuple[int, ...]], slots: list[Slot],
        names: list[str], shared: list[bool], copy: Any,
    ) -> None:  # fmt: skip
        self._rebuild = rebuild
        self.labels = labels  # of the user's arrays; [""] for a bare one
        self.shapes = shapes  # of the user's arrays
        self.slots = slots  # one per block
        self.names = tuple(names)
        self.shared = shared  # whether an array holds several blocks, and so is written in place
        self.copy = copy
        self.m = len(slots)
        self.sizes = tuple(math.prod(slot.shape) for slot in slots)
        self.d = sum(self.sizes)
        self.block_shapes = [slot.shape for slot in slots]

    def __repr__(self) -> str:
        return f"Layout(m={self.m}, sizes={self.sizes}, names={self.names})"

    @classmethod
    def of(cls, x0: Any, blocks: Any = None) -> Layout:
        """The layout of a point structured like `x0`, cut as `blocks` says."""
        leaves, labels, rebuild = _flatten(x0)
        like = leaves[0]
        copy, concat = copier(like), array_namespace(like).concat
        shapes = [tuple(a.shape) for a in leaves]
        whole = [_Whole(i, shape) for i, shape in enumerate(shapes)]
        if blocks is None or (isinstance(blocks, str) and blocks == "each"):
            names = [label or "x" for label in labels]
            return cls(rebuild, labels, shapes, [*whole], names, [False] * len(leaves), copy)
        if labels != [""]:  # several arrays: blocks name them
            groups = groups_of_arrays(blocks, labels)
            slots: list[Slot] = []
            for group in groups:
                if len(group) == 1:
                    slots.append(whole[group[0]])
                else:
                    members = tuple(whole[i] for i in group)
                    size = sum(math.prod(shapes[i]) for i in group)
                    slots.append(_Joined(members, (size,), concat))
            names = ["+".join(labels[i] for i in group) for group in groups]
            return cls(rebuild, labels, shapes, slots, names, [False] * len(leaves), copy)
        cut = cuts(blocks, math.prod(shapes[0]))
        slots = [
            _Part(0, index if isinstance(index, slice) else as_index(index, like), (size,), copy)
            for index, size in cut
        ]
        names = [str(j) for j in range(len(cut))]
        return cls(rebuild, labels, shapes, slots, names, [True], copy)

    def point(self, x: Any) -> Point:
        """A point with the value `x` (copied)."""
        leaves, _, _ = _flatten(self._rebuild(self._rebuild.leaves(x)))
        shapes = [tuple(a.shape) for a in leaves]
        if shapes != self.shapes:
            raise ValueError(f"x must have arrays of shapes {self.shapes}, got {shapes}")
        copies = [self.copy(a) for a in leaves]
        return Point(
            self,
            [a.reshape(-1) if shared else a for a, shared in zip(copies, self.shared, strict=True)],
        )

    def structured(self, leaves: list[Array]) -> Any:
        """The user's structure (array, list, tuple or dict) around `leaves`."""
        return self._rebuild(leaves)

    def split(self, x: Any) -> list[Array]:
        """The m blocks of `x`, a value (or a gradient) in the user's structure."""
        leaves = self._rebuild.leaves(x)
        flat = [a.reshape(-1) if s else a for a, s in zip(leaves, self.shared, strict=True)]
        return [slot.read(flat) for slot in self.slots]

    def arrays(self, x: Any) -> list[Array]:
        """The arrays of `x`, a value or a gradient in the user's structure."""
        arrays: list[Array] = self._rebuild.leaves(x)
        return arrays

    def flat_index(self) -> list[Any]:
        """Where each block lies in x written as one vector: its arrays flattened, end to end."""
        offsets = np.cumsum([0] + [math.prod(shape) for shape in self.shapes]).tolist()
        return [slot.flat_index(offsets) for slot in self.slots]

    def shares(self) -> list[float]:
        """d^j / d: the part of a whole gradient that block j's gradient is."""
        return [size / self.d for size in self.sizes]


def _read_only(a: Array) -> Array:
    seen = a.view()
    seen.flags.writeable = False
    return seen


class _Rebuild:
    """Puts arrays back into the structure the user gave; a class, so that layouts pickle."""

    def __init__(self, how: str, keys: Sequence[Any] = ()) -> None:
        self.how, self.keys = how, tuple(keys)

    def __call__(self, leaves: list[Array]) -> Any:
        if self.how == "array":
            return leaves[0]
        if self.how == "dict":
            return dict(zip(self.keys, leaves, strict=True))
        return tuple(leaves) if self.how == "tuple" else list(leaves)

    def leaves(self, x: Any) -> list[Array]:
        """The arrays of `x`, in the order of the structure: a dict is read by its keys."""
        if self.how == "array":
            return [x]
        if self.how == "dict":
            if not isinstance(x, Mapping) or set(x) != set(self.keys):
                raise ValueError(f"a dict with the keys {list(self.keys)} is needed")
            return [x[key] for key in self.keys]
        if isinstance(x, Mapping):
            raise ValueError("a list of arrays is needed, not a dict")
        return list(x)


def _flatten(x: Any) -> tuple[list[Array], list[str], _Rebuild]:
    """The arrays of `x`, a label for each ([""] for a bare array), and the way back."""
    if isinstance(x, Mapping):
        entries, labels = list(x.values()), [str(name) for name in x]
        rebuild = _Rebuild("dict", list(x))
    elif isinstance(x, list | tuple) and any(kind(a) for a in x):
        entries, labels = list(x), [str(i) for i in range(len(x))]
        rebuild = _Rebuild("tuple" if isinstance(x, tuple) else "list")
    else:
        entries, labels, rebuild = [x], [""], _Rebuild("array")
    leaves = [_as_array(a, label) for a, label in zip(entries, labels, strict=True)]
    if not leaves:
        raise ValueError("x0 holds no arrays: give an array, or a list or dict of arrays")
    kinds = {kind(a) for a in leaves}
    if len(kinds) > 1:
        raise TypeError(f"x0 mixes array libraries {sorted(kinds)}: give NumPy or torch, not both")
    return leaves, labels, rebuild


def _as_array(a: Any, label: str) -> Array:
    """`a` as a finite, real, floating array, or an error that names it."""
    name = f"x0[{label!r}]" if label else "x0"
    if kind(a) == "torch":
        if not a.is_floating_point():
            raise TypeError(f"{name} must be a real floating tensor, got dtype {a.dtype}")
        a = a.detach()
    else:
        try:
            a = np.asarray(a)
            if a.dtype.kind in "iub":
                a = a.astype(float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be an array of real numbers: {error}") from None
        if a.dtype.kind != "f":
            raise TypeError(f"{name} must be an array of real numbers, got dtype {a.dtype}")
    if math.prod(a.shape) == 0:
        raise ValueError(f"{name} is empty (shape {tuple(a.shape)}): every array needs an entry")
    if not all_finite(a):
        raise ValueError(f"{name} contains NaN or infinity: start from a finite point")
    return a
