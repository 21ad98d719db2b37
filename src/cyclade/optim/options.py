"""Options of every block: what its param groups say.

A param group is a layer, or a block that the user has named; a block is one group or several that
lie beside each other. So groups stay as they are, which schedulers rely on, when blocks are chosen
on the first batch. Within a block lr and weight decay may differ from group to group; everything
else must be the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cyclade.optim.net import Net

if TYPE_CHECKING:
    from cyclade.optim.capture.device_numbers import DeviceNumbers


PRECONDITIONERS = (None, "spectral", "spectral-linear", "curvature", "adam")
SPECTRAL = {"spectral": (2, 3, 4, 5), "spectral-linear": (2,)}
"""Preconditioners by spectral norms, with the dimensions of the weights that they look at."""

_COMMON = (
    "momentum", "nesterov", "clip_norm", "clip_total_norm", "adagrad_norm", "precondition",
    "damping", "betas", "eps",
)  # fmt: skip
baked_in = itemgetter(*_COMMON)
"""Options that a CUDA graph bakes in; lr and weight decay it reads from the device."""

_watched = itemgetter("lr", "weight_decay", "maximize", *_COMMON)


@dataclass
class BlockOptions:
    """What the param groups of a block say; rate and decay are vectors where groups differ."""

    rate: Any
    decay: Any  # None when there is none at all
    momentum: float
    nesterov: bool
    clip_norm: float | None
    clip_total_norm: float | None
    adagrad_norm: float | None
    precondition: str | None
    damping: float
    betas: tuple[float, float]
    eps: float

    @property
    def plain(self) -> bool:
        """Whether the step is two numbers, along g^j or g^j clipped by its own norm."""
        bent = self.precondition or self.momentum or self.clip_total_norm is not None
        numbers = isinstance(self.rate, float) and not isinstance(self.decay, Tensor)
        return numbers and not bent


class GroupOptions:
    """lr, weight decay and the rest of every block's param groups.

    `refresh` reads the groups at the start of a step, and `blocks` holds what they said. With
    `numbers` (under capture) lr and weight decay are read from the device instead.
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
        self._narrow = {
            j for j in range(net.m) for p in net.block_parameters(j)
            if p.dtype not in (torch.float32, torch.float64)
        }  # fmt: skip
        self.mixed = [j for j, block in enumerate(net.blocks) if len(block.groups) > 1]
        self.numbers: DeviceNumbers | None = None
        self._seen: list[Any] = []
        self.refresh()

    def refresh(self) -> None:
        """Read the param groups, where one of them says something else than at the last time."""
        now: list[Any] = []
        for group in self.groups:
            now += _watched(group)
        if len(now) == len(self._seen) and all(map(is_, now, self._seen)):
            return
        self.sign = -1.0 if self.groups[0]["maximize"] else 1.0  # −1 to maximise
        self.blocks = [self._read(j) for j in range(self._net.m)]
        self.moments = any(own.momentum or own.precondition == "adam" for own in self.blocks)
        self.curved = any(own.precondition == "curvature" for own in self.blocks)
        self.plain = frozenset(
            j for j, own in enumerate(self.blocks) if own.plain and j not in self._narrow
        )
        # A tensor may change where it lies.
        self._seen = [] if any(isinstance(value, Tensor) for value in now) else now

    def _read(self, j: int) -> BlockOptions:
        block = self._net.blocks[j]
        first, *others = groups = [self.groups[i] for i in block.groups]
        for name in _COMMON:
            if any(other[name] != first[name] for other in others):
                other = next(other for other in others if other[name] != first[name])
                raise ValueError(
                    f"the param groups {first['name']!r} and {other['name']!r} are one block "
                    f"({block.name}) but have different {name}: only lr and weight_decay may "
                    "differ in a block"
                )
        decay = None
        if any(group["weight_decay"] > 0.0 for group in groups):
            decay = self._decay(j)
        return BlockOptions(self._joined(j, "lr"), decay, *baked_in(first))

    def uniform(self, j: int, name: str) -> bool:
        """Whether all groups of block j have the same lr or weight decay."""
        first, *others = self._net.blocks[j].groups
        return all(_equal(self.groups[first][name], self.groups[i][name]) for i in others)

    def rate(self, j: int) -> Any:
        """The lr of block j: a number, or one for each of its coordinates."""
        return self.blocks[j].rate if self.numbers is None else self._joined(j, "lr")

    def decay(self, j: int) -> Any:
        """The weight decay of block j; None when there is none at all."""
        return self.blocks[j].decay if self.numbers is None else self._decay(j)

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

    def _decay(self, j: int) -> Any:
        decay = self._joined(j, "weight_decay")
        return decay if j not in self._spared else decay * self._spared[j]

    def _joined(self, j: int, name: str) -> Any:
        """The lr or weight decay of block j: one value, or a vector where its groups differ."""
        groups = self._net.blocks[j].groups
        read = self.numbers
        values = [self.groups[i][name] if read is None else read.get(name, i) for i in groups]
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


def _equal(a: Any, b: Any) -> bool:
    # Tensors may lie on a device, and are not read back: they count as different.
    return a is b if isinstance(a, Tensor) or isinstance(b, Tensor) else bool(a == b)
