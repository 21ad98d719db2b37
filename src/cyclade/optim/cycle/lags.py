"""The lagged point of a net, one cycle behind in a fixed order, on a stream of its own."""

from __future__ import annotations

from typing import Any

import torch

from cyclade.blocks.lag import Lag
from cyclade.optim.net import FlatPoint


class OneCycleBehind:
    """x_{k−2,j} in a fixed order: when block j is done, its old value moves in (in place).

    With a fixed order this is exactly `blocks.lag.Lag`, in the least memory and without a tape, so
    that a CUDA graph can hold it. On CUDA its gradients run on a second stream beside those of the
    current point: they depend on the lagged point alone.
    """

    def __init__(self, point: FlatPoint, side: Any = None) -> None:
        self.point = point
        self._side = side
        self._held: list[Any] = []  # what the side stream still reads, kept from being reused
        self._sweep: Any = None

    def board(self, sweep: Any) -> None:
        self._sweep = sweep
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream())

    def grad(self, j: int) -> Any:
        if self._side is None:
            return self._sweep.grad(j)
        with torch.cuda.stream(self._side):
            gj = self._sweep.grad(j)
        torch.cuda.current_stream().wait_stream(self._side)
        self._held.append(gj)
        return gj

    def follow(self, j: int, old: Any, new: Any) -> None:
        target = self.point if self._sweep is None else self._sweep
        if self._side is None:
            target.set(j, old)
            return
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            target.set(j, old)
        self._held.append(old)

    def trim(self) -> None:
        self._sweep = None
        if self._side is not None:  # nothing is left running beside the main stream
            torch.cuda.current_stream().wait_stream(self._side)
            self._held.clear()


def tape_of(lag: Lag) -> dict[str, Any]:
    """The tape of a lag for orders that change, and where it stands; not its point."""
    lists = {"tape": list(lag.tape), "formed": list(lag.formed)}
    return {**lists, "first": lag.first, "cursor": lag.cursor}


def put_tape(lag: Lag, saved: dict[str, Any], device: torch.device) -> None:
    """Take up what `tape_of` gave."""
    lag.tape = [(j, old.to(device), new.to(device)) for j, old, new in saved["tape"]]
    lag.first, lag.cursor, lag.formed = saved["first"], saved["cursor"], list(saved["formed"])
