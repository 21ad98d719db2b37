"""Many steps from few launches, on data that lies on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cyclade.optim.batches import as_batches
from cyclade.optim.capture.device_numbers import DeviceNumbers
from cyclade.optim.capture.graphs import Recorder
from cyclade.optim.cycle.sweep import exact_autocast
from cyclade.optim.optimizer import CyclicOptimizer

_TOGETHER = 8  # small steps in one launch
_SMALL = 128  # samples; a step on more of them outlasts its own launch

Kind = tuple[int, bool, tuple[int, ...]]
"""The batch size of a step, whether it refreshes g, and the blocks it moves, in order."""


class MultiStep:
    """``optimizer.step(inputs[i], targets[i], refresh=r)`` for a list of steps, several a launch.

    A step on b' = 22 samples takes the GPU less time than the host needs to send a batch and a
    learning rate and to launch it. Here the indices and rates of many steps go to the device at
    once, and one graph makes several steps: it gathers their samples, reads their rates and notes
    their losses, at counters that lie on the device. The arithmetic is that of `step`. The order of
    the blocks must be fixed, and nothing is checked on the way: a loss that is not finite shows in
    the losses returned.

    Where the parameters are not on CUDA the same steps run eagerly.
    """

    def __init__(self, optimizer: CyclicOptimizer, inputs: Tensor, targets: Tensor) -> None:
        measured = any(g["precondition"] == "curvature" for g in optimizer.param_groups)
        if not optimizer.fixed_order or measured or optimizer.net.loss_fn is None:
            raise ValueError(
                "several steps at once need an order that stays (forward, backward or a list), a "
                "loss_fn, and no precondition='curvature', which is measured between steps"
            )
        if optimizer.runs_on > 1:
            raise ValueError("several steps at once run in one process, not on several ranks")
        with torch.no_grad(), exact_autocast():
            optimizer.prepare(as_batches(inputs[:2], targets[:2], optimizer.net.loss_fn))
        self._optimizer, self._inputs, self._targets = optimizer, inputs, targets
        self._numbers: DeviceNumbers | None = None
        self._recorder = Recorder() if optimizer.runner.graphs is not None else None
        self._indices = self._table = self._losses = inputs.new_empty(0)
        # Where the next launch begins: in the indices, and in the steps.
        self._at = torch.zeros(1, dtype=torch.int64, device=inputs.device)
        self._step = torch.zeros(1, dtype=torch.int64, device=inputs.device)
        self._counting: dict[int, Tensor] = {}
        self._seen: dict[Kind, int] = {}

    @torch.no_grad()
    def run(
        self, indices: Tensor, sizes: Sequence[int], refresh: Sequence[bool], rates: list[float]
    ) -> Tensor:
        """The steps on `sizes` samples each, whose indices follow one another; their losses."""
        runner = self._optimizer.runner
        numbers = self._follow()
        with exact_autocast():
            self._prepare(indices, numbers.table(rates))
            kinds = []
            for size, again in zip(sizes, refresh, strict=True):
                again = runner.rule.refreshes(size, again)
                kinds.append((size, again, tuple(runner.turns.next() or ())))
                runner.turns.done()
                runner.draws += 1
            for together in self._cut(kinds):
                self._launch(together)
        for group in self._optimizer.param_groups:
            group["lr"] = rates[-1]
        return self._losses[: len(sizes)].clone()

    def _follow(self) -> DeviceNumbers:
        """The optimizer's numbers; where it has loaded other state, the graphs are out of date."""
        options = self._optimizer.runner.options
        options.refresh()
        if options.numbers is None:
            options.numbers = DeviceNumbers(options.groups)
        if self._numbers is not options.numbers and self._recorder is not None:
            self._recorder.clear()
        self._numbers = options.numbers
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
        """What goes in one launch: several small steps of one kind (or a round of the blocks)."""
        i = 0
        while i < len(kinds):
            length = self._length(kinds[i])
            steps = tuple(kinds[i : i + length])
            alike = len(steps) == length and all(kind[:2] == steps[0][:2] for kind in steps)
            if not alike or any(self._seen.get(kind, 0) < Recorder.WARMUP for kind in steps):
                steps = steps[:1]
            for kind in steps:
                self._seen[kind] = self._seen.get(kind, 0) + 1
            yield steps
            i += len(steps)

    def _length(self, kind: Kind) -> int:
        """The steps launched with this one; with VR-CCD, all blocks from the first."""
        size, _, turns = kind
        if size > _SMALL:
            return 1
        every = self._optimizer.runner.turns.whole()
        if len(every) == len(turns):
            return _TOGETHER
        return len(every) if turns[0] == every[0] else 1

    def _launch(self, steps: tuple[Kind, ...]) -> None:
        # Made before a graph is recorded, since later graphs read them too.
        self._counting_to(steps[0][0] * len(steps))
        self._counting_to(len(steps))
        recorder = self._recorder
        if recorder is None:
            self._make(steps)
        elif len(steps) == 1 and not recorder.warm(steps):
            recorder.eagerly(steps, lambda: self._make(steps))
        else:
            recorder.replay(steps, lambda: self._make(steps))

    def _make(self, steps: tuple[Kind, ...]) -> None:
        """These steps, from samples to losses: what a graph holds."""
        runner, size = self._optimizer.runner, steps[0][0]
        assert self._numbers is not None
        places = self._at + self._counting_to(size * len(steps))
        chosen = self._indices.index_select(0, places)
        inputs = torch.split(self._inputs.index_select(0, chosen), size)
        targets = torch.split(self._targets.index_select(0, chosen), size)
        numbers = self._step + self._counting_to(len(steps))
        rows = self._table.index_select(0, numbers)
        losses = []
        for one, target, row, (_, refresh, turns) in zip(
            inputs, targets, rows.unbind(), steps, strict=True
        ):
            batches = as_batches(one, target, self._optimizer.net.loss_fn)
            with self._numbers.reading(row):
                losses.append(runner.run(list(turns), batches, refresh, check=False))
        self._losses.index_copy_(0, numbers, torch.stack(losses).to(self._losses.dtype))
        self._at.add_(size * len(steps))
        self._step.add_(len(steps))

    def _counting_to(self, length: int) -> Tensor:
        """0 … length − 1."""
        if length not in self._counting:
            self._counting[length] = torch.arange(length, device=self._inputs.device)
        return self._counting[length]
