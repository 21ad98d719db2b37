"""What the param groups say of each block, read before every step."""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.capture.device_numbers import DeviceNumbers
from cyclade.optim.net import Net

PRECONDITIONERS = (None, "spectral", "spectral-linear", "curvature", "adam")
SPECTRAL = {"spectral": (2, 3, 4, 5), "spectral-linear": (2,)}
"""Preconditioners by spectral norms, with the dimensions of the weights that they look at."""

_SHARED = (
    "momentum", "nesterov", "clip_norm", "clip_total_norm", "adagrad_norm", "precondition",
    "damping", "betas", "eps",
)  # fmt: skip
baked_in = itemgetter(*_SHARED)
"""Options that a CUDA graph bakes in; lr and weight decay it reads from the device."""


class GroupOptions:
    """What all groups of a block share, in `blocks`; and lr and weight decay, which may differ.

    `refresh` reads the groups before a step. Under capture `numbers` has the two on the device.
    """

    def __init__(
        self, net: Net, groups: list[dict[str, Any]], no_decay: Collection[str] = ()
    ) -> None:
        self._net, self.groups = net, groups
        self._spared = {  # by block: 0 on the coordinates that never decay, 1 elsewhere
            j: net.spread(j, [float(name not in no_decay) for name in block.params])
            for j, block in enumerate(net.blocks)
            if any(name in no_decay for name in block.params)
        }
        self.numbers: DeviceNumbers | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the param groups."""
        self.sign = -1.0 if self.groups[0]["maximize"] else 1.0  # −1 to maximise
        self.blocks = [self._shared(j) for j in range(self._net.m)]
        self.moments = any(own["momentum"] or own["precondition"] == "adam" for own in self.blocks)
        self.curved = any(own["precondition"] == "curvature" for own in self.blocks)

    def _of(self, j: int) -> list[dict[str, Any]]:
        return [self.groups[i] for i in self._net.blocks[j].groups]

    def _shared(self, j: int) -> dict[str, Any]:
        first, *others = self._of(j)
        for other in others:
            for name in _SHARED:
                if other[name] != first[name]:
                    raise ValueError(
                        f"the param groups {first['name']!r} and {other['name']!r} are one block "
                        f"({self._net.blocks[j].name}) but have different {name}: only lr and "
                        "weight_decay may differ in a block"
                    )
        return first

    def plain(self, j: int) -> bool:
        """Whether the step is two numbers, along g^j or g^j clipped by its own norm."""
        own = self.blocks[j]
        bent = own["precondition"] or own["momentum"] or own["clip_total_norm"] is not None
        numbers = isinstance(self.rate(j), float) and not isinstance(self.decay(j), Tensor)
        wide = all(p.dtype in (torch.float32, torch.float64) for p in self._net.block_parameters(j))
        return numbers and wide and not bent

    def uniform(self, j: int, name: str) -> bool:
        """Whether all groups of block j have the same lr or weight decay."""
        first, *others = self._of(j)
        return all(_equal(first[name], other[name]) for other in others)

    def rate(self, j: int) -> Any:
        """The lr of block j: a number, or one for each of its coordinates."""
        return self._joined(j, "lr")

    def decay(self, j: int) -> Any:
        """The weight decay of block j; None when there is none at all."""
        if self.numbers is None and not any(group["weight_decay"] > 0.0 for group in self._of(j)):
            return None
        decay = self._joined(j, "weight_decay")
        return decay if j not in self._spared else decay * self._spared[j]

    def shrink(self, j: int, t: Any, used: Tensor | None = None) -> Any:
        """1 + t·wd, by which the prox of weight decay divides where `used`; None without."""
        decay = self.decay(j)
        if decay is None:
            return None
        block = self._net.blocks[j]
        if self.numbers is not None and used is None and len(block.groups) == 1:
            known = self.numbers.get("lr", block.groups[0])
            if t is known and j not in self._spared:  # without Λ_j it is known on the host
                return self.numbers.get("shrink", block.groups[0])
        return 1.0 + t * (decay if used is None else decay * used)

    def _joined(self, j: int, name: str) -> Any:
        """The lr or weight decay of block j: one value, or a vector where its groups differ."""
        groups = self._net.blocks[j].groups
        read = self.numbers
        values = [self.groups[i][name] if read is None else read.get(name, i) for i in groups]
        if len(values) == 1 or self.uniform(j, name):
            return values[0]
        pairs = zip(self._of(j), values, strict=True)
        return self._net.spread(j, [value for group, value in pairs for _ in group["params"]])


def _equal(a: Any, b: Any) -> bool:
    # Tensors may lie on a device, and are not read back: they count as different.
    return a is b if isinstance(a, Tensor) or isinstance(b, Tensor) else bool(a == b)
