"""Which layer reads which layer's channels: Linear and Conv2d pairs, found by torch.fx.

A link runs from one layer to the next through operations that act on each channel alone. Anything
that is not known to do so ends it, with the reason in words.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from cyclade.optim.stages import effects
from cyclade.optim.stages.preserve import preserved
from cyclade.optim.stages.structure import hooked

Norm = nn.BatchNorm1d | nn.BatchNorm2d
Layer = nn.Linear | nn.Conv2d

# What acts on each channel alone, by the names of torch's modules and functions, and of methods.
_NAMES = {
    "point": "ReLU ReLU6 LeakyReLU Tanh Sigmoid GELU SiLU ELU SELU CELU Mish Hardtanh Hardswish "
    "Hardsigmoid Softplus relu relu_ relu6 leaky_relu leaky_relu_ tanh tanh_ sigmoid sigmoid_ gelu "
    "silu elu selu celu mish hardtanh hardswish hardsigmoid softplus",
    "same": "contiguous Identity Dropout Dropout1d Dropout2d AlphaDropout dropout dropout2d",
    "pool": "MaxPool2d max_pool2d AvgPool2d avg_pool2d AdaptiveMaxPool2d adaptive_max_pool2d "
    "AdaptiveAvgPool2d adaptive_avg_pool2d",
    "flatten": "Flatten flatten",
    "norm": "BatchNorm1d BatchNorm2d",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


class Op(NamedTuple):
    """One operation of a kind in `_NAMES`; `module` is the batch norm if it is one."""

    kind: str
    run: Callable[[Tensor], Tensor]
    module: Any = None

    def keeps_constants(self) -> bool:
        """Whether a pool turns constant maps into the same ones; at a border it may not."""
        ones = torch.ones(1, 1, 64, 64)
        try:
            return bool((self.run(ones) == 1.0).all())
        except RuntimeError:  # its window is larger than that
            return False


@dataclass
class Link:
    """Layer ``first`` feeds ``second``; each channel becomes ``k`` consecutive inputs of it."""

    name: str
    first: Any
    ops: list[Op] = field(default_factory=list)
    second_name: str = ""
    second: Any = None
    k: int = 0

    @property
    def flat(self) -> bool:
        """Whether the channels are the last dimension."""
        return isinstance(self.first, nn.Linear) or any(op.kind == "flatten" for op in self.ops)


def find_links(model: nn.Module) -> Graph:
    """The links that hold both in eval and in training mode."""
    found, also = Graph(model, training=False), Graph(model, training=True)
    for name, link in list(found.links.items()):
        twin = also.links.get(name)
        if twin is None or twin.second is not link.second or twin.k != link.k:
            found.stay[name] = f"in training mode {also.stay.get(name, 'it feeds another layer')}"
            del found.links[name]
    return found


def _trace(model: nn.Module, training: bool) -> fx.Graph:
    parameters = inspect.signature(model.forward).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    tracer = fx.Tracer()
    tracer.proxy_buffer_attributes = True  # so that reading a buffer directly is seen
    with preserved(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fx warns of defaults that it cannot assert
        for module in model.modules():
            module.training = training
        try:
            return tracer.trace(model, concrete_args=defaults or None)
        except Exception as error:
            raise ValueError(
                f"torch.fx cannot trace {type(model).__name__} in "
                f"{'training' if training else 'eval'} mode: {error}. prune follows the channels "
                "through the traced graph: write forward without control flow on values or shapes "
                "(flatten(1) for reshaping), or prune submodules that can be traced and share no "
                "layer with the rest"
            ) from error


class _End(Exception):
    """Why a link does not go on."""


class Graph:
    """One traced graph: links by the name of their first layer, and why others' outputs stay."""

    def __init__(self, model: nn.Module, training: bool) -> None:
        self.training, self.modules = training, dict(model.named_modules())
        self.names = {id(m): name for name, m in self.modules.items()}
        self.calls: Counter[int] = Counter()
        self.bare: set[int] = set()  # modules whose tensors are read without a call
        self.holders = Counter(id(p) for m in model.modules() for p in m._parameters.values())
        self.links: dict[str, Link] = {}
        self.stay: dict[str, str] = {}
        self.read_by: dict[str, str] = {}  # the reader: the layer
        self._of: dict[Any, Link] = {}  # the link that each value belongs to
        nodes = list(_trace(model, training).nodes)
        for node in nodes:
            if node.op == "call_module":
                module = self.modules[str(node.target)]
                self.calls[id(module)] += 1
                self.bare.update(id(m) for m in module.modules() if m is not module)
            elif node.op == "get_attr":
                owner = self.modules.get(str(node.target).rpartition(".")[0])
                self.bare.add(id(owner))
        for node in nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            try:
                self.visit(node)
            except _End as end:
                for link in (self._of[n] for n in node.all_input_nodes if n in self._of):
                    self.stay.setdefault(link.name, str(end))
        for name in {link.name for link in self._of.values()} - self.links.keys():
            self.stay.setdefault(name, "it is not used")
        self.links = {n: link for n, link in self.links.items() if n not in self.stay}

    def visit(self, node: fx.Node) -> None:
        """Let the link of the node's input end here, or go on, and a layer begin its own."""
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        module = self.modules[str(node.target)] if node.op == "call_module" else None
        before = self._of.get(source)
        op = None
        if isinstance(module, Layer):
            name = self.names[id(module)]
            self._of[node] = Link(name, module)
            if why := self.why_kept(module):
                self.stay[name] = why
            if before:
                self.read_by[name] = before.name
        elif node.op == "output":
            raise _End("its values leave the model")
        else:
            op = self.classify(node, source, module)
        if source is None or before is None:
            return
        if op is not None:
            if op.kind == "flatten" and before.flat:
                op = op._replace(kind="same")
            self._of[node] = link = Link(before.name, before.first, [*before.ops, op])
        users = [user.name for user in source.users]
        if len(users) != 1:
            raise _End(f"its values have several users: {', '.join(users)}")
        if op is None:
            self.end(before, module)
        else:
            self.check(link, op, node.name)

    def end(self, link: Link, second: Any) -> None:
        """Keep a link that ends at the layer `second`, if that reads the channels."""
        name = self.names[id(second)]
        channels, width = len(link.first.weight), second.weight.shape[1]
        if why := self.why_kept(second):
            raise _End(f"the next layer, {name}, stays: {why}")
        k = width // channels
        fits = k * channels == width and (k == 1 or isinstance(link.first, nn.Conv2d))
        norms = [op.module for op in link.ops if isinstance(op.module, nn.BatchNorm1d)]
        fits = fits and all(norm.num_features == width for norm in norms)
        if not fits or link.flat is not isinstance(second, nn.Linear):
            raise _End(f"the inputs of {name} are not its channels")
        link.second_name, link.second, link.k = name, second, k
        self.links[link.name] = link

    def check(self, link: Link, op: Op, name: str) -> None:
        """Raise where the last operation of a link does not act on its channels alone."""
        norm, flat = op.module, link.flat
        if op.kind == "pool" and flat:
            raise _End(f"{name} mixes its outputs")
        if norm is None:
            return
        if why := self.why_kept(norm):
            raise _End(f"{name} stays: {why}")
        if norm.running_mean is None or norm.running_var is None:
            raise _End(f"{name} has no running statistics")
        wrong_size = not flat and norm.num_features != len(link.first.weight)
        if isinstance(norm, nn.BatchNorm1d) is not flat or wrong_size:
            raise _End(f"{name} does not normalise over its channels")

    def why_kept(self, module: nn.Module) -> str:
        """Why this module must not change, or ""."""
        kind, groups = type(module), getattr(module, "groups", 1)
        if kind not in (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d):
            return f"it is a {kind.__name__}, not a plain layer"
        if groups != 1:
            return f"it has groups = {groups}"
        if self.calls[id(module)] > 1:
            return f"it is called {self.calls[id(module)]} times"
        if id(module) in self.bare:
            return "its parameters are also read without calling it"
        if any(self.holders[id(p)] > 1 for p in module.parameters()):
            return "its parameters are shared with another module"
        return "it has hooks" if hooked(module) else ""

    def classify(self, node: fx.Node, source: fx.Node | None, module: nn.Module | None) -> Op:
        """What ``node`` does to the channels of ``source``."""
        name, target, word = node.name, node.target, effects.name_of(node, self.modules)
        known = node.op != "call_function" or effects.is_known(target)
        kind = _KINDS.get(word) if known else None
        if word in ("view", "reshape"):
            raise _End(f"{name} is not known to flatten to (batch, -1): write flatten(1)")
        if kind is None or node.all_input_nodes != [source] or node.args[:1] != (source,):
            raise _End(f"{name} is not known to act on each channel alone")
        if module is not None:
            if hooked(module):
                raise _End(f"{name} has hooks")
            if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
                raise _End(f"{name} does not flatten to (batch, -1)")
            return Op(kind, module, module if kind == "norm" else None)
        call: Any = getattr(Tensor, target) if isinstance(target, str) else target
        options = effects.arguments_of(node)
        if "dropout" in word and options.get("training", True) and not self.training:
            raise _End(f"{name} drops at random even in eval mode")
        if word == "flatten" and (*node.args[1:], *node.kwargs.values()) not in ((1,), (1, -1)):
            raise _End(f"{name} does not flatten to (batch, -1)")
        return Op(kind, lambda x: call(x, *node.args[1:], **node.kwargs))
