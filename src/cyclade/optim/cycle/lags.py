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
        """Take gradients from this sweep over `point`."""
        self._sweep = sweep
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream())

    def grad(self, j: int) -> Any:
        """∇^j at the lagged point."""
        if self._side is None:
            return self._sweep.grad(j)
        with torch.cuda.stream(self._side):
            gj = self._sweep.grad(j)
        torch.cuda.current_stream().wait_stream(self._side)
        self._held.append(gj)
        return gj

    def follow(self, j: int, old: Any, new: Any) -> None:
        """Block j of the lagged point becomes `old`."""
        target = self.point if self._sweep is None else self._sweep
        if self._side is None:
            target.set(j, old)
            return
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            target.set(j, old)
        self._held.append(old)

    def trim(self) -> None:
        """Let go of the batch; nothing is left running beside the main stream."""
        self._sweep = None
        if self._side is not None:
            torch.cuda.current_stream().wait_stream(self._side)
            self._held.clear()


class Rewound:
    """`blocks.lag.Lag` for orders that change: a tape with a cursor, over the state's tensors."""

    def __init__(self, lag: Lag, point: FlatPoint) -> None:
        lag.point = lag._at = point
        self.lag, self.point = lag, point
        self.follow, self.grad, self.trim = lag.follow, lag.grad, lag.trim

    def board(self, sweep: Any) -> None:
        """Take gradients from this sweep over the lag's point."""
        self.lag._at = sweep

    def memory(self) -> dict[str, Any]:
        """The tape and where it stands; the point itself is in the optimizer's state."""
        lag = self.lag
        return {
            "tape": list(lag.tape), "first": lag.first, "cursor": lag.cursor,
            "formed": list(lag.formed),
        }  # fmt: skip

    def recall(self, memory: dict[str, Any]) -> None:
        """Take up what `memory` gave."""
        lag, device = self.lag, self.point.flats[0].device
        lag.tape = [(j, old.to(device), new.to(device)) for j, old, new in memory["tape"]]
        lag.first, lag.cursor = memory["first"], memory["cursor"]
        lag.formed = list(memory["formed"])
