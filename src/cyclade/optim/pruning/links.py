"""Which layer reads which layer's channels: Linear and Conv2d pairs, found by torch.fx.

A link runs from one layer to the next through operations that act on each channel alone. Anything
that is not known to do so ends it, with the reason in words.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from cyclade.optim.pruning.operations import Op, classify, reads_no_channel

__all__ = ["Link", "Map", "find_links"]

Layer = nn.Linear | nn.Conv2d


@dataclass
class Link:
    """Layer ``first`` feeds ``second``; each channel becomes ``k`` consecutive inputs of it."""

    name: str
    first: Layer
    ops: list[Op]
    second_name: str
    second: Layer
    k: int


@dataclass
class Map:
    """Links by the name of their first layer, and why other layers' outputs or inputs stay."""

    links: dict[str, Link]
    outputs: dict[str, str]
    inputs: dict[str, str]


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # so that reading a buffer directly is seen


@contextmanager
def _unmarked(model: nn.Module) -> Iterator[None]:
    """Undo what tracing leaves behind: flags, constants, values kept on the modules."""
    before = [(module, dict(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes in before:
            vars(module).clear()
            vars(module).update(attributes)


def _trace(model: nn.Module, training: bool) -> fx.Graph:
    parameters = inspect.signature(model.forward).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    with _unmarked(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fx warns of defaults that it cannot assert
        for module in model.modules():
            module.training = training
        try:
            return _Tracer().trace(model, concrete_args=defaults or None)
        except Exception as error:
            mode = "training" if training else "eval"
            raise ValueError(
                f"torch.fx cannot trace {type(model).__name__} in {mode} mode: {error}. prune "
                "follows the channels through the traced graph: write forward without control "
                "flow on values or shapes (flatten(1) for reshaping), or prune submodules that "
                "can be traced and share no layer with the rest"
            ) from error


def find_links(model: nn.Module) -> Map:
    """The links that hold both in eval and in training mode."""
    found = _Graph(model, _trace(model, False), False).walk()
    also = _Graph(model, _trace(model, True), True).walk()
    for name, link in list(found.links.items()):
        twin = also.links.get(name)
        if twin is None or twin.second is not link.second or twin.k != link.k:
            why = "in training mode " + also.outputs.get(name, "it feeds another layer")
            found.outputs[name] = why
            found.inputs[link.second_name] = f"fed by {name}: {why}"
            del found.links[name]
    return found


class _Graph:
    """One traced graph and what its modules are used for."""

    def __init__(self, model: nn.Module, graph: fx.Graph, training: bool) -> None:
        self.model = model
        self.training = training
        self.nodes = list(graph.nodes)
        self.calls: Counter[int] = Counter()
        self.bare: set[int] = set()  # modules whose tensors are read without a call
        self.holders: Counter[int] = Counter()
        for module in model.modules():
            self.holders.update(id(p) for p in module._parameters.values() if p is not None)
        for node in self.nodes:
            if node.op == "call_module":
                module = self.module(node)
                self.calls[id(module)] += 1
                self.bare.update(id(m) for m in module.modules() if m is not module)
            elif node.op == "get_attr":
                owner: Any = model
                for part in str(node.target).split(".")[:-1]:
                    owner = getattr(owner, part)
                self.bare.add(id(owner))

    def module(self, node: fx.Node) -> nn.Module:
        return self.model.get_submodule(str(node.target))

    def classify(self, node: fx.Node, before: fx.Node, batch: set[fx.Node]) -> Op | str:
        return classify(self.model, node, before, batch, self.training)

    def walk(self) -> Map:
        names = {id(m): name for name, m in self.model.named_modules()}
        found = Map({}, {}, {})
        layers = {}
        for node in self.nodes:
            if node.op == "call_module" and isinstance(self.module(node), Layer):
                layers[names[id(self.module(node))]] = node
        for name, node in layers.items():
            link = self.follow(name, node, names)
            if isinstance(link, Link):
                found.links[name] = link
            else:
                found.outputs[name] = link
        linked = {link.second_name for link in found.links.values()}
        for name, node in layers.items():
            if name not in linked:
                found.inputs[name] = self.source(node, names, found)
        return found

    def follow(self, name: str, start: fx.Node, names: dict[int, str]) -> Link | str:
        """From a layer to the next one: the link, or why there is none."""
        first = self.module(start)
        if blocked := self.blocked(first):
            return blocked
        assert isinstance(first, Layer)
        flat = isinstance(first, nn.Linear)
        channels = first.weight.shape[0]
        batch = self.batch_mates(start)
        ops: list[Op] = []
        widths: list[int] = []  # of the norms behind a flatten
        node = start
        while True:
            batch.add(node)
            users = [user for user in node.users if not reads_no_channel(user)]
            if len(users) != 1:
                several = ", ".join(user.name for user in users)
                return f"its values have several users: {several}" if users else "it is not used"
            user = users[0]
            if user.op == "output":
                return "its values leave the model"
            if user.op == "call_module" and isinstance(self.module(user), Layer):
                break
            op = self.classify(user, node, batch)
            if isinstance(op, str):
                return op
            if op.kind == "norm":
                assert op.norm is not None
                if blocked := self.blocked(op.norm):
                    return f"{user.name} stays: {blocked}"
                if isinstance(op.norm, nn.BatchNorm1d) is not flat:
                    return f"{user.name} does not normalise over its channels"
                if flat:
                    widths.append(op.norm.num_features)
                elif op.norm.num_features != channels:
                    return f"{user.name} has {op.norm.num_features} features, not {channels}"
            elif op.kind == "pool" and flat:
                return f"{user.name} mixes its outputs"
            elif op.kind == "flatten":
                if flat:
                    op = Op("same")
                flat = True
            ops.append(op)
            node = user
        second = self.module(user)
        assert isinstance(second, Layer)
        second_name = names[id(second)]
        if blocked := self.blocked(second):
            return f"the next layer, {second_name}, stays: {blocked}"
        width = second.weight.shape[1]
        k, rest = divmod(width, channels)
        fits = rest == 0 and (k == 1 or isinstance(first, nn.Conv2d))
        if (
            flat is not isinstance(second, nn.Linear)
            or not fits
            or any(w != width for w in widths)
            or user.args[:1] != (node,)
        ):
            return f"the inputs of {second_name} are not its channels"
        return Link(name, first, ops, second_name, second, k)

    def source(self, node: fx.Node, names: dict[int, str], found: Map) -> str:
        """Why the inputs of this layer stay."""
        module = self.module(node)
        if blocked := self.blocked(module):
            return blocked
        origin = node.args[0] if node.args else None
        while isinstance(origin, fx.Node):
            if origin.op == "placeholder":
                return "its inputs are those of the model"
            if origin.op == "call_module" and isinstance(self.module(origin), Layer):
                name = names[id(self.module(origin))]
                return f"fed by {name}: {found.outputs.get(name, 'linked elsewhere')}"
            before = origin.args[0] if origin.args else None
            if not isinstance(before, fx.Node) or isinstance(
                self.classify(origin, before, {before}), str
            ):
                break
            origin = before
        return (
            f"fed by {getattr(origin, 'name', 'something else')}, which is not a Linear or Conv2d"
        )

    def blocked(self, module: nn.Module) -> str | None:
        """Why this module must not change, if so."""
        if type(module) not in (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d):
            return f"it is a {type(module).__name__}, not a plain layer"
        if isinstance(module, nn.Conv2d) and module.groups != 1:
            return f"it has groups = {module.groups}"
        if self.calls[id(module)] > 1:
            return f"it is called {self.calls[id(module)]} times"
        if id(module) in self.bare:
            return "its parameters are also read without calling it"
        held = [p for p in module._parameters.values() if p is not None]
        if any(self.holders[id(p)] > 1 for p in held):
            return "its parameters are shared with another module"
        if module._forward_hooks or module._forward_pre_hooks:
            return "it has forward hooks"
        if any(type(p) is not nn.Parameter for p in held) or (
            isinstance(module, Layer) and module._parameters.get("weight") is None
        ):
            return "its weight is not a plain parameter"
        return None

    def batch_mates(self, node: fx.Node) -> set[fx.Node]:
        """Values before this layer whose first dimension is the batch, too."""
        mates: set[fx.Node] = set()
        while node.args and isinstance(node.args[0], fx.Node):
            before = node.args[0]
            mates.add(before)
            layer = before.op == "call_module" and isinstance(self.module(before), Layer)
            if not layer and (
                not before.args
                or not isinstance(before.args[0], fx.Node)
                or isinstance(self.classify(before, before.args[0], set()), str)
            ):
                break
            node = before
        return mates
