"""Choosing how to cut a model, and cutting its graph before every use of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch
from torch import fx, nn

from cyclade.optim._trees import pytree
from cyclade.optim.stages import effects
from cyclade.optim.stages.chain import CUT, Chain, Cut
from cyclade.optim.stages.inputs import Inputs, Names, Signature, Slot, parameter_names
from cyclade.optim.stages.recording import Traced, export, is_leaf, one_after_the_other, trace
from cyclade.optim.stages.stage import Env, Stage
from cyclade.optim.stages.structure import hooked, refuse_unrepeatable

_STACKS = (nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)


def cut(
    model: nn.Module,
    *,
    example: Inputs | None = None,
    stages: Sequence[nn.Module] | None = None,
    warn: bool = True,
) -> Chain:
    """Cut a model into a chain of stages, one per use of a layer's parameters.

    In order of preference: the modules given as ``stages``, applied one after the other; the
    children of an ``nn.Sequential``; ``torch.fx``; ``torch.export``, which needs an ``example``
    call; and the whole model as a single stage, with a warning. Modules that cannot be replayed
    are refused with a ValueError.
    """
    refuse_unrepeatable(model)
    if stages is not None:
        return Chain(model, "stages", _builder(model, "stages", _given(model, stages)))
    stacked = any(isinstance(m, _STACKS) for m in model.modules())
    sequence = _is_sequence(model)
    plain = sequence and all(is_leaf(m) or not [*m.children()] for _, m in _layers(model))
    if stacked and example is not None:  # one layer to fx, many to export
        ways = ["export", "fx", *(["sequential"] if plain else [])]
    elif plain:
        ways = ["sequential"]
    else:  # fx may see into blocks that are one stage each otherwise
        ways = ["fx", *(["sequential"] if sequence else []), "export"]
    reasons, unknown = [], example is None
    for how in ways:
        try:
            build = _builder(model, how, list(_layers(model)))
            return Chain(model, how, build, example, needs_example=stacked and unknown)
        except Exception as error:
            reasons.append(f"{how}: {_first_line(error)}")
    advice = "rewrite forward without control flow on values, or give stages="
    if unknown:
        advice = "give example=Inputs(args, kwargs) so that torch.export can try, " + advice
    chain = whole(
        model,
        f"{type(model).__name__} could not be cut into stages, so every block pays "
        f"for a full pass. Tried {'; '.join(reasons)}. To cut it: {advice}",
        needs_example=unknown,
    )
    if warn:
        chain.warn()
    return chain


def whole(model: nn.Module, warning: str = "", *, needs_example: bool = False) -> Chain:
    """The model as a single stage."""
    build = _builder(model, "whole", [("model", model)])
    return Chain(model, "whole", build, warning=warning, needs_example=needs_example)


def _builder(
    model: nn.Module, how: str, modules: Sequence[tuple[str, nn.Module]]
) -> Callable[[Signature | None, Inputs | None], Cut]:
    """What cuts the model in one way for a kind of call; it raises where that does not work."""
    names = Names(model)

    def build(called: Signature | None, inputs: Inputs | None) -> Cut:
        refuse_unrepeatable(model)
        if how == "fx":
            assert called is not None
            traced = trace(model, called, names)
        elif how == "export":
            if inputs is None:
                raise ValueError("torch.export needs an example batch (example=Inputs(...))")
            traced = export(model, inputs, names)
        else:
            traced = one_after_the_other(modules)
        return _cut_of(traced, names)

    return build


def _cut_of(traced: Traced, names: Names) -> Cut:
    stages = split(traced, names)
    needed = {*stages[0].reads, *stages[0].passes}
    wanted = [
        (k, node.name)
        for k, node in enumerate(traced.inputs)
        if node is not None and node.name in needed
    ]
    outputs = [_output(value, traced) for value in traced.outputs]

    def enter(leaves: list[Any]) -> Env:
        return {name: leaves[k] for k, name in wanted}

    def leave(env: Env) -> Any:
        return pytree.tree_unflatten([output(env) for output in outputs], traced.out_spec)

    return Cut(tuple(stages), enter, leave, traced.fits)


def _output(value: Any, traced: Traced) -> Callable[[Env], Any]:
    """How one leaf of the result is found in the last env."""
    if not isinstance(value, fx.Node):
        # A leaf may itself be a structure fx recorded, with nodes inside.
        return lambda env: fx.node.map_arg(value, lambda node: env[node.name])
    if value in traced.direct:
        return lambda env: traced.direct[value].get()
    if value in traced.constants:
        return lambda env: traced.constants[value]
    return itemgetter(value.name)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *(line[:300] for line in lines[:1])])


def _is_sequence(module: nn.Module) -> bool:
    """Whether a module is its children one after the other, and nothing else."""
    runs_children = type(module).forward is nn.Sequential.forward
    return isinstance(module, nn.Sequential) and runs_children and not hooked(module)


def _layers(model: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The children of (nested) Sequentials, with their paths, in execution order."""
    for name, child in model._modules.items():
        where = f"{path}.{name}" if path else name
        if child is not None and _is_sequence(child):
            yield from _layers(child, where)
        elif child is not None:
            yield where, child


def _given(model: nn.Module, stages: Sequence[nn.Module]) -> list[tuple[str, nn.Module]]:
    """The user's stages with the paths they have in the model."""
    names = Names(model)
    if not stages:
        raise ValueError("stages is empty: give the modules in the order they are applied")
    paths = {id(module): path for path, module in model.named_modules()}
    given = []
    for k, module in enumerate(stages):
        if not isinstance(module, nn.Module):
            raise ValueError(f"stages[{k}] is a {type(module).__name__}, not an nn.Module")
        given.append((paths.get(id(module)) or f"stage{k}", module))
    used = parameter_names(slot for _, module in given for slot in names.of(module))
    missing = [name for name in names.parameters.values() if name not in set(used)]
    if missing:
        raise ValueError(f"stages leave out parameters of the model: {missing}")
    return given


# ------------------------------------------------------------------------ a recorded graph


@dataclass
class _Group:
    """The nodes of one stage."""

    name: str = ""
    owner: int = 0  # the registry of its direct parameters, 0 when it calls a module
    nodes: list[fx.Node] = field(default_factory=list)


def split(traced: Traced, names: Names) -> list[Stage]:
    """Cut the graph before every use of parameters."""
    groups, changed = _groups(traced), _changed_buffers(traced)
    titles = _numbered([group.name for group in groups])
    needed = {node.name for node in traced.outputs if _is_value(node, traced)}
    stages: list[Stage] = []
    for title, group in zip(reversed(titles), reversed(groups), strict=True):
        stage = _stage(title, group.nodes, traced, names, needed, changed)
        # It passes on exactly the values that later stages, or the outputs, still need.
        passes = needed.difference(stage.writes)
        stage.passes = (*sorted(passes), CUT)
        needed = passes.union(stage.reads)
        stages.append(stage)
    return stages[::-1]


def _numbered(titles: list[str]) -> list[str]:
    """The second and later uses of a name by number: fc, fc@2, fc@3."""
    uses = [titles[: k + 1].count(title) for k, title in enumerate(titles)]
    return [f"{t}@{n}" if n > 1 else t for t, n in zip(titles, uses, strict=True)]


def _is_value(node: Any, traced: Traced) -> bool:
    """Whether a node's value travels in the env; parameters and constants do not."""
    return isinstance(node, fx.Node) and node not in traced.direct and node not in traced.constants


def _groups(traced: Traced) -> list[_Group]:
    groups = [_Group()]
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name, owner = _uses(node, traced)
        if name:
            current = groups[-1]
            if not current.name:
                # What comes before the first parameters belongs to the first stage.
                current.name, current.owner = name, owner
            elif not (owner and owner == current.owner and _is_arithmetic(node, traced)):
                groups.append(_Group(name, owner))
        groups[-1].nodes.append(node)
    groups[0].name = groups[0].name or "model"
    return groups


def _uses(node: fx.Node, traced: Traced) -> tuple[str, int]:
    """The layer whose parameters a node uses ('' for none), and their registry if used directly."""
    if node.op == "call_module":
        module = traced.modules[str(node.target)]
        return (str(node.target), 0) if next(module.parameters(), None) is not None else ("", 0)
    for source in node.all_input_nodes:
        slot = traced.direct.get(source)
        if slot is not None and not slot.buffer:
            return slot.name.rpartition(".")[0] or slot.name, slot.place
    return "", 0


def _is_arithmetic(node: fx.Node, traced: Traced) -> bool:
    """Whether a parameter is only added or multiplied in, perhaps after a reshape.

    Such a use joins the stage of the same layer: ``x @ self.w + self.b`` is one stage.
    """
    while effects.base(node, traced.modules) is not None and len(node.users) == 1:
        if effects.elementwise(node, traced.modules):
            break
        node = next(iter(node.users))
    return effects.elementwise(node, traced.modules)


def _root(node: fx.Node, traced: Traced, inside: Callable[[fx.Node], bool]) -> fx.Node:
    """The value whose memory ``node`` shares, followed back as long as that is ``inside``."""
    while inside(node):
        below = effects.base(node, traced.modules)
        if below is None:
            break
        node = below
    return node


def _changed_buffers(traced: Traced) -> set[Slot]:
    """Buffers that some node of the graph writes to in place."""
    changed = set()
    for node in traced.graph.nodes:
        for target in effects.written(node, traced.modules):
            slot = traced.direct.get(_root(target, traced, lambda n: n not in traced.direct))
            if slot is not None and not slot.buffer:
                raise ValueError(
                    f"forward writes to the parameter {slot.name!r} in place ({node.target}), "
                    "which no replay can repeat: do it outside forward"
                )
            if slot is not None:
                changed.add(slot)
    return changed


def _stage(
    title: str,
    nodes: list[fx.Node],
    traced: Traced,
    names: Names,
    needed: set[str],
    changed: set[Slot],
) -> Stage:
    """Build the executable stage of one group of nodes, behind which some values are needed."""
    modules, own = traced.modules, set(nodes)
    outside = dict.fromkeys(s for node in nodes for s in node.all_input_nodes if s not in own)
    direct = {s: traced.direct[s] for s in outside if s in traced.direct}
    reads = [s for s in outside if _is_value(s, traced)]
    overwritten = {
        _root(target, traced, own.__contains__)
        for node in nodes
        for target in effects.written(node, modules)
    }
    graph = fx.Graph()
    local = {source: graph.placeholder(source.name) for source in (*direct, *reads)}
    held: dict[str, Any] = {}  # what the graph calls and takes from itself, by name
    for source in outside:
        if source in traced.constants:
            held[source.name] = traced.constants[source]
            local[source] = graph.get_attr(source.name)
    for source in reads:
        if source in overwritten:
            # The caller keeps the env for other replays, so the stage writes to a copy.
            local[source] = graph.call_function(torch.clone, (local[source],))
    called: dict[str, str] = {}
    for node in nodes:
        local[node] = graph.node_copy(node, local.__getitem__)
        if node.op == "call_module":
            target = str(node.target)
            local[node].target = called.setdefault(target, f"m{len(called)}")
            held[called[target]] = modules[target]
    writes = [n for n in nodes if n.name in needed]
    writes += [s for s in reads if s in overwritten and s.name in needed]
    graph.output(tuple(local[node] for node in writes))
    inner = [modules[target] for target in called]
    state, idle = effects.changing(inner, names)
    moved = [slot for slot in direct.values() if slot in changed]
    swapped = [slot for module in inner for slot in names.of(module) if not slot.buffer]
    return Stage(
        title,
        fx.GraphModule(held, graph),
        reads=tuple(s.name for s in reads),
        writes=tuple(s.name for s in writes),
        direct=tuple(direct.values()),
        swapped=tuple(dict.fromkeys(swapped)),
        state=tuple(dict.fromkeys([*moved, *state])),
        idle=frozenset(idle),
        random=max((_randomness(node, traced) for node in nodes), default=0),
        unsure=not all(map(is_leaf, inner)),
    )


def _randomness(node: fx.Node, traced: Traced) -> int:
    """Randomness of a node, and of the subgraphs handed to it."""
    found = effects.node_randomness(node, traced.modules)
    for source in node.all_input_nodes:
        inner = traced.constants.get(source)
        if isinstance(inner, fx.GraphModule):
            found = max(found, *(effects.node_randomness(n, {}) for n in inner.graph.nodes))
    return found
