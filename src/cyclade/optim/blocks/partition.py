"""Which parameters form which block: by layer, by module or name, or by cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import nn

from cyclade.optim.blocks.costs import balance, finest_under
from cyclade.optim.net import Block
from cyclade.optim.stages import Chain


def first_uses(model: nn.Module, chain: Chain) -> dict[str, int]:
    """The first stage that uses each trained parameter; one that none uses counts to the last."""
    uses: dict[str, int] = {}
    for i, stage in enumerate(chain.stages):
        for name in stage.params:
            uses.setdefault(name, i)
    last = len(chain.stages) - 1
    return {n: uses.get(n, last) for n, p in model.named_parameters() if p.requires_grad}


def layers(model: nn.Module, chain: Chain) -> list[Block]:
    """One block per module that owns trained parameters, in the order in which they are used."""
    uses = first_uses(model, chain)
    if not uses:
        raise ValueError("the model has no parameter that requires a gradient")
    owned: dict[str, list[str]] = {}
    for name in uses:
        owned.setdefault(name.rpartition(".")[0], []).append(name)
    return in_order([_block(owner or "(model)", names, uses) for owner, names in owned.items()])


def named(model: nn.Module, chain: Chain, blocks: Iterable[Any]) -> list[Block]:
    """Blocks from modules, module names or parameter names, or lists of these, by first use."""
    uses = first_uses(model, chain)
    modules = dict(model.named_modules())
    paths = {id(module): path for path, module in modules.items()}
    canonical = {id(p): name for name, p in model.named_parameters()}
    made: list[Block] = []
    seen: dict[str, str] = {}
    for number, entry in enumerate(blocks):
        members = entry if isinstance(entry, list | tuple | set) else [entry]
        reached = [_members(member, modules, paths, canonical, uses) for member in members]
        labels = [name for (name, _), _ in reached]
        names = [name for (_, found), _ in reached for name in found]
        label = "+".join(labels)
        if not names:
            if any(tied for _, tied in reached):
                continue  # all it has is tied to a parameter of another block
            raise ValueError(f"blocks[{number}] ({label}) has no trained parameters")
        for name in names:
            if name in seen:
                raise ValueError(f"blocks overlap: {name} is in both {seen[name]!r} and {label!r}")
            seen[name] = label
        made.append(_block(label, names, uses))
    missing = [name for name in uses if name not in seen]
    if missing:
        some = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        raise ValueError(f"blocks miss {some}: every trained parameter needs a block")
    return in_order(made)


def _members(
    member: Any, modules: dict[str, nn.Module], paths: dict[int, str], canonical: dict[int, str],
    uses: dict[str, int],
) -> tuple[tuple[str, list[str]], bool]:  # fmt: skip
    """A member's label and its parameters, and whether it has others that are tied elsewhere."""
    if isinstance(member, str):
        if member in uses:
            return (member, [member]), False
        if member not in modules:
            raise ValueError(
                f"blocks names {member!r}, which is neither a module nor a trained parameter of "
                f"the model; its modules are {[path for path in modules if path]}"
            )
        path = member
    elif isinstance(member, nn.Module):
        if id(member) not in paths:
            raise ValueError(f"blocks has a {type(member).__name__} that is not in the model")
        path = paths[id(member)]
    else:
        raise TypeError(
            f"blocks must hold modules, their names, or lists of these, got {type(member).__name__}"
        )
    inside = [canonical[id(p)] for p in modules[path].parameters() if canonical[id(p)] in uses]
    # A tied parameter belongs where it is named first.
    found = [name for name in inside if name.startswith(f"{path}.") or not path]
    return (path or "(model)", found), len(found) < len(inside)


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


def layer_costs(parts: list[Block], stage_costs: list[float]) -> list[float]:
    """The cost of the stages from each layer's first to the next layer's."""
    ends = [*[part.start for part in parts[1:]], len(stage_costs)]
    first = [0, *[part.start for part in parts[1:]]]
    return [sum(stage_costs[a:b]) for a, b in zip(first, ends, strict=True)]


def into(parts: list[Block], stage_costs: list[float], k: int) -> list[Block]:
    """The layers merged into k blocks whose largest cost is smallest."""
    return merged(parts, balance(layer_costs(parts, stage_costs), k))


def under(parts: list[Block], stage_costs: list[float], budget: float, order: Any) -> list[Block]:
    """The finest merge of the layers whose predicted overhead is at most `budget`."""
    starts = [part.start for part in parts]
    return merged(parts, finest_under(stage_costs, budget, order, keep=False, starts=starts))


def placed(parts: list[Block], model: nn.Module, chain: Chain) -> list[Block]:
    """The same blocks, with the stages where this chain uses them first."""
    uses = first_uses(model, chain)
    return [replace(part, start=min(uses[n] for n in part.params)) for part in parts]


def in_order(parts: list[Block]) -> list[Block]:
    """Sorted by first use; layers used in the same stage keep their order of definition."""
    return sorted(parts, key=lambda block: block.start)


def _block(name: str, names: list[str], uses: dict[str, int]) -> Block:
    return Block(name, tuple(names), min(uses[n] for n in names))
