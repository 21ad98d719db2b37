"""What a model is called with, and where its parameters and buffers live."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim._trees import pytree


@dataclass(frozen=True)
class Inputs:
    """The positional and keyword arguments of one call of the model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


RUNTIME: Any = object()  # stands for a value known only when the stages run
_STATIC = (type(None), bool, int, str, torch.dtype, torch.device)


@dataclass(frozen=True)
class Signature:
    """The structure of a call: which leaves are values, and the constants a trace bakes in.

    None, booleans, whole numbers and strings steer Python control flow (``if targets is not
    None``), so they belong to the trace; tensors, floats and everything else are values.
    """

    spec: Any
    leaves: tuple[Any, ...]


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """``tree_map`` that leaves a ``torch.Size`` what it is: torch makes a plain tuple of it."""
    return pytree.tree_map(function, value, is_leaf=lambda v: isinstance(v, torch.Size))


def without_objects(output: Any) -> Any:
    """An output with None in place of objects that are no values, such as caches of keys."""
    known = (Tensor, torch.Size, *_STATIC, float, complex)
    return map_leaves(lambda leaf: leaf if isinstance(leaf, known) else None, output)


def signature(inputs: Inputs) -> tuple[Signature, list[Any]]:
    """The signature of a call, and its leaves."""
    if not inputs.kwargs and all(type(a) is Tensor for a in inputs.args):  # as most are
        return _of_values(len(inputs.args)), list(inputs.args)
    leaves, spec = pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))
    return Signature(spec, tuple(v if type(v) in _STATIC else RUNTIME for v in leaves)), leaves


@cache
def _of_values(n: int, *keywords: str) -> Signature:
    """The signature of a call with n values in a row and some by name."""
    leaves, spec = pytree.tree_flatten(((RUNTIME,) * n, dict.fromkeys(keywords, RUNTIME)))
    return Signature(spec, tuple(leaves))


def guess(model: nn.Module) -> Signature:
    """The signature assumed before the first batch: required arguments only, all of them values."""
    required = [
        p for p in inspect.signature(model.forward).parameters.values() if p.default is p.empty
    ]
    in_a_row = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keywords = [p.name for p in required if p.kind is p.KEYWORD_ONLY]
    return _of_values(sum(p.kind in in_a_row for p in required), *keywords)


@dataclass(frozen=True)
class Slot:
    """One parameter or buffer: the registry of the module that owns it, and its canonical name.

    The registry is kept, not the tensor, because ``model.to(...)`` puts new buffers there.
    """

    place: int  # of the registry in memory
    attr: str
    name: str = field(compare=False)
    buffer: bool = field(compare=False)
    store: dict[str, Any] = field(compare=False, repr=False)

    def get(self) -> Tensor:
        """The tensor that lives there now."""
        tensor: Tensor = self.store[self.attr]
        return tensor


class Names:
    """Canonical names: the first name ``named_parameters()`` gives, also for tied parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parameters = {id(p): name for name, p in model.named_parameters()}
        self._buffers = {id(b): name for name, b in model.named_buffers()}

    def slot(self, path: str) -> Slot | None:
        """The slot at a dotted path, or None when no parameter or buffer lives there."""
        owner_path, _, attr = path.rpartition(".")
        try:
            owner = self.model.get_submodule(owner_path)
        except AttributeError:
            return None
        return next((slot for slot in self.own(owner) if slot.attr == attr), None)

    def of(self, module: nn.Module) -> Iterator[Slot]:
        """All slots of a module and its children, aliases included."""
        for owner in module.modules():
            yield from self.own(owner)

    def own(self, owner: nn.Module) -> Iterator[Slot]:
        """The slots of a module itself."""
        for attr, p in owner._parameters.items():
            if p is not None:
                if id(p) not in self.parameters:
                    raise ValueError(
                        f"{type(owner).__name__}.{attr} is not a parameter of the model: "
                        "every stage must be made of modules of the model"
                    )
                store = owner._parameters
                yield Slot(id(store), attr, self.parameters[id(p)], False, store)
        for attr, b in owner._buffers.items():
            if b is not None:
                name = self._buffers.get(id(b), attr)
                yield Slot(id(owner._buffers), attr, name, True, owner._buffers)


def parameter_names(slots: Iterable[Slot]) -> tuple[str, ...]:
    """The distinct canonical parameter names among ``slots``, in order."""
    return tuple(dict.fromkeys(slot.name for slot in slots if not slot.buffer))
