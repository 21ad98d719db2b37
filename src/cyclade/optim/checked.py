"""A guard against losses and gradients that are not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.fused import Pieces


class NotFiniteError(RuntimeError):
    """The loss, or the gradient of a block, is NaN or infinite; it was not applied."""


class Checked:
    """A sweep that refuses to go on from a loss that is not finite, before anything has moved.

    On the CPU, where looking costs little, the same holds for every block's gradient: the block
    stays, and with it the parameters finite. On a GPU it would cost a wait in every turn.
    """

    def __init__(self, sweep: Any, replays: list[Any], blame: Callable[[Any], str]) -> None:
        self._sweep, self._replays, self._blame = sweep, replays, blame
        self.get = sweep.get
        self.unused = sweep.unused
        self._first = True
        self.moved = False  # whether a block has moved, so that there is something to lose

    def set(self, j: int, u: Tensor) -> None:
        """Move block j."""
        self.moved = True
        self._sweep.set(j, u)

    @property
    def loss(self) -> Tensor:
        """The loss where the sweep began."""
        return self._sweep.loss  # type: ignore[no-any-return]

    def grad(self, j: int) -> Tensor:
        """∇^j, if the loss is finite."""
        try:
            gj: Tensor = self._sweep.grad(j)
            if self._first and not bool(torch.isfinite(self._sweep.loss)):
                raise NotFiniteError(
                    f"the loss is {float(self._sweep.loss)}{self._blame(self._sweep)}: the step "
                    "was not applied"
                )
            if not _finite(gj):
                raise NotFiniteError(
                    f"the gradient of block {j} is not finite, though the loss is: it was not "
                    + ("applied" if not self.moved else "applied; blocks before it have moved")
                )
        except BaseException:
            if not self.moved:
                for replay in reversed(self._replays):
                    replay.undo()
            raise
        self._first = False
        return gj


def _finite(gj: Tensor | Pieces) -> bool:
    """Whether a gradient is finite, as far as that can be seen without waiting for a device."""
    tensors = gj.tensors if isinstance(gj, Pieces) else [gj]
    return all(t.device.type != "cpu" or bool(torch.isfinite(t).all()) for t in tensors)
