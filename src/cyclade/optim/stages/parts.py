"""Stages in executable form: of whole modules, or of the nodes of a recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from cyclade.optim.stages import effects
from cyclade.optim.stages.effects import changing, module_randomness
from cyclade.optim.stages.inputs import Names, Slot, map_leaves, parameter_names
from cyclade.optim.stages.preserve import version
from cyclade.optim.stages.recording import Traced, is_leaf
from cyclade.optim.stages.structure import hooked

Env = dict[str, Any]
Guard = Mapping[Slot, Tensor | None]  # buffers that stand in for the live ones


@dataclass(frozen=True)
class StageInfo:
    """The name of a stage and the canonical names of the parameters it uses."""

    name: str
    params: tuple[str, ...]


class Part:
    """A piece of the model's forward that reads values from an env and writes new ones.

    ``body.forward`` takes the tensors of ``direct`` and then the values named in ``reads``, and
    returns the values named in ``writes``. The tensors of ``swapped`` slots are exchanged in
    their modules for the time of the call, so neither the user's parameters nor their flags
    are touched. ``state`` are the buffers a call may change; of ``idle`` ones (running
    statistics in training mode) the output does not depend, so a replay goes without them.
    """

    def __init__(
        self,
        name: str,
        body: nn.Module,
        *,
        reads: Sequence[str],
        writes: Sequence[str],
        direct: Sequence[Slot] = (),
        swapped: Sequence[Slot] = (),
        state: Sequence[Slot] = (),
        idle: Sequence[Slot] = (),
        random: int = 0,
        opaque: bool = False,
    ) -> None:
        self.info = StageInfo(name, parameter_names((*direct, *swapped)))
        self.body = body
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.passes: tuple[str, ...] = ()
        self.direct = tuple(direct)
        self.swapped = tuple(dict.fromkeys(s for s in swapped if not s.buffer))
        self._places = [(slot, slot.store, slot.attr) for slot in self.swapped]
        self.state = tuple(dict.fromkeys(state))
        self.idle = frozenset(idle)
        self.random = random
        # Whether a stage that may draw was seen to, on a real batch; None before that.
        self.drew: bool | None = None
        self.quiet = not self.state and not random
        # A module we cannot look into may write to its input; found out in its first run.
        self.unsure = opaque
        self.copies = False
        self._forward: Callable[..., Any] = body.forward
        self._compiled: Callable[..., Any] | None = None

    def compile(self, options: Mapping[str, Any] | None) -> None:
        """Run the stage through ``torch.compile`` from now on; with None as it is."""
        if options is not None:
            if self._compiled is None:
                self._compiled = torch.compile(self.body, **options)
            self._forward = self._compiled
        else:
            self._forward = self.body.forward

    def run(self, env: Env, tensors: Mapping[str, Tensor], guard: Guard | None) -> Env:
        """The env after this stage."""
        try:
            values = [env[name] for name in self.reads]
            after = {name: env[name] for name in self.passes}
        except KeyError as error:
            raise ValueError(
                f"this env does not stand before stage {self.info.name!r}: it lacks {error}"
            ) from None
        if self.unsure or self.copies:
            values = self._copied(values)
        direct = [_tensor(slot, tensors, guard) for slot in self.direct]
        exchanged: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for slot, store, attr in self._places:
                exchanged.append((store, attr, store[attr]))
                given = tensors.get(slot.name)
                store[attr] = _tensor(slot, tensors, None) if given is None else given
            if guard is not None:
                for slot, value in guard.items():
                    exchanged.append((slot.store, slot.attr, slot.store[slot.attr]))
                    slot.store[slot.attr] = value
            written = self._forward(*direct, *values)
        finally:
            for store, attr, old in reversed(exchanged):
                store[attr] = old
        if self.unsure:
            self._decide(values)
        after.update(zip(self.writes, written, strict=True))
        return after

    def _copied(self, values: list[Any]) -> list[Any]:
        def copy(value: Any) -> Any:
            return value.clone() if isinstance(value, Tensor) else value

        return [map_leaves(copy, value) for value in values]

    def _decide(self, values: list[Any]) -> None:
        # A fresh clone has version 0.
        leaves = pytree.tree_leaves(values)
        self.copies = any(isinstance(v, Tensor) and version(v) > 0 for v in leaves)
        self.unsure = False


def _tensor(slot: Slot, tensors: Mapping[str, Tensor], guard: Guard | None) -> Tensor | None:
    """The tensor to use for a slot; the model's own parameters enter as constants."""
    if slot.buffer:
        return slot.get() if guard is None or slot not in guard else guard[slot]
    tensor = tensors.get(slot.name)
    if tensor is None:
        tensor = slot.get()
        if tensor.requires_grad:
            tensor = tensor.detach()
    return tensor


def link(parts: Sequence[Part], outputs: set[str]) -> None:
    """Let each part pass on exactly the values that later parts, or the outputs, still need."""
    needed = set(outputs)
    for part in reversed(parts):
        part.passes = tuple(sorted(needed.difference(part.writes)))
        needed = set(part.passes).union(part.reads)


@dataclass
class _Group:
    """The nodes of one stage."""

    name: str = ""
    owner: int = 0  # the registry of its direct parameters, 0 when it calls a module
    nodes: list[fx.Node] = field(default_factory=list)


def split(traced: Traced, names: Names) -> list[Part]:
    """Cut the graph before every use of parameters."""
    groups = _groups(traced)
    home = {node: k for k, group in enumerate(groups) for node in group.nodes}
    last = _last_use(traced, home, len(groups))
    changed = _changed_buffers(traced)
    titles = unique(group.name for group in groups)
    parts = [
        _part(title, k, group, traced, names, home, last, changed)
        for k, (title, group) in enumerate(zip(titles, groups, strict=True))
    ]
    link(parts, {node.name for node in traced.outputs if _is_value(node, traced)})
    return parts


def unique(titles: Iterable[str]) -> list[str]:
    """Number the second and later uses of a name: fc, fc@2, fc@3."""
    seen: dict[str, int] = {}
    result = []
    for title in titles:
        seen[title] = seen.get(title, 0) + 1
        result.append(title if seen[title] == 1 else f"{title}@{seen[title]}")
    return result


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
            return slot.name.rpartition(".")[0] or slot.name, id(slot.store)
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


def _last_use(traced: Traced, home: dict[fx.Node, int], end: int) -> dict[fx.Node, int]:
    """The last stage that reads each value; ``end`` for the outputs."""
    last: dict[fx.Node, int] = {}
    for node, k in home.items():
        for source in node.all_input_nodes:
            last[source] = max(k, last.get(source, 0))
    for node in traced.outputs:
        if isinstance(node, fx.Node):
            last[node] = end
    return last


def _root_value(node: fx.Node, k: int, traced: Traced, home: dict[fx.Node, int]) -> fx.Node:
    """The value whose memory ``node`` shares, followed back to what stage ``k`` starts from."""
    while home.get(node) == k:
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
            source: fx.Node | None = target
            while source is not None and source not in traced.direct:
                source = effects.base(source, traced.modules)
            if source is not None:
                slot = traced.direct[source]
                if not slot.buffer:
                    raise ValueError(
                        f"forward writes to the parameter {slot.name!r} in place ({node.target}), "
                        "which no replay can repeat: do it outside forward"
                    )
                changed.add(slot)
    return changed


def _part(
    title: str,
    k: int,
    group: _Group,
    traced: Traced,
    names: Names,
    home: dict[fx.Node, int],
    last: dict[fx.Node, int],
    changed: set[Slot],
) -> Part:
    """Build the executable stage of one group of nodes."""
    modules = traced.modules
    sources = dict.fromkeys(s for node in group.nodes for s in node.all_input_nodes)
    outside = [s for s in sources if home.get(s) != k]
    direct = [s for s in outside if s in traced.direct]
    reads = [s for s in outside if _is_value(s, traced)]
    overwritten = {
        _root_value(target, k, traced, home)
        for node in group.nodes
        for target in effects.written(node, modules)
    }
    graph = fx.Graph()
    local: dict[fx.Node, fx.Node] = {}
    attributes: dict[str, Any] = {}
    for source in (*direct, *reads):
        local[source] = graph.placeholder(source.name)
    for source in outside:
        if source in traced.constants:
            attributes[source.name] = traced.constants[source]
            local[source] = graph.get_attr(source.name)
    for source in reads:
        if source in overwritten:
            # The caller keeps the env for other replays, so the stage writes to a copy.
            local[source] = graph.call_function(torch.clone, (local[source],))
    called: dict[str, nn.Module] = {}
    short: dict[str, str] = {}
    for node in group.nodes:
        local[node] = graph.node_copy(node, local.__getitem__)
        if node.op == "call_module":
            target = str(node.target)
            alias = short.setdefault(target, f"m{len(short)}")
            called[alias] = modules[target]
            local[node].target = alias
    rewritten = [s for s in reads if s in overwritten and last[s] > k]
    writes = [node for node in group.nodes if last.get(node, -1) > k]
    graph.output(tuple(local[node] for node in (*writes, *rewritten)))
    body = fx.GraphModule(_root(called, attributes), graph)
    slots = [slot for module in called.values() for slot in names.of(module)]
    state, idle = [traced.direct[s] for s in direct if traced.direct[s] in changed], []
    for module in called.values():
        more, unused = changing(module, names)
        state += more
        idle += unused
    return Part(
        title,
        body,
        reads=[s.name for s in reads],
        writes=[s.name for s in (*writes, *rewritten)],
        direct=[traced.direct[s] for s in direct],
        swapped=slots,
        state=state,
        idle=idle,
        random=max((_randomness(node, traced) for node in group.nodes), default=0),
        opaque=not all(is_leaf(module) for module in called.values()),
    )


def _randomness(node: fx.Node, traced: Traced) -> int:
    """Randomness of a node, and of the subgraphs handed to it."""
    found = effects.node_randomness(node, traced.modules)
    for source in node.all_input_nodes:
        inner = traced.constants.get(source)
        if isinstance(inner, fx.GraphModule):
            found = max(found, *(effects.node_randomness(n, {}) for n in inner.graph.nodes))
    return found


def _root(called: dict[str, nn.Module], attributes: dict[str, Any]) -> nn.Module:
    """A module that holds what the graph of a stage refers to."""
    root = nn.Module()
    for name, value in {**called, **attributes}.items():
        setattr(root, name, value)
    return root


class Applied(nn.Module):
    """Modules applied one after the other; the first may take several arguments."""

    def __init__(self, modules: Sequence[nn.Module], *, first: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(modules)
        self.first = first
        self.each = tuple(modules)  # without the way through the registry

    def forward(self, value: Any, kwargs: Any = None) -> tuple[Any]:
        """Apply the modules to a value, or the first of them to (args, kwargs)."""
        fresh = self.first
        for module in self.each:
            value = module(*value, **kwargs) if fresh else module(value)
            fresh = False
        return (value,)


def _is_sequence(module: nn.Module) -> bool:
    """Whether a module is its children one after the other, and nothing else."""
    runs_children = type(module).forward is nn.Sequential.forward
    return isinstance(module, nn.Sequential) and runs_children and not hooked(module)


def flatten(model: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The children of (nested) Sequentials, with their paths, in execution order."""
    for name, child in model._modules.items():
        if child is None:
            continue
        where = f"{path}.{name}" if path else name
        if _is_sequence(child):
            yield from flatten(child, where)
        else:
            yield where, child


def is_plain(model: nn.Module) -> bool:
    """Whether a model is a Sequential of layers that need no finer cut."""
    return _is_sequence(model) and all(
        is_leaf(child) or not list(child.children()) for _, child in flatten(model)
    )


def layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The children a Sequential is cut into; a ValueError for other models."""
    if not _is_sequence(model):
        raise ValueError("the model is not a plain nn.Sequential")
    return list(flatten(model))


def modules_as_parts(modules: Sequence[tuple[str, nn.Module]], names: Names) -> list[Part]:
    """One part per module with parameters; the others join the one before them."""
    groups: list[tuple[str, list[nn.Module]]] = []
    named = False
    for name, module in modules:
        has_parameters = next(module.parameters(), None) is not None
        if not groups or (has_parameters and named):
            groups.append((name, [module]))
        else:
            groups[-1][1].append(module)
            if has_parameters:
                groups[-1] = (name, groups[-1][1])
        named = named or has_parameters
    titles = unique(name for name, _ in groups)
    parts = []
    for k, (title, (_, members)) in enumerate(zip(titles, groups, strict=True)):
        state, idle = [], []
        for member in members:
            more, unused = changing(member, names)
            state += more
            idle += unused
        parts.append(
            Part(
                title,
                Applied(members, first=k == 0),
                reads=("args", "kwargs") if k == 0 else ("x",),
                writes=("x",),
                swapped=[slot for member in members for slot in names.of(member)],
                state=state,
                idle=idle,
                random=max(module_randomness(member) for member in members),
                opaque=True,
            )
        )
    link(parts, {"x"})
    return parts


def whole(model: nn.Module, names: Names) -> list[Part]:
    """The model as one stage."""
    return modules_as_parts([("model", model)], names)
