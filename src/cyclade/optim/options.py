"""Options of every block: what its param groups say.

A param group is a layer, or a block that the user has named; a block is one group or several that
lie beside each other. So groups stay as they are, which schedulers rely on, when blocks are chosen
on the first batch. Within a block lr and weight decay may differ from group to group; everything
else must be the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cyclade.optim.net import Net

if TYPE_CHECKING:
    from cyclade.optim.capture.device_numbers import DeviceNumbers


PRECONDITIONERS = (None, "spectral", "spectral-linear", "curvature", "adam")
SPECTRAL = {"spectral": (2, 3, 4, 5), "spectral-linear": (2,)}
"""Preconditioners by spectral norms, with the dimensions of the weights that they look at."""


class GroupOptions:
    """lr, weight decay and the rest of every block's param groups.

    With `numbers` (under capture) lr and weight decay are read from the device.
    """

    def __init__(
        self, net: Net, groups: list[dict[str, Any]], no_decay: Collection[str] = ()
    ) -> None:
        self._net, self.groups = net, groups
        self._spared = {}  # by block: 0 on the coordinates that never decay, 1 elsewhere
        for j, block in enumerate(net.blocks):
            decays = [name not in no_decay for name in block.params]
            if not all(decays):
                pieces = zip(net.block_parameters(j), decays, strict=True)
                self._spared[j] = torch.cat(
                    [p.detach().new_full((p.numel(),), float(yes)) for p, yes in pieces]
                )
        self.mixed = [j for j, block in enumerate(net.blocks) if len(block.groups) > 1]
        self.numbers: DeviceNumbers | None = None

    @property
    def sign(self) -> float:
        """−1 to maximise."""
        return -1.0 if self.groups[0]["maximize"] else 1.0

    @property
    def moments(self) -> bool:
        """Whether any block has momentum or Adam's steps."""
        return any(group["momentum"] or group["precondition"] == "adam" for group in self.groups)

    def shared(self, j: int, name: str) -> Any:
        """The option `name`, which all groups of block j must have in common."""
        groups = self._net.blocks[j].groups
        first = groups[0]
        value = self.groups[first][name]
        if len(groups) == 1:
            return value
        for other in groups[1:]:
            if self.groups[other][name] != value:
                raise ValueError(
                    f"the param groups {self.groups[first]['name']!r} and "
                    f"{self.groups[other]['name']!r} are one block ({self._net.blocks[j].name}) "
                    f"but have different {name}: only lr and weight_decay may differ in a block"
                )
        return value

    def uniform(self, j: int, name: str) -> bool:
        """Whether all groups of block j have the same lr or weight decay."""
        groups = self._net.blocks[j].groups
        if len(groups) == 1:
            return True
        first, *others = groups
        return all(_equal(self.groups[first][name], self.groups[i][name]) for i in others)

    def one_number(self, j: int) -> bool:
        """Whether all of block j has the same lr and the same weight decay."""
        alike = all(self.uniform(j, name) for name in ("lr", "weight_decay"))
        return alike and j not in self._spared

    def rate(self, j: int) -> Any:
        """The lr of block j: a number, or one for each of its coordinates."""
        return self._of_block(j, "lr")

    def decay(self, j: int) -> Any:
        """The weight decay of block j; None when there is none at all."""
        groups = [self.groups[i] for i in self._net.blocks[j].groups]
        if self.numbers is None and not any(group["weight_decay"] > 0.0 for group in groups):
            return None
        decay = self._of_block(j, "weight_decay")
        return decay if j not in self._spared else decay * self._spared[j]

    def shrink(self, j: int, t: Any, used: Tensor | None = None) -> Any:
        """1 + t·wd, by which the prox of (wd/2)‖x‖² divides; None without weight decay.

        Where `used` is 0 nothing decays.
        """
        decay = self.decay(j)
        if decay is None:
            return None
        block = self._net.blocks[j]
        if self.numbers is not None and used is None and len(block.groups) == 1:
            known = self.numbers.get("lr", block.groups[0])
            if t is known and j not in self._spared:  # without Λ_j it is known on the host
                return self.numbers.get("shrink", block.groups[0])
        return 1.0 + t * (decay if used is None else decay * used)

    def _of_block(self, j: int, name: str) -> Any:
        groups = self._net.blocks[j].groups
        values = [self._value(i, name) for i in groups]
        if len(values) == 1 or self.uniform(j, name):
            return values[0]
        like = self._net.block_parameters(j)[0]
        sizes = [sum(p.numel() for p in self.groups[i]["params"]) for i in groups]
        return torch.cat(
            [
                torch.as_tensor(value, dtype=like.dtype, device=like.device).reshape(1).expand(size)
                for value, size in zip(values, sizes, strict=True)
            ]
        )

    def _value(self, i: int, name: str) -> Any:
        return self.groups[i][name] if self.numbers is None else self.numbers.get(name, i)


def _equal(a: Any, b: Any) -> bool:
    # Tensors may lie on a device, and are not read back: they count as different.
    return a is b if isinstance(a, Tensor) or isinstance(b, Tensor) else bool(a == b)
