"""How the blocks are chosen: at once, or by their cost on the first batch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import nn

from cyclade.optim._warn import warn_user
from cyclade.optim.blocks import partition
from cyclade.optim.blocks.costs import (
    CostWarning,
    balance,
    direction,
    overhead,
    stage_costs,
)
from cyclade.optim.net import Block
from cyclade.optim.stages import Chain, Inputs
from cyclade.sampling.orders import Custom

DEFAULT_OVERHEAD = 2.0
"""What a cycle may cost by default, in SGD steps."""

TWO_BLOCKS = 4 / 3
"""What two blocks cost at least: the stages before the second run forward for both."""


class Partitioning:
    """Param groups, which are known at once, and how they are merged into blocks.

    `groups` are the layers, or the blocks that the user has named. `choose` merges them by cost
    where that was asked for, and leaves them as they are otherwise. `costs` are the multiply-adds
    of the stages, once `count` has seen a batch.
    """

    def __init__(
        self, model: nn.Module, chain: Chain, blocks: Any, max_overhead: float | None, order: Any,
        *, one_block: bool = False,
    ) -> None:  # fmt: skip
        if blocks is not None and max_overhead is not None and not one_block:
            raise ValueError("give blocks or max_overhead, not both")
        if max_overhead is not None and not max_overhead >= 1:
            raise ValueError(f"max_overhead must be at least 1, got {max_overhead}")
        self._model, self._order = model, order
        self.costs: list[float] | None = None
        self._number: int | None = None
        self._budget: float | None = None
        layers = partition.layers(model, chain)
        if one_block:
            layers = partition.merged(layers, [0])
        elif isinstance(blocks, int) and not isinstance(blocks, bool):
            if not 1 <= blocks <= len(layers):
                raise ValueError(f"blocks={blocks}: the model has {len(layers)} layers")
            self._number = blocks if blocks < len(layers) else None
        elif blocks is None:
            listed = isinstance(order, list | tuple | Custom)  # numbers of layers
            if listed and max_overhead is not None:
                raise ValueError(
                    "an order of block numbers needs blocks that are known: give blocks=, not "
                    "max_overhead"
                )
            if not listed:
                self._budget = DEFAULT_OVERHEAD if max_overhead is None else max_overhead
        elif isinstance(blocks, str):
            if blocks != "layers":
                raise TypeError(
                    f"blocks={blocks!r}: 'layers' is the only word; else a number, or a list of "
                    "modules, their names, or lists of these"
                )
        elif isinstance(blocks, Iterable):
            layers = partition.named(model, chain, blocks)
        else:
            raise TypeError(
                "blocks must be 'layers', a number, or a list of modules, their names, or lists "
                f"of these, got {type(blocks).__name__}"
            )
        self.groups = [replace(layer, groups=(i,)) for i, layer in enumerate(layers)]

    @property
    def by_cost(self) -> bool:
        """Whether the blocks depend on what the stages cost."""
        return len(self.groups) > 1 and (self._number is not None or self._budget is not None)

    @property
    def m(self) -> int:
        """The number of blocks, where it is asked for; else that of the groups."""
        return self._number or len(self.groups)

    @property
    def wanted(self) -> str:
        """What was asked for, to be compared between ranks."""
        return str(self) if self.by_cost else str([list(group.params) for group in self.groups])

    def __str__(self) -> str:
        if self._number is not None:
            return f"{self._number} blocks of balanced cost"
        return f"the finest blocks whose cycle costs at most {self._budget:g} SGD steps"

    def placed(self, chain: Chain) -> list[Block]:
        """One block a group, in the order in which this chain uses them."""
        return partition.in_order(partition.placed(self.groups, self._model, chain))

    def count(self, chain: Chain, inputs: Inputs) -> None:
        """What the stages cost on these inputs."""
        self.costs = stage_costs(chain, inputs)

    @property
    def ready(self) -> bool:
        """Whether the blocks can be chosen."""
        return self.costs is not None or not self.by_cost

    def choose(self, chain: Chain) -> list[Block]:
        """The blocks; those by cost need the costs."""
        parts = self.placed(chain)
        if not self.by_cost:
            return parts
        assert self.costs is not None
        if self._number is not None:
            return partition.into(parts, self.costs, self._number)
        assert self._budget is not None
        found = partition.under(parts, self.costs, self._budget, direction(self._order))
        if len(found) == 1 and 1 < self._budget < TWO_BLOCKS:
            warn_user(
                CostWarning(
                    f"max_overhead={self._budget:g} leaves one block, the simultaneous step: two "
                    "cost at least 4/3 SGD steps, as what comes before the last runs forward twice"
                )
            )
        return found

    def block_costs(self, blocks: list[Block]) -> list[float]:
        """Multiply-adds of the stages of each block; NaN before they are counted."""
        if self.costs is None:
            return [math.nan] * len(blocks)
        return partition.layer_costs(blocks, self.costs)

    def overhead(self, blocks: list[Block]) -> float:
        """Multiply-adds of a cycle over those of an SGD step; NaN before they are counted."""
        if self.costs is None:
            return math.nan
        starts = [block.start for block in blocks]
        return overhead(self.costs, starts, direction(self._order), keep=False)

    def for_closures(self, chain: Chain) -> list[Block]:
        """The blocks when each costs a pass over the whole model, whatever is in it."""
        parts = self.placed(chain)
        k = self._number or (len(parts) if self._budget is None else int(self._budget))
        sizes = dict(self._model.named_parameters())
        weights = [float(sum(sizes[n].numel() for n in part.params)) for part in parts]
        return partition.merged(parts, balance(weights, min(k, len(parts))))

    def saved(self, chain: Chain, blocks: list[list[str]]) -> list[Block]:
        """The blocks of a saved state, by the names of their parameters."""
        parts = self.placed(chain)
        found = []
        for names in blocks:
            members = [part for part in parts if set(part.params) <= set(names)]
            members.sort(key=lambda part: names.index(part.params[0]))
            if [name for part in members for name in part.params] != names:
                raise ValueError(
                    f"the state was saved with a block of {names}, which is not made of layers or "
                    "blocks of this optimizer"
                )
            found.append(partition.join(members))
        if sum(len(block.params) for block in found) != sum(len(part.params) for part in parts):
            raise ValueError("the state was saved with blocks that miss parameters of this model")
        return found
