"""Stages in executable form, and those that are made of whole modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim._trees import pytree
from cyclade.optim.stages.effects import changing, module_randomness
from cyclade.optim.stages.inputs import Names, Slot, map_leaves, parameter_names
from cyclade.optim.stages.preserve import version
from cyclade.optim.stages.structure import hooked

Env = dict[str, Any]
Guard = Mapping[Slot, Tensor | None]  # buffers that stand in for the live ones


class Stage:
    """A piece of the model's forward that reads values from an env and writes new ones.

    ``params`` are the canonical names of the parameters it uses.
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
        self.name, self.params = name, parameter_names((*direct, *swapped))
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


def link(stages: Sequence[Stage], outputs: set[str]) -> None:
    """Let each stage pass on exactly the values that later stages, or the outputs, still need."""
    needed = set(outputs)
    for stage in reversed(stages):
        stage.passes = tuple(sorted(needed.difference(stage.writes)))
        needed = set(stage.passes).union(stage.reads)


def unique(titles: Iterable[str]) -> list[str]:
    """Number the second and later uses of a name: fc, fc@2, fc@3."""
    seen: dict[str, int] = {}
    result = []
    for title in titles:
        seen[title] = seen.get(title, 0) + 1
        result.append(title if seen[title] == 1 else f"{title}@{seen[title]}")
    return result


class Applied(nn.Module):
    """Modules applied one after the other; the first may take several arguments."""

    def __init__(self, modules: Sequence[nn.Module], *, first: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(modules)
        self.first = first
        self.each = tuple(modules)  # without the way through the registry

    def forward(self, value: Any, kwargs: Any = None) -> tuple[Any]:
        """Apply the modules to a value, or the first of them to (args, kwargs)."""
        fresh = self.first
        for module in self.each:
            value = module(*value, **kwargs) if fresh else module(value)
            fresh = False
        return (value,)


def is_sequence(module: nn.Module) -> bool:
    """Whether a module is its children one after the other, and nothing else."""
    runs_children = type(module).forward is nn.Sequential.forward
    return isinstance(module, nn.Sequential) and runs_children and not hooked(module)


def layers(model: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The children of (nested) Sequentials, with their paths, in execution order."""
    for name, child in model._modules.items():
        if child is None:
            continue
        where = f"{path}.{name}" if path else name
        if is_sequence(child):
            yield from layers(child, where)
        else:
            yield where, child


def modules_as_stages(modules: Iterable[tuple[str, nn.Module]], names: Names) -> list[Stage]:
    """One stage per module with parameters; the others join the one before them."""
    groups: list[tuple[str, list[nn.Module]]] = []
    named = False
    for name, module in modules:
        has_parameters = next(module.parameters(), None) is not None
        if not groups or (has_parameters and named):
            groups.append((name, [module]))
        else:
            groups[-1][1].append(module)
            if has_parameters:
                groups[-1] = (name, groups[-1][1])
        named = named or has_parameters
    titles = unique(name for name, _ in groups)
    stages = []
    for k, (title, (_, members)) in enumerate(zip(titles, groups, strict=True)):
        state, idle = changing(members, names)
        stages.append(
            Stage(
                title,
                Applied(members, first=k == 0),
                reads=("args", "kwargs") if k == 0 else ("x",),
                writes=("x",),
                swapped=[slot for member in members for slot in names.of(member)],
                state=state,
                idle=idle,
                random=max(module_randomness(member) for member in members),
                opaque=True,
            )
        )
    link(stages, {"x"})
    return stages
