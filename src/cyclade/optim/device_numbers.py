"""Numbers that a CUDA graph reads: lr and weight decay, kept on the device and in step."""

from __future__ import annotations

from typing import Any

from torch import Tensor

NAMES = ("lr", "weight_decay", "shrink")


class DeviceNumbers:
    """The lr, the weight decay, and 1 + lr·wd of every block, as tensors that keep their place."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.groups = groups
        self._numbers: dict[tuple[str, int], Tensor] = {}
        self._last: dict[tuple[str, int], float] = {}

    def get(self, name: str, j: int) -> Tensor:
        """Number `name` of block j."""
        key = (name, j)
        if key not in self._numbers:
            like = self.groups[j]["params"][0]
            self._numbers[key] = like.new_full((), float(_number(self.groups[j], name)))
        return self._numbers[key]

    def sync(self) -> None:
        """Bring over what changed in the param groups."""
        for j, group in enumerate(self.groups):
            for name in NAMES:
                value = _number(group, name)
                if isinstance(value, Tensor):
                    self.get(name, j).copy_(value)
                elif self._last.get((name, j)) != value:
                    self._last[(name, j)] = value
                    self.get(name, j).fill_(value)


def _number(group: dict[str, Any], name: str) -> Any:
    """A number of a param group: its lr, its weight decay, or what the decay divides by."""
    return 1.0 + group["lr"] * group["weight_decay"] if name == "shrink" else group[name]
