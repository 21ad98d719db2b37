"""Stages made of whole modules: sequential models, stages given by the user, the last resort."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from cyclade.optim.stages.part import Part, link
from cyclade.optim.stages.randomness import module_randomness
from cyclade.optim.stages.slots import Names
from cyclade.optim.stages.splitting import unique
from cyclade.optim.stages.state import changing
from cyclade.optim.stages.structure import hooked
from cyclade.optim.stages.tracing import is_leaf

__all__ = ["Applied", "flatten", "is_plain", "layers", "modules_as_parts", "whole"]


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


def _is_sequence(module: nn.Module) -> bool:
    """Whether a module is its children one after the other, and nothing else."""
    runs_children = type(module).forward is nn.Sequential.forward
    return isinstance(module, nn.Sequential) and runs_children and not hooked(module)


def flatten(model: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The children of (nested) Sequentials, with their paths, in execution order."""
    for name, child in model._modules.items():
        if child is None:
            continue
        where = f"{path}.{name}" if path else name
        if _is_sequence(child):
            yield from flatten(child, where)
        else:
            yield where, child


def is_plain(model: nn.Module) -> bool:
    """Whether a model is a Sequential of layers that need no finer cut."""
    return _is_sequence(model) and all(
        is_leaf(child) or not list(child.children()) for _, child in flatten(model)
    )


def layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The children a Sequential is cut into; a ValueError for other models."""
    if not _is_sequence(model):
        raise ValueError("the model is not a plain nn.Sequential")
    return list(flatten(model))


def modules_as_parts(modules: Sequence[tuple[str, nn.Module]], names: Names) -> list[Part]:
    """One part per module with parameters; the others join the one before them."""
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
    parts = []
    for k, (title, (_, members)) in enumerate(zip(titles, groups, strict=True)):
        state, idle = [], []
        for member in members:
            more, unused = changing(member, names)
            state += more
            idle += unused
        parts.append(
            Part(
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
    link(parts, {"x"})
    return parts


def whole(model: nn.Module, names: Names) -> list[Part]:
    """The model as one stage."""
    return modules_as_parts([("model", model)], names)
