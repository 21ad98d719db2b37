"""Captured cycles whose order changes: every turn is a graph of its own.

A turn of block j begins with the values before the block's first stage. They lie in places that
keep their address, so a turn can be captured once and replayed wherever an order puts it. What
carries the values from the start of one block to that of the next is a graph, too. So a cycle is at
most 2m launches over m blocks, of the same work as `StagedSweep` does in that order; the first turn
of a cycle, which moves running statistics and returns the loss, has graphs of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from cyclade import core
from cyclade.blocks.layout import NoEstimate
from cyclade.optim._trees import pytree
from cyclade.optim.capture.graphs import Recorder, described, static_copies
from cyclade.optim.cycle.sweep import StagedSweep
from cyclade.optim.net import Batch
from cyclade.optim.stages import Replay
from cyclade.optim.stages.inputs import map_leaves


class _Place:
    """A batch, and the values before the first stage of each block, where they keep their place."""

    def __init__(self, batches: list[Batch], chain: Any) -> None:
        self.static, self.batches = static_copies(batches)
        self.envs: dict[int, list[Any]] = {0: [chain.start(batch.inputs) for batch in self.batches]}
        self.loss: Tensor | None = None

    def note(self, loss: Tensor) -> None:
        """Keep the loss. What a graph returns does not last: later graphs share its memory."""
        if self.loss is None:
            self.loss = loss.clone()
        else:
            self.loss.copy_(loss)

    def store(self, stage: int, found: list[Any], before: list[Any]) -> None:
        """Keep the values before `stage`; those that were only passed on stay where they are."""
        if stage not in self.envs:
            kept = {id(leaf) for leaf in pytree.tree_leaves(before)}
            self.envs[stage] = map_leaves(
                lambda v: v.clone() if isinstance(v, Tensor) and id(v) not in kept else v, found
            )
            return
        places, values = pytree.tree_leaves(self.envs[stage]), pytree.tree_leaves(found)
        for place, value in zip(places, values, strict=True):
            if isinstance(place, Tensor) and place is not value:
                place.copy_(value)


class TurnGraphs:
    """Runs the turns of a cycle from their graphs, in any order; no recorder: eagerly."""

    def __init__(self, runner: Any, recorder: Recorder | None) -> None:
        self._runner, self._recorder = runner, recorder
        self._places: dict[Any, _Place] = {}

    def __len__(self) -> int:
        return 0 if self._recorder is None else len(self._recorder)

    def clear(self) -> None:
        """Forget every graph: something they point to was replaced."""
        if self._recorder is not None:
            self._recorder.clear()
        self._places.clear()

    def run(self, kind: Any, turns: list[int], batches: list[Batch]) -> Tensor:
        """One cycle over the blocks in `turns`; the loss at its start."""
        runner = self._runner
        tensors, shape = described(batches)
        key = (kind, shape)
        if key not in self._places:
            self._places[key] = _Place(batches, runner.net.chain)
        place = self._places[key]
        torch._foreach_copy_(place.static, tensors)
        if runner.has_norms:
            self._do((key, "begin"), runner.advance_norms)
        starts = sorted({0, *runner.net.starts})
        valid, first = {0}, True  # stages whose values before are true; the first turn
        for j in turns:
            start = runner.net.starts[j]
            at = max(stage for stage in valid if stage <= start)
            for a, b in pairwise(starts):
                if at <= a < start:
                    self._do(
                        (key, "advance", a, first),
                        lambda a=a, b=b, first=first: self._advance(place, a, b, first),  # type: ignore[misc]
                    )
                    valid.add(b)
            self._do(
                (key, "turn", j, first),
                lambda j=j, first=first: self._turn(place, j, first),  # type: ignore[misc]
            )
            valid, first = {stage for stage in valid if stage <= start}, False
        assert place.loss is not None
        return place.loss.clone()

    def _do(self, key: Any, work: Callable[[], None]) -> None:
        recorder = self._recorder
        if recorder is None:
            work()
        elif recorder.warm(key):
            recorder.replay(key, work)
        else:
            recorder.eagerly(key, work)

    def _replays(self, place: _Place, first: bool) -> list[Any]:
        return [Replay() if first else Replay.spent(env) for env in place.envs[0]]

    @torch.no_grad()
    def _advance(self, place: _Place, a: int, b: int, first: bool) -> None:
        """The values before stage b, from those before stage a."""
        tensors = self._runner.point.tensors()
        found = []
        for env, replay in zip(place.envs[a], self._replays(place, first), strict=True):
            for stage in range(a, b):
                env = replay.run(stage, env, tensors, live=True)
            found.append(env)
        place.store(b, found, place.envs[a])

    def _turn(self, place: _Place, j: int, first: bool) -> None:
        """Move block j; note the loss before, in the first turn of a cycle."""
        runner = self._runner
        start = runner.net.starts[j]
        now = StagedSweep(
            runner.net, runner.point, place.batches, self._replays(place, first), live=True,
            sign=runner.options.sign,
            at=[{start: env} for env in place.envs[start]],
        )  # fmt: skip
        if not first:
            now.loss = place.loss  # it is known
        none: Any = NoEstimate()  # no lagged point and no estimate, which core never asks for
        core.cycle([j], now, none, none, runner.reg, runner.steps, True)
        if first:
            assert now.loss is not None
            place.note(now.loss)
