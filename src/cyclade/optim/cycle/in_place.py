"""The plain update of a block where it lies: step and weight decay.

The arithmetic that `core.cycle` asks for in line 7 of a method without estimates,

    x ← (x − η g) / (1 + η wd)      (with g scaled down first where it is clipped)

need not copy a block into one vector and back. The objects below stand in for its vectors: they
note what is to be done, and `Update.commit` does it, by one call of torch for each sign. The
roundings are those of the operations on vectors, so that both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_EXACT = (torch.float32, torch.float64)


class Pieces:
    """A gradient of a block as autograd gives it: one tensor a parameter."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)
        self.scale: Tensor | None = None  # by which a gradient that is clipped is multiplied


class Step:
    """η and 1 + η·wd of a block (None for 1)."""

    def __init__(self, rate: Any, shrink: Any) -> None:
        self.rate, self.shrink = rate, shrink

    def __mul__(self, direction: Pieces) -> tuple[Step, Pieces]:
        return self, direction


class LiveBlock:
    """The parameters of a block where they lie."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)

    def __sub__(self, move: tuple[Step, Pieces]) -> Update:
        return Update(self.params, *move)


class Update:
    """The new value of a block. `commit` writes it."""

    def __init__(self, params: list[Tensor], step: Step, direction: Pieces) -> None:
        self._params, self._step, self._direction = params, step, direction

    def commit(self) -> None:
        """Move the parameters."""
        now, step = self._direction.tensors, self._step
        if self._direction.scale is not None:
            now = list(torch._foreach_mul(now, self._direction.scale))
        torch._foreach_sub_(self._params, torch._foreach_mul(now, step.rate))
        if step.shrink is not None:
            torch._foreach_div_(self._params, step.shrink)


def fits(tensors: Sequence[Tensor | None], like: Sequence[Tensor]) -> bool:
    """Whether gradients can be left in pieces: all there, dense and of the parameters' dtype."""
    return all(
        g is not None
        and g.layout == torch.strided
        and g.is_contiguous()
        and p.is_contiguous()
        and g.dtype == p.dtype
        and p.dtype in _EXACT
        for g, p in zip(tensors, like, strict=True)
    )
