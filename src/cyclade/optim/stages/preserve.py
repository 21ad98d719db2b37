"""Leaving a model as it was found: attributes, buffers, random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from cyclade.optim.stages import randomness
from cyclade.optim.stages.inputs import Inputs

__all__ = ["Keep", "preserved", "preserved_inputs"]

_functorch = torch._C._functorch
_COPIED = (list, dict, set)


def _refill(container: Any, content: Any) -> None:
    """Give a list, dict or set its old content back, in place."""
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)


class Keep:
    """A record of a model's Python attributes, buffer values and of the random generators."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = list(model.named_modules())
        self._attributes = [dict(module.__dict__) for _, module in self._modules]
        # The registries (_buffers, _modules, ...) are dicts among the attributes.
        self._contents = [
            {k: v.copy() for k, v in saved.items() if type(v) in _COPIED}
            for saved in self._attributes
        ]
        self._buffers = [
            (b, b.detach().clone(), version(b)) for b in model.buffers() if type(b) is Tensor
        ]
        self._rng = randomness.save(randomness.devices_of(list(model.parameters())))

    def tensors(self) -> None:
        """Restore buffers and generators, but not what Python code has stored."""
        for saved, contents in zip(self._attributes, self._contents, strict=True):
            _refill(saved["_buffers"], contents["_buffers"])
        for buffer, value, seen in self._buffers:
            # Batch norm moves its statistics without counting it as a write.
            if version(buffer) != seen or not torch.equal(buffer, value):
                with torch.no_grad():
                    buffer.copy_(value)
        randomness.restore(self._rng)

    def everything(self) -> None:
        """Restore all."""
        for (_, module), saved, contents in zip(
            self._modules, self._attributes, self._contents, strict=True
        ):
            for name, content in contents.items():
                _refill(saved[name], content)
            module.__dict__.clear()
            module.__dict__.update(saved)
        self.tensors()

    def changed(self) -> list[str]:
        """Names of the Python attributes that differ from the record."""
        names = []
        for (path, module), saved, contents in zip(
            self._modules, self._attributes, self._contents, strict=True
        ):
            for name in {**saved, **module.__dict__}:
                old, now = saved.get(name), module.__dict__.get(name)
                if old is not now or (name in contents and not _alike(contents[name], now)):
                    names.append(f"{path}.{name}" if path else name)
        return names


def _alike(a: Any, b: Any) -> bool:
    """Whether two containers hold the same objects."""
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(k in b and b[k] is v for k, v in a.items())
    if isinstance(a, list):
        return all(x is y for x, y in zip(a, b, strict=True))
    return bool(a == b)


def version(tensor: Tensor) -> int:
    """How often a tensor has been written to; inference tensors do not count."""
    return 0 if tensor.is_inference() else tensor._version


@contextmanager
def preserved_inputs(inputs: Inputs) -> Iterator[None]:
    """Call a model that may write to its inputs, and leave them as they were.

    The model gets the very tensors, since a loss may differentiate in them; those that require
    gradients cannot be written to.
    """
    leaves = pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
    own = [
        (v, v.detach().clone(), version(v))
        for v in leaves
        if isinstance(v, Tensor) and not v.requires_grad
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value, seen in own:
                if version(tensor) != seen:
                    tensor.copy_(value)


@contextmanager
def preserved(model: nn.Module) -> Iterator[Keep]:
    """Run a block of code that must leave no trace in ``model``, the generators or torch."""
    depth, dual = _functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level
    keep = Keep(model)
    try:
        yield keep
    finally:
        # A vmap or jvp that fails on symbolic values leaves its level open for every later call.
        if _functorch.get_dynamic_layer_stack_depth() > depth:
            _functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if dual < 0:  # no forward differentiation was under way
            forward_ad._current_level = dual
            with suppress(RuntimeError):
                torch._C._exit_dual_level(0)
        keep.everything()
