"""Many steps from few launches, on data that lies on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cyclade.optim.batches import as_batches
from cyclade.optim.capture import Recorder
from cyclade.optim.cyclic import CyclicOptimizer
from cyclade.optim.device_numbers import DeviceNumbers
from cyclade.optim.sweep import exact_autocast

_LAP = 8  # small steps in one launch
_SMALL = 128  # samples; a step on more of them outlasts its own launch

Kind = tuple[int, bool, tuple[int, ...]]
"""The batch size of a step, whether it refreshes g, and the blocks it moves, in order."""


class Laps:
    """``optimizer.step(inputs[i], targets[i], refresh=r)`` for a list of steps, launched in laps.

    A step on b' = 22 samples takes the GPU less time than the host needs to send a batch and a
    learning rate and to launch it. Here the indices and rates of many steps go to the device at
    once, and one graph makes several steps: it gathers their samples, reads their rates and notes
    their losses, at counters that lie on the device. The arithmetic is that of `step`. The order of
    the blocks must be fixed, and nothing is checked on the way: a loss that is not finite shows in
    the losses returned.

    Where the parameters are not on CUDA the same laps run eagerly.
    """

    def __init__(self, optimizer: CyclicOptimizer, inputs: Tensor, targets: Tensor) -> None:
        measured = any(g["precondition"] == "curvature" for g in optimizer.param_groups)
        if not optimizer._fixed or measured or optimizer.net.loss_fn is None:
            raise ValueError(
                "laps need an order that stays (forward, backward or a list), a loss_fn, and no "
                "precondition='curvature', which is measured between steps"
            )
        self._optimizer, self._inputs, self._targets = optimizer, inputs, targets
        self._numbers: DeviceNumbers | None = None
        self._recorder = Recorder() if optimizer._graphs is not None else None
        self._indices = self._table = self._losses = inputs.new_empty(0)
        # Where the next lap begins: in the indices, and in the steps.
        self._at = torch.zeros(1, dtype=torch.int64, device=inputs.device)
        self._step = torch.zeros(1, dtype=torch.int64, device=inputs.device)
        self._counting: dict[int, Tensor] = {}
        self._seen: dict[Kind, int] = {}
        with torch.no_grad(), exact_autocast():
            optimizer._look_once(as_batches(inputs[:2], targets[:2]))

    @torch.no_grad()
    def run(
        self, indices: Tensor, sizes: Sequence[int], refresh: Sequence[bool], rates: list[float]
    ) -> Tensor:
        """The steps on `sizes` samples each, whose indices follow one another; their losses."""
        optimizer = self._optimizer
        numbers = self._follow()
        with exact_autocast():
            self._prepare(indices, numbers.table(rates))
            kinds = []
            for size, again in zip(sizes, refresh, strict=True):
                again = optimizer._refreshes(size, again)
                kinds.append((size, again, tuple(optimizer._turns() or ())))
                optimizer._finish_cycle()
                optimizer.draws += 1
            for lap in self._cut(kinds):
                self._launch(lap)
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        return self._losses[: len(sizes)].clone()

    def _follow(self) -> DeviceNumbers:
        """The optimizer's numbers; where it has loaded other state, the graphs are out of date."""
        optimizer = self._optimizer
        if optimizer._numbers is None:
            optimizer._numbers = DeviceNumbers(optimizer.param_groups)
        if self._numbers is not optimizer._numbers and self._recorder is not None:
            self._recorder.clear()
        self._numbers = optimizer._numbers
        return self._numbers

    def _prepare(self, indices: Tensor, table: Tensor) -> None:
        """Send everything that the graphs read to where they read it."""
        device = self._inputs.device
        if len(indices) > len(self._indices) or len(table) > len(self._table):
            # Room to spare: the number of samples in an epoch of coins varies, and new room
            # means that every graph is captured again.
            self._indices = torch.empty(len(indices) * 5 // 4 + 1, dtype=torch.int64, device=device)
            self._table = table.new_empty((len(table), *table.shape[1:]), device=device)
            self._losses = table.new_empty(len(table), device=device)
            if self._recorder is not None:
                self._recorder.clear()
        self._indices[: len(indices)].copy_(indices)
        self._table[: len(table)].copy_(table)
        self._at.zero_()
        self._step.zero_()

    def _cut(self, kinds: list[Kind]) -> Iterator[tuple[Kind, ...]]:
        """Steps in laps: several small ones of one kind (or a round of the blocks), else one."""
        i = 0
        while i < len(kinds):
            length = self._length(kinds[i])
            lap = tuple(kinds[i : i + length])
            alike = len(lap) == length and all(kind[:2] == lap[0][:2] for kind in lap)
            if not alike or any(self._seen.get(kind, 0) < Recorder.WARMUP for kind in lap):
                lap = lap[:1]
            for kind in lap:
                self._seen[kind] = self._seen.get(kind, 0) + 1
            yield lap
            i += len(lap)

    def _length(self, kind: Kind) -> int:
        """The steps of a lap that begins with this one; with VR-CCD, all blocks from the first."""
        size, _, turns = kind
        if size > _SMALL:
            return 1
        every = self._optimizer._round()
        if len(every) == len(turns):
            return _LAP
        return len(every) if turns[0] == every[0] else 1

    def _launch(self, lap: tuple[Kind, ...]) -> None:
        # Made before a graph is recorded, since later graphs read them too.
        self._counting_to(lap[0][0] * len(lap))
        self._counting_to(len(lap))
        recorder = self._recorder
        if recorder is None:
            self._make(lap)
        elif len(lap) == 1 and not recorder.warm(lap):
            recorder.eagerly(lap, lambda: self._make(lap))
        else:
            recorder.replay(lap, lambda: self._make(lap))

    def _make(self, lap: tuple[Kind, ...]) -> None:
        """These steps, from samples to losses: what a graph holds."""
        optimizer, size = self._optimizer, lap[0][0]
        assert self._numbers is not None
        places = self._at + self._counting_to(size * len(lap))
        chosen = self._indices.index_select(0, places)
        inputs = torch.split(self._inputs.index_select(0, chosen), size)
        targets = torch.split(self._targets.index_select(0, chosen), size)
        steps = self._step + self._counting_to(len(lap))
        rows = self._table.index_select(0, steps)
        losses = []
        for one, target, numbers, (_, refresh, turns) in zip(
            inputs, targets, rows.unbind(), lap, strict=True
        ):
            batches = as_batches(one, target)
            with self._numbers.reading(numbers):
                losses.append(optimizer._run(list(turns), batches, refresh, check=False))
        self._losses.index_copy_(0, steps, torch.stack(losses).to(self._losses.dtype))
        self._at.add_(size * len(lap))
        self._step.add_(len(lap))

    def _counting_to(self, length: int) -> Tensor:
        """0 … length − 1."""
        if length not in self._counting:
            self._counting[length] = torch.arange(length, device=self._inputs.device)
        return self._counting[length]
