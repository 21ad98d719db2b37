"""A guard against losses that are not finite."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class NotFiniteError(RuntimeError):
    """The loss is NaN or infinite; the step was not applied."""


class Checked:
    """A sweep that refuses to go on from a loss that is not finite, before anything has moved."""

    def __init__(self, sweep: Any, replays: list[Any]) -> None:
        self._sweep, self._replays = sweep, replays
        self.get, self.set = sweep.get, sweep.set
        self._first = True

    @property
    def loss(self) -> Tensor:
        """The loss where the sweep began."""
        return self._sweep.loss  # type: ignore[no-any-return]

    def grad(self, j: int) -> Tensor:
        """∇^j, if the loss is finite."""
        gj: Tensor = self._sweep.grad(j)
        if self._first:
            self._first = False
            if not bool(torch.isfinite(self._sweep.loss)):
                for replay in self._replays:
                    replay.undo()
                raise NotFiniteError(
                    f"the loss is {float(self._sweep.loss)}: the step was not applied"
                )
        return gj
