"""One stage in executable form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from cyclade.optim.stages.inputs import map_leaves
from cyclade.optim.stages.preserve import version
from cyclade.optim.stages.slots import Slot, parameter_names

__all__ = ["Env", "Guard", "Part", "StageInfo", "link"]

Env = dict[str, Any]
Guard = Mapping[Slot, Tensor | None]  # buffers that stand in for the live ones


@dataclass(frozen=True)
class StageInfo:
    """The name of a stage and the canonical names of the parameters it uses."""

    name: str
    params: tuple[str, ...]


class Part:
    """A piece of the model's forward that reads values from an env and writes new ones.

    ``body.forward`` takes the tensors of ``direct`` and then the values named in ``reads``, and
    returns the values named in ``writes``. The tensors of ``swapped`` slots are exchanged in
    their modules for the time of the call, so neither the user's parameters nor their flags
    are touched. ``state`` are the buffers a call may change; of ``idle`` ones (running
    statistics in training mode) the output does not depend, so a replay goes without them.
    """

    def __init__(
        self,
        name: str,
        body: nn.Module,
        *,
        reads: Sequence[str],
        writes: Sequence[str],
        direct: Sequence[Slot] = (),
        swapped: Sequence[Slot] = (),
        state: Sequence[Slot] = (),
        idle: Sequence[Slot] = (),
        random: int = 0,
        opaque: bool = False,
    ) -> None:
        self.info = StageInfo(name, parameter_names((*direct, *swapped)))
        self.body = body
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.passes: tuple[str, ...] = ()
        self.direct = tuple(direct)
        self.swapped = tuple(dict.fromkeys(s for s in swapped if not s.buffer))
        self._places = [(slot, slot.store, slot.attr) for slot in self.swapped]
        self.state = tuple(dict.fromkeys(state))
        self.idle = frozenset(idle)
        self.random = random
        # Whether a stage that may draw was seen to, on a real batch; None before that.
        self.drew: bool | None = None
        self.quiet = not self.state and not random
        # A module we cannot look into may write to its input; found out in its first run.
        self.unsure = opaque
        self.copies = False
        self._forward: Callable[..., Any] = body.forward
        self._compiled: Callable[..., Any] | None = None

    def compile(self, options: Mapping[str, Any] | None) -> None:
        """Run the stage through ``torch.compile`` from now on; with None as it is."""
        if options is not None:
            if self._compiled is None:
                self._compiled = torch.compile(self.body, **options)
            self._forward = self._compiled
        else:
            self._forward = self.body.forward

    def run(self, env: Env, tensors: Mapping[str, Tensor], guard: Guard | None) -> Env:
        """The env after this stage."""
        try:
            values = [env[name] for name in self.reads]
            after = {name: env[name] for name in self.passes}
        except KeyError as error:
            raise ValueError(
                f"this env does not stand before stage {self.info.name!r}: it lacks {error}"
            ) from None
        if self.unsure or self.copies:
            values = self._copied(values)
        direct = [_tensor(slot, tensors, guard) for slot in self.direct]
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
        if self.unsure:
            self._decide(values)
        after.update(zip(self.writes, written, strict=True))
        return after

    def _copied(self, values: list[Any]) -> list[Any]:
        def copy(value: Any) -> Any:
            return value.clone() if isinstance(value, Tensor) else value

        return [map_leaves(copy, value) for value in values]

    def _decide(self, values: list[Any]) -> None:
        # A fresh clone has version 0.
        leaves = pytree.tree_leaves(values)
        self.copies = any(isinstance(v, Tensor) and version(v) > 0 for v in leaves)
        self.unsure = False


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


def link(parts: Sequence[Part], outputs: set[str]) -> None:
    """Let each part pass on exactly the values that later parts, or the outputs, still need."""
    needed = set(outputs)
    for part in reversed(parts):
        part.passes = tuple(sorted(needed.difference(part.writes)))
        needed = set(part.passes).union(part.reads)
