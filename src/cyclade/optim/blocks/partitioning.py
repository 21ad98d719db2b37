"""Which parameters form which block: by layer, by module or name, or by cost on the first batch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from cyclade.optim._warn import warn_user
from cyclade.optim.blocks.costs import (
    CostWarning,
    balance,
    direction,
    finest_under,
    overhead,
    stage_costs,
)
from cyclade.optim.net import Block
from cyclade.optim.stages import Chain, Inputs
from cyclade.sampling.orders import Custom

DEFAULT_OVERHEAD = 2.0
"""What a cycle may cost by default, in SGD steps."""

RESIDENT_BLOCKS = 8
"""How many blocks of balanced size are visited in turn, where one at a time has Adam's state."""

ALONE_BLOCKS = 2
"""How many blocks of balanced cost there are where each has a batch of its own (VR-CCD): a cycle
costs as many batches, so that more blocks mean fewer cycles."""

TWO_BLOCKS = 4 / 3
"""What two blocks cost at least: the stages before the second run forward for both."""


class Partitioning:
    """Param groups (layers, or the blocks that the user has named), and their merging into blocks.

    `choose` merges them by cost where that was asked for. `costs` are the multiply-adds of the
    stages, once `count` has seen a batch.
    """

    def __init__(
        self, model: nn.Module, chain: Chain, blocks: Any, max_overhead: float | None, order: Any,
        *, one_block: bool = False, alone: bool = False, resident: bool = False,
    ) -> None:  # fmt: skip
        if blocks is not None and max_overhead is not None and not one_block:
            raise ValueError("give blocks or max_overhead, not both")
        if max_overhead is not None and not max_overhead >= 1:
            raise ValueError(f"max_overhead must be at least 1, got {max_overhead}")
        self._model, self.order, self._resident = model, order, resident
        self.costs: list[float] | None = None
        self._number: int | None = None
        self._budget: float | None = None
        layers = layers_of(model, chain)
        if resident and max_overhead is not None:
            raise ValueError("max_overhead is for cycles: with resident='block' give blocks=")
        listed = isinstance(order, list | tuple | range | np.ndarray | Custom)  # numbers of layers
        if alone and blocks is None and max_overhead is None and not listed:
            blocks = min(RESIDENT_BLOCKS if resident else ALONE_BLOCKS, len(layers))
        if one_block:
            layers = merged(layers, [0])
        elif isinstance(blocks, int) and not isinstance(blocks, bool):
            if not 1 <= blocks <= len(layers):
                raise ValueError(f"blocks={blocks}: the model has {len(layers)} layers")
            self._number = blocks if blocks < len(layers) else None
        elif blocks is None and not listed:
            self._budget = DEFAULT_OVERHEAD if max_overhead is None else max_overhead
        elif blocks is None and max_overhead is not None:
            raise ValueError(
                "an order of block numbers needs blocks that are known: give blocks=, not "
                "max_overhead"
            )
        elif isinstance(blocks, Iterable) and not isinstance(blocks, str):
            layers = named(model, chain, blocks)
        elif blocks not in (None, "layers"):
            raise TypeError(
                "blocks must be 'layers', a number, or a list of modules, their names, or lists "
                f"of these, got {blocks!r}"
            )
        self.groups = [replace(layer, groups=(i,)) for i, layer in enumerate(layers)]

    @property
    def by_cost(self) -> bool:
        """Whether the blocks depend on what the stages cost."""
        return len(self.groups) > 1 and (self._number is not None or self._budget is not None)

    @property
    def m(self) -> int:
        """The number of blocks that is asked for; else that of the groups."""
        return self._number or len(self.groups)

    @property
    def wanted(self) -> str:
        """What was asked for, to be compared between ranks."""
        return str(self) if self.by_cost else str([list(group.params) for group in self.groups])

    def __str__(self) -> str:
        if self._number is not None:
            return f"{self._number} blocks of balanced {'size' if self._resident else 'cost'}"
        return f"the finest blocks whose cycle costs at most {self._budget:g} SGD steps"

    def placed(self, chain: Chain) -> list[Block]:
        """One block a group, in the order in which this chain uses them."""
        return in_order(placed(self.groups, self._model, chain))

    def count(self, chain: Chain, inputs: Inputs) -> None:
        """What the stages cost on these inputs."""
        self.costs = stage_costs(chain, inputs)

    @property
    def ready(self) -> bool:
        """Whether the blocks can be chosen."""
        return self.costs is not None or not self.by_cost or self._resident

    def choose(self, chain: Chain) -> list[Block]:
        """The blocks; those by cost need the costs."""
        parts = self.placed(chain)
        if not self.by_cost:
            return parts
        if self._number is not None:
            weights = self._sizes(parts) if self._resident else self.block_costs(parts)
            return merged(parts, balance(weights, self._number))
        assert self.costs is not None
        assert self._budget is not None
        starts, order = [part.start for part in parts], direction(self.order)
        found = merged(parts, finest_under(self.costs, self._budget, order, starts))
        if len(found) == 1 and 1 < self._budget < TWO_BLOCKS:
            warn_user(
                CostWarning(
                    f"max_overhead={self._budget:g} leaves one block, the simultaneous step: two "
                    "cost at least 4/3 SGD steps, as what comes before the last runs forward twice"
                )
            )
        return found

    def block_costs(self, blocks: list[Block]) -> list[float]:
        """Multiply-adds of each block's stages (all of a whole model); NaN before the count."""
        if self.costs is None or len(self.costs) == 1:
            return [math.nan if self.costs is None else self.costs[0]] * len(blocks)
        starts = [block.start for block in blocks]
        ends = [*starts[1:], len(self.costs)]
        return [sum(self.costs[a:b]) for a, b in zip([0, *starts[1:]], ends, strict=True)]

    def overhead(self, blocks: list[Block]) -> float:
        """Multiply-adds of a cycle (with visits: of a step) over those of an SGD step, or NaN."""
        if self.costs is None:
            return math.nan
        starts = [block.start for block in blocks]
        if self._resident:
            alone = [overhead(self.costs, starts, [j]) for j in range(len(starts))]
            return sum(alone) / len(alone)
        return overhead(self.costs, starts, direction(self.order))

    def for_closures(self, chain: Chain) -> list[Block]:
        """The blocks when each costs a pass over the whole model, whatever is in it."""
        parts = self.placed(chain)
        k = self._number or (len(parts) if self._budget is None else int(self._budget))
        return merged(parts, balance(self._sizes(parts), min(k, len(parts))))

    def _sizes(self, parts: list[Block]) -> list[float]:
        """The numbers in the parameters of each part."""
        params = dict(self._model.named_parameters())
        return [float(sum(params[n].numel() for n in part.params)) for part in parts]

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
            found.append(join(members))
        if sum(len(block.params) for block in found) != sum(len(part.params) for part in parts):
            raise ValueError("the state was saved with blocks that miss parameters of this model")
        return found


def first_uses(model: nn.Module, chain: Chain) -> dict[str, int]:
    """The first stage that uses each trained parameter; one that none uses counts to the last."""
    uses: dict[str, int] = {}
    for i, stage in enumerate(chain.stages):
        for name in stage.params:
            uses.setdefault(name, i)
    last = len(chain.stages) - 1
    return {n: uses.get(n, last) for n, p in model.named_parameters() if p.requires_grad}


def layers_of(model: nn.Module, chain: Chain) -> list[Block]:
    """One block per module that owns trained parameters, in the order in which they are used."""
    uses = first_uses(model, chain)
    if not uses:
        raise ValueError("the model has no parameter that requires a gradient")
    owned: dict[str, list[str]] = {}
    for name in uses:
        owned.setdefault(name.rpartition(".")[0] or "(model)", []).append(name)
    return in_order([_block(owner, names, uses) for owner, names in owned.items()])


def named(model: nn.Module, chain: Chain, blocks: Iterable[Any]) -> list[Block]:
    """Blocks from modules, module names or parameter names, or lists of these, by first use."""
    uses = first_uses(model, chain)
    made: list[Block] = []
    seen: dict[str, str] = {}
    for number, entry in enumerate(blocks):
        members = entry if isinstance(entry, list | tuple | set) else [entry]
        reached = [_members(model, member, uses) for member in members]
        label = "+".join(name for name, _, _ in reached)
        names = [name for _, found, _ in reached for name in found]
        for name in names:
            if name in seen:
                raise ValueError(f"blocks overlap: {name} is in both {seen[name]!r} and {label!r}")
            seen[name] = label
        if names:
            made.append(_block(label, names, uses))
        elif not any(tied for _, _, tied in reached):  # to a parameter of another block
            raise ValueError(f"blocks[{number}] ({label}) has no trained parameters")
    missing = [name for name in uses if name not in seen]
    if missing:
        some = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        raise ValueError(f"blocks miss {some}: every trained parameter needs a block")
    return in_order(made)


def _members(model: nn.Module, member: Any, uses: Collection[str]) -> tuple[str, list[str], bool]:
    """A member's label and its parameters, and whether it has others that are tied elsewhere."""
    if isinstance(member, str) and member in uses:
        return member, [member], False
    modules = dict(model.named_modules())
    if isinstance(member, str):
        if member not in modules:
            raise ValueError(
                f"blocks names {member!r}, which is neither a module nor a trained parameter of "
                f"the model; its modules are {[path for path in modules if path]}"
            )
        path = member
    elif isinstance(member, nn.Module):
        paths = [path for path, module in modules.items() if module is member]
        if not paths:
            raise ValueError(f"blocks has a {type(member).__name__} that is not in the model")
        path = paths[0]
    else:
        raise TypeError(
            f"blocks must hold modules, their names, or lists of these, got {type(member).__name__}"
        )
    canonical = {id(p): name for name, p in model.named_parameters() if name in uses}
    inside = [canonical[id(p)] for p in modules[path].parameters() if id(p) in canonical]
    # A tied parameter belongs where it is named first.
    found = [name for name in inside if name.startswith(f"{path}.") or not path]
    return path or "(model)", found, len(found) < len(inside)


def merged(parts: list[Block], starts: list[int]) -> list[Block]:
    """Consecutive blocks joined; `starts` are the first members of the new blocks."""
    ends = [*starts[1:], len(parts)]
    return [join(parts[a:b]) for a, b in zip(starts, ends, strict=True)]


def join(parts: list[Block]) -> Block:
    """Several blocks as one."""
    name = parts[0].name if len(parts) == 1 else f"{parts[0].name} … {parts[-1].name}"
    params = tuple(name for part in parts for name in part.params)
    groups = tuple(i for part in parts for i in part.groups)
    return Block(name, params, min(part.start for part in parts), groups)


def placed(parts: list[Block], model: nn.Module, chain: Chain) -> list[Block]:
    """The same blocks, with the stages where this chain uses them first."""
    uses = first_uses(model, chain)
    return [replace(part, start=min(uses[n] for n in part.params)) for part in parts]


def in_order(parts: list[Block]) -> list[Block]:
    """Sorted by first use; layers used in the same stage keep their order of definition."""
    return sorted(parts, key=lambda block: block.start)


def _block(name: str, names: list[str], uses: dict[str, int]) -> Block:
    return Block(name, tuple(names), min(uses[n] for n in names))
