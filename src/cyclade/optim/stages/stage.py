"""A stage in executable form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim._trees import pytree
from cyclade.optim.stages.inputs import Slot, map_leaves, parameter_names
from cyclade.optim.stages.preserve import version

Env = dict[str, Any]
Guard = Mapping[Slot, Tensor | None]  # buffers that stand in for the live ones


@dataclass(eq=False)
class Stage:
    """A piece of the model's forward that reads values from an env and writes new ones.

    ``params`` are the canonical names of the parameters it uses.
    ``body.forward`` takes the tensors of ``direct`` and then the values named in ``reads``, and
    returns the values named in ``writes``. The tensors of ``swapped`` slots are exchanged in
    their modules for the time of the call, so neither the user's parameters nor their flags
    are touched. ``state`` are the buffers a call may change; of ``idle`` ones (running
    statistics in training mode) the output does not depend, so a replay goes without them.
    """

    name: str
    body: nn.Module
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    direct: tuple[Slot, ...]
    swapped: tuple[Slot, ...]
    state: tuple[Slot, ...]
    idle: frozenset[Slot]
    random: int
    unsure: bool  # a module we cannot look into may write to its input; its first run tells
    copies: bool = False
    drew: bool | None = None  # whether one that may draw was seen to, on a real batch
    passes: tuple[str, ...] = ()  # what it hands on as it is

    def __post_init__(self) -> None:
        self.params = parameter_names((*self.direct, *self.swapped))
        self._places = [(slot, slot.store, slot.attr) for slot in self.swapped]
        self.quiet = not self.state and not self.random
        self._forward: Any = self.body.forward
        self._compiled: Any = None

    def compile(self, options: Mapping[str, Any] | None) -> None:
        """Run the stage through ``torch.compile`` from now on; with None as it is."""
        if options is not None and self._compiled is None:
            self._compiled = torch.compile(self.body, **options)
        self._forward = self.body.forward if options is None else self._compiled

    def run(self, env: Env, tensors: Mapping[str, Tensor], guard: Guard | None) -> Env:
        """The env after this stage."""
        try:
            values = list(map(env.__getitem__, self.reads))
            after = dict(zip(self.passes, map(env.__getitem__, self.passes), strict=True))
        except KeyError as error:
            raise ValueError(
                f"this env does not stand before stage {self.name!r}: it lacks {error}"
            ) from None
        if self.unsure or self.copies:
            values = map_leaves(lambda v: v.clone() if isinstance(v, Tensor) else v, values)
        direct = [_tensor(slot, tensors, guard) for slot in self.direct] if self.direct else []
        exchanged: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for slot, store, attr in self._places:
                exchanged.append((store, attr, store[attr]))
                given = tensors.get(slot.name)
                store[attr] = _tensor(slot, tensors, None) if given is None else given
            if guard is not None:
                for slot, value in guard.items():
                    exchanged.append((slot.store, slot.attr, slot.store[slot.attr]))
                    slot.store[slot.attr] = value
            written = self._forward(*direct, *values)
        finally:
            for store, attr, old in reversed(exchanged):
                store[attr] = old
        if self.unsure:  # a fresh clone has version 0
            leaves = pytree.tree_leaves(values)
            self.copies = any(isinstance(v, Tensor) and version(v) > 0 for v in leaves)
            self.unsure = False
        after.update(zip(self.writes, written, strict=True))
        return after


def _tensor(slot: Slot, tensors: Mapping[str, Tensor], guard: Guard | None) -> Tensor | None:
    """The tensor to use for a slot; the model's own parameters enter as constants."""
    if slot.buffer:
        return slot.get() if guard is None or slot not in guard else guard[slot]
    tensor = tensors.get(slot.name)
    if tensor is None:
        tensor = slot.get()
        if tensor.requires_grad:
            tensor = tensor.detach()
    return tensor
