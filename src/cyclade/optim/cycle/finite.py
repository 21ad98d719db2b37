"""A guard against losses and gradients that are not finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.cycle.in_place import Pieces


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
            if self._first and not math.isfinite(loss := float(self._sweep.loss)):
                raise NotFiniteError(
                    f"the loss is {loss}{self._blame(self._sweep)}: the step was not applied"
                )
            _require_finite(gj, j, self.moved)
        except BaseException:
            if not self.moved:
                for replay in reversed(self._replays):
                    replay.undo()
            raise
        self._first = False
        return gj


class CheckedLag:
    """The lagged point, whose gradients must be finite as well."""

    def __init__(self, lag: Any, now: Checked) -> None:
        self._lag, self._now = lag, now
        self.follow, self.trim = lag.follow, lag.trim

    def grad(self, j: int) -> Any:
        """∇^j at the lagged point."""
        gj = self._lag.grad(j)
        _require_finite(gj, j, self._now.moved)
        return gj


def _require_finite(gj: Any, j: int, moved: bool) -> None:
    """Look at a gradient, as far as that can be done without waiting for a device."""
    tensors = gj.tensors if isinstance(gj, Pieces) else [gj] if isinstance(gj, Tensor) else []
    if not tensors or not tensors[0].is_cpu or all(map(_finite, tensors)):
        return
    raise NotFiniteError(
        f"the gradient of block {j} is not finite, though the loss is: it was not applied"
        + ("; blocks before it have moved" if moved else "")
    )


def _finite(t: Tensor) -> bool:
    """Whether all of a tensor is. A finite sum says so; another one may be an overflow."""
    total = t.sum().item()
    return math.isfinite(abs(total)) or bool(torch.isfinite(t).all())
