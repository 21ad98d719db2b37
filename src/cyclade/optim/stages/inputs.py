"""What a model is called with, and how two calls are told apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

__all__ = ["RUNTIME", "Inputs", "Signature", "guess", "map_leaves", "signature", "without_objects"]


@dataclass(frozen=True)
class Inputs:
    """The positional and keyword arguments of one call of the model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


class _Runtime:
    """Stands for a value known only when the stages run."""

    def __repr__(self) -> str:
        return "RUNTIME"


RUNTIME = _Runtime()
_STATIC = (type(None), bool, int, str, torch.dtype, torch.device)


@dataclass(frozen=True)
class Signature:
    """The structure of a call: which leaves are values, and the constants a trace bakes in.

    None, booleans, whole numbers and strings steer Python control flow (``if targets is not
    None``), so they belong to the trace; tensors, floats and everything else are values.
    """

    spec: Any
    leaves: tuple[Any, ...]

    def arguments(self, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The (args, kwargs) with ``values`` in the places of the leaves."""
        args, kwargs = pytree.tree_unflatten(values, self.spec)
        return args, kwargs


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """``tree_map`` that leaves a ``torch.Size`` what it is: torch makes a plain tuple of it."""
    return pytree.tree_map(function, value, is_leaf=lambda v: isinstance(v, torch.Size))


def without_objects(output: Any) -> Any:
    """An output with None in place of objects that are no values, such as caches of keys."""
    known = (Tensor, torch.Size, *_STATIC, float, complex)
    return map_leaves(lambda leaf: leaf if isinstance(leaf, known) else None, output)


def _leaf(value: Any) -> Any:
    return value if type(value) in _STATIC else RUNTIME


def signature(inputs: Inputs) -> tuple[Signature, list[Any]]:
    """The signature of a call, and its leaves."""
    if not inputs.kwargs and all(type(a) is Tensor for a in inputs.args):  # as most are
        return _of_tensors(len(inputs.args)), list(inputs.args)
    leaves, spec = pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))
    return Signature(spec, tuple(_leaf(v) for v in leaves)), leaves


@cache
def _of_tensors(n: int) -> Signature:
    """The signature of a call with n tensors."""
    leaves, spec = pytree.tree_flatten(((RUNTIME,) * n, {}))
    return Signature(spec, tuple(leaves))


def guess(model: nn.Module) -> Signature:
    """The signature assumed before the first batch: required arguments only, all of them values."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in inspect.signature(model.forward).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            args.append(RUNTIME)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = RUNTIME
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs))
    return Signature(spec, tuple(leaves))
