"""Which stages draw random numbers, and how their draws are repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

__all__ = ["MAYBE", "NO", "YES", "RngState", "devices_of", "module_randomness", "repeated", "save"]

NO, MAYBE, YES = 0, 1, 2
RngState = dict[torch.device | str, Any]

_DROPOUT = (nn.modules.dropout._DropoutNd,)
_INNER_DROPOUT = (nn.MultiheadAttention, nn.RNNBase)
_ALWAYS = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def _own(module: nn.Module) -> int:
    """Randomness of a module's own forward, its children left out."""
    if isinstance(module, _ALWAYS):
        return YES
    if not module.training:
        return NO
    if isinstance(module, _DROPOUT):
        return YES if module.p > 0 else NO
    if isinstance(module, _INNER_DROPOUT):
        return YES if module.dropout > 0 else NO
    if isinstance(module, nn.RReLU):
        return YES
    if type(module).__module__.startswith(("torch.nn.", "torch.ao.nn.")):
        return NO
    # Python code we cannot look into: it may draw, unless its author says that it does not.
    return NO if getattr(module, "draws_random_numbers", True) is False else MAYBE


def module_randomness(module: nn.Module) -> int:
    """NO, MAYBE or YES: does a call of ``module`` draw random numbers, in its present mode?"""
    return max(_own(m) for m in module.modules())


def devices_of(*values: Any) -> set[torch.device]:
    """The accelerator devices of the tensors among (nested) values."""
    leaves = pytree.tree_leaves(values)
    return {v.device for v in leaves if isinstance(v, Tensor) and v.device.type not in _HOST}


_HOST = ("cpu", "meta")


def save(devices: set[torch.device]) -> RngState:
    """The state of Python's, NumPy's and torch's generators on the host, and of ``devices``."""
    state: RngState = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        torch.device("cpu"): torch.get_rng_state(),
    }
    for device in devices:
        state[device] = torch.get_device_module(device).get_rng_state(device)
    return state


def restore(state: RngState) -> None:
    """Put the generators back where they were."""
    for device, value in state.items():
        if device == "python":
            random.setstate(value)
        elif device == "numpy":
            np.random.set_state(value)  # noqa: NPY002
        elif torch.device(device).type == "cpu":
            torch.set_rng_state(value)
        else:
            torch.get_device_module(device).set_rng_state(value, device)


def same(a: RngState, b: RngState) -> bool:
    """Whether no generator has moved between two states."""
    return all(_equal(a[device], b[device]) for device in a)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    return all(bool(np.all(x == y)) for x, y in zip(a, b, strict=True))


def accelerators(state: RngState) -> set[torch.device]:
    """The devices, beside the host, whose generators are in a state."""
    return {d for d in state if isinstance(d, torch.device) and d.type != "cpu"}


@contextmanager
def repeated(state: RngState) -> Iterator[None]:
    """Draw again from ``state``; afterwards the generators stand where they stood before."""
    now = save(accelerators(state))
    restore(state)
    try:
        yield
    finally:
        restore(now)
