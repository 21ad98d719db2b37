"""What an optimizer keeps of each block from step to step, and how that is loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import LivePoint, Net


class BlockState:
    """Named places for tensors of a block, in the optimizer's `state` of its first parameter."""

    def __init__(self, net: Net, state: Any) -> None:
        self._net, self._state = net, state

    def of(self, j: int) -> dict[str, Any]:
        """All places of block j."""
        found: dict[str, Any] = self._state[self._net.block_parameters(j)[0]]
        return found

    def get(self, j: int, name: str, make: Callable[[], Any]) -> Any:
        """Block j's place `name`, made on first use."""
        places = self.of(j)
        if name not in places:
            places[name] = make()
        return places[name]

    def forget(self, j: int) -> None:
        """Let go of all that lies in block j's places."""
        self._state.pop(self._net.block_parameters(j)[0], None)

    def vectors(self, name: str, point: LivePoint) -> list[Tensor]:
        """One vector a block, made from the point on first use."""
        return [self.get(j, name, partial(point.get, j)) for j in range(self._net.m)]


def check_state(opt: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
    """What was saved beside the state that torch saves; refused unless it is of `opt` and whole."""
    own: dict[str, Any] | None = state_dict.get("cyclade")
    if own is None:
        raise ValueError(f"this is not a state_dict of {type(opt).__name__}: no 'cyclade' in it")
    if own["method"] != opt.name:
        raise ValueError(
            f"this is the state of {own['method']}, which {opt.name} cannot go on from: their "
            "estimates and counters differ. Load the model alone, and start afresh"
        )
    for number, names in own.get("held", {}).items():
        missing = set(names) - {str(place) for place in state_dict["state"].get(number, {})}
        if missing:
            raise ValueError(
                f"this state_dict is not whole: parameter {number} has lost "
                f"{', '.join(sorted(missing))}"
            )
    return own


def restore_dtypes(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """torch casts state to the dtype of a group's first parameter; take it as it was saved."""
    numbers = [i for group in saved["param_groups"] for i in group["params"]]
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for number, p in zip(numbers, params, strict=True):
        for name, value in saved["state"].get(number, {}).items():
            optimizer.state[p][name] = _on(value, p.device)


def _on(value: Any, device: torch.device) -> Any:
    """Tensors (also in lists) on `device`, in the dtype they have."""
    if isinstance(value, Tensor):
        return value.to(device=device, copy=True)
    return [_on(entry, device) for entry in value] if isinstance(value, list) else value
