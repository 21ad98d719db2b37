"""What an optimizer keeps from step to step, and how it is saved, loaded, copied and pickled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from cyclade.optim.net import Block, LivePoint, Net

if TYPE_CHECKING:
    from typing_extensions import Self

    from cyclade.optim.blocks.partitioning import Partitioning
    from cyclade.optim.cycle.schedule import EveryBatch, LargeBatches, Turns
    from cyclade.optim.runner import CycleRunner


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

    def find(self, j: int, name: str) -> Any:
        """What lies in block j's place `name`; None if nothing does."""
        return self.of(j).get(name)

    def forget(self, j: int) -> None:
        """Let go of all that lies in block j's places."""
        self._state.pop(self._net.block_parameters(j)[0], None)

    def vectors(self, name: str, point: LivePoint) -> list[Tensor]:
        """One vector a block, made from the point on first use."""
        return [self.get(j, name, partial(point.get, j)) for j in range(self._net.m)]


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


class Resumable(Optimizer):
    """An optimizer that is saved and loaded whole, copied, and pickled with its model."""

    name: ClassVar[str]
    net: Net
    partitioning: Partitioning
    _turns: Turns
    _rule: EveryBatch | LargeBatches
    _runner: CycleRunner | None

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Remember the arguments."""
        self = super().__new__(cls)
        self.__dict__["_given"] = (args, options)
        return self

    def __reduce__(self) -> Any:
        """Copied and pickled as its arguments (the model among them) and its state."""
        args, options = self.__dict__["_given"]
        options = {name: value for name, value in options.items() if name != "process_group"}
        return _built_again, (type(self), args, options, self.state_dict())

    def _arrange(self, blocks: list[Block], *, first: bool = False) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything: per-block tensors, counters, the order's generator and the tape."""
        state = super().state_dict()
        blocks: list[list[str]] | None = None
        counters: dict[str, Any] = {"draws": 0, "measured": None, "trail": {}}
        if self._runner is not None:
            blocks = [list(block.params) for block in self.net.blocks]
            counters = self._runner.state()
        held = {k: sorted(map(str, values)) for k, values in state["state"].items() if values}
        state["cyclade"] = {
            "method": self.name, "blocks": blocks, "held": held, **counters, **self._turns.state(),
            **self._rule.state(),
        }  # fmt: skip
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        mine = state_dict.get("cyclade")
        if mine is None:
            raise ValueError(
                f"this is not a state_dict of {type(self).__name__}: no 'cyclade' in it"
            )
        if mine["method"] != self.name:
            raise ValueError(
                f"this is the state of {mine['method']}, which {self.name} cannot go on from: "
                "their estimates and counters differ. Load the model alone, and start afresh"
            )
        for number, names in mine.get("held", {}).items():
            missing = set(names) - {str(name) for name in state_dict["state"].get(number, {})}
            if missing:
                raise ValueError(
                    f"this state_dict is not whole: parameter {number} has lost "
                    f"{', '.join(sorted(missing))}"
                )
        super().load_state_dict({k: state_dict[k] for k in ("state", "param_groups")})
        for group in self.param_groups:  # older states do not know it
            group.setdefault("adagrad_norm", None)
        restore_dtypes(self, state_dict)
        self._turns.load(mine)
        self._rule.load(mine)
        blocks = self.net.blocks  # where the state is from before the first batch
        if mine["blocks"] is not None:
            blocks = self.partitioning.saved(self.net.chain, mine["blocks"])
        elif self._runner is None:
            return
        self._arrange(blocks)
        assert self._runner is not None
        self._runner.load(mine)


def _built_again(cls: type[Resumable], args: Any, options: Any, state: dict[str, Any]) -> Resumable:
    optimizer: Resumable = cls(*args, **options)
    optimizer.load_state_dict(state)
    return optimizer
