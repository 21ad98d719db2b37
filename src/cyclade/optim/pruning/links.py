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
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from cyclade.optim.pruning.operations import Op, classify, reads_no_channel

__all__ = ["Link", "Links", "find_links"]

Layer = nn.Linear | nn.Conv2d


@dataclass
class Link:
    """Layer ``first`` feeds ``second``; each channel becomes ``k`` consecutive inputs of it."""

    first: Layer
    ops: list[Op]
    second_name: str
    second: Layer
    k: int


@dataclass
class Links:
    """Links by the name of their first layer, and why other layers' outputs or inputs stay."""

    links: dict[str, Link] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # so that reading a buffer directly is seen


@contextmanager
def _unmarked(model: nn.Module) -> Iterator[None]:
    """Undo what tracing leaves behind: flags, constants, values kept on the modules."""
    before = [(vars(module), dict(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for attributes, values in before:
            attributes.clear()
            attributes.update(values)


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
            raise ValueError(
                f"torch.fx cannot trace {type(model).__name__} in "
                f"{'training' if training else 'eval'} mode: {error}. prune follows the channels "
                "through the traced graph: write forward without control flow on values or shapes "
                "(flatten(1) for reshaping), or prune submodules that can be traced and share no "
                "layer with the rest"
            ) from error


def find_links(model: nn.Module) -> Links:
    """The links that hold both in eval and in training mode."""
    found = _Graph(model, training=False).walk()
    also = _Graph(model, training=True).walk()
    for name, link in list(found.links.items()):
        twin = also.links.get(name)
        if twin is None or twin.second is not link.second or twin.k != link.k:
            why = "in training mode " + also.outputs.get(name, "it feeds another layer")
            found.outputs[name] = why
            found.inputs[link.second_name] = f"fed by {name}: {why}"
            del found.links[name]
    return found


def _flat(first: Layer, ops: list[Op]) -> bool:
    """Whether the channels are spread over features, of which each is a number."""
    return isinstance(first, nn.Linear) or any(op.kind == "flatten" for op in ops)


class _Graph:
    """One traced graph and what its modules are used for."""

    def __init__(self, model: nn.Module, *, training: bool) -> None:
        self.model, self.training = model, training
        self.names = {id(m): name for name, m in model.named_modules()}
        self.calls: Counter[int] = Counter()
        self.bare: set[int] = set()  # modules whose tensors are read without a call
        self.holders: Counter[int] = Counter()
        self.layers: dict[str, fx.Node] = {}
        for module in model.modules():
            self.holders.update(id(p) for p in module._parameters.values() if p is not None)
        for node in _trace(model, training).nodes:
            if node.op == "call_module":
                module = self.module(node)
                self.calls[id(module)] += 1
                self.bare.update(id(m) for m in module.modules() if m is not module)
                if isinstance(module, Layer):
                    self.layers[self.names[id(module)]] = node
            elif node.op == "get_attr":
                owner: Any = model
                for part in str(node.target).split(".")[:-1]:
                    owner = getattr(owner, part)
                self.bare.add(id(owner))

    def module(self, node: fx.Node) -> nn.Module:
        return self.model.get_submodule(str(node.target))

    def is_layer(self, node: fx.Node) -> bool:
        return node.op == "call_module" and isinstance(self.module(node), Layer)

    def classify(self, node: fx.Node, before: fx.Node, batch: set[fx.Node]) -> Op | str:
        return classify(self.model, node, before, batch, self.training)

    def walk(self) -> Links:
        found = Links()
        for name, node in self.layers.items():
            link = self.follow(node)
            if isinstance(link, Link):
                found.links[name] = link
            else:
                found.outputs[name] = link
        linked = {link.second_name for link in found.links.values()}
        for name, node in self.layers.items():
            if name not in linked:
                found.inputs[name] = self.source(node, found.outputs)
        return found

    def follow(self, start: fx.Node) -> Link | str:
        """From a layer to the next one: the link, or why there is none."""
        first: Any = self.module(start)
        if why := self.blocked(first):
            return why
        node, batch, ops = start, set(self.chain(start, to_layer=False)), list[Op]()
        while True:
            batch.add(node)
            users = [user for user in node.users if not reads_no_channel(user)]
            if len(users) != 1:
                several = ", ".join(user.name for user in users)
                return f"its values have several users: {several}" if users else "it is not used"
            user = users[0]
            if user.op == "output":
                return "its values leave the model"
            if self.is_layer(user):
                return self.ended(first, ops, node, user)
            op = self.classify(user, node, batch)
            if isinstance(op, str):
                return op
            flat = _flat(first, ops)
            if why := self.unfit(op, user.name, first, flat):
                return why
            ops.append(Op("same") if flat and op.kind == "flatten" else op)
            node = user

    def unfit(self, op: Op, name: str, first: Layer, flat: bool) -> str | None:
        """Why a link cannot go on through this operation, if so."""
        if op.kind == "pool" and flat:
            return f"{name} mixes its outputs"
        if op.norm is None:
            return None
        if why := self.blocked(op.norm):
            return f"{name} stays: {why}"
        if isinstance(op.norm, nn.BatchNorm1d) is not flat:
            return f"{name} does not normalise over its channels"
        channels, features = first.weight.shape[0], op.norm.num_features
        if not flat and features != channels:
            return f"{name} has {features} features, not {channels}"
        return None

    def ended(self, first: Layer, ops: list[Op], node: fx.Node, user: fx.Node) -> Link | str:
        """The link, now that `user` calls the second layer, if that reads the channels."""
        second: Any = self.module(user)
        name = self.names[id(second)]
        if why := self.blocked(second):
            return f"the next layer, {name}, stays: {why}"
        width = second.weight.shape[1]
        k, rest = divmod(width, first.weight.shape[0])
        fits = rest == 0 and (k == 1 or isinstance(first, nn.Conv2d)) and user.args[:1] == (node,)
        flat_norms = (op.norm for op in ops if isinstance(op.norm, nn.BatchNorm1d))
        fits = fits and all(norm.num_features == width for norm in flat_norms)
        if not fits or _flat(first, ops) is not isinstance(second, nn.Linear):
            return f"the inputs of {name} are not its channels"
        return Link(first, ops, name, second, k)

    def source(self, node: fx.Node, outputs: dict[str, str]) -> str:
        """Why the inputs of this layer stay."""
        if why := self.blocked(self.module(node)):
            return why
        *_, origin = self.chain(node)
        if origin.op == "placeholder":
            return "its inputs are those of the model"
        if origin is node or not self.is_layer(origin):
            what = "something else" if origin is node else origin.name
            return f"fed by {what}, which is not a Linear or Conv2d"
        name = self.names[id(self.module(origin))]
        return f"fed by {name}: {outputs.get(name, 'linked elsewhere')}"

    def blocked(self, module: nn.Module) -> str | None:
        """Why this module must not change, if so."""
        held = [p for p in module._parameters.values() if p is not None]
        if type(module) not in (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d):
            return f"it is a {type(module).__name__}, not a plain layer"
        if isinstance(module, nn.Conv2d) and module.groups != 1:
            return f"it has groups = {module.groups}"
        if self.calls[id(module)] > 1:
            return f"it is called {self.calls[id(module)]} times"
        if id(module) in self.bare:
            return "its parameters are also read without calling it"
        if any(self.holders[id(p)] > 1 for p in held):
            return "its parameters are shared with another module"
        if module._forward_hooks or module._forward_pre_hooks:
            return "it has forward hooks"
        lacks = isinstance(module, Layer) and module._parameters.get("weight") is None
        if lacks or any(type(p) is not nn.Parameter for p in held):
            return "its weight is not a plain parameter"
        return None

    def chain(self, node: fx.Node, *, to_layer: bool = True) -> Iterator[fx.Node]:
        """The layer's call, and what is before it as far as each acts on the channels alone.

        It ends with the layer before, unless `to_layer` is false: then it goes on through that.
        """
        yield node
        while node.args and isinstance(before := node.args[0], fx.Node):
            layer = self.is_layer(node)
            if not layer and isinstance(self.classify(node, before, {before}), str):
                return
            yield before
            if to_layer and self.is_layer(before):
                return
            node = before
