"""Numbers that a CUDA graph reads: lr and weight decay, kept on the device and in step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NAMES = ("lr", "weight_decay", "shrink")


class DeviceNumbers:
    """lr, weight decay and 1 + lr·wd of every block in one tensor, sent when one has changed."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.groups = groups
        like = groups[0]["params"][0]
        self._rows = like.new_zeros(len(NAMES), len(groups))
        self._sent: list[float] | None = None
        self._read: dict[str, tuple[Tensor, ...]] = {
            name: row.unbind() for name, row in zip(NAMES, self._rows.unbind(), strict=True)
        }

    def get(self, name: str, j: int) -> Tensor:
        """Number `name` of block j."""
        return self._read[name][j]

    def sync(self) -> None:
        """Bring over what changed in the param groups."""
        values = [_number(group, name) for name in NAMES for group in self.groups]
        if any(isinstance(value, Tensor) for value in values):
            for place, value in zip(self._rows.view(-1), values, strict=True):
                place.copy_(value) if isinstance(value, Tensor) else place.fill_(value)
        elif values != self._sent:
            sent = torch.tensor(values, dtype=self._rows.dtype).view_as(self._rows)
            self._rows.copy_(sent, non_blocking=True)
            self._sent = values


def _number(group: dict[str, Any], name: str) -> Any:
    """A number of a param group: its lr, its weight decay, or what the decay divides by."""
    return 1.0 + group["lr"] * group["weight_decay"] if name == "shrink" else group[name]
