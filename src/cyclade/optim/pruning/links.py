"""Which layer reads which layer's channels: Linear and Conv2d pairs, found by torch.fx.

A link runs from one layer to the next through operations that act on each channel alone. Anything
that is not known to do so ends it, with the reason in words.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from cyclade.optim.stages.preserve import preserved

Norm = nn.BatchNorm1d | nn.BatchNorm2d

_NAMES = {
    "point": "ReLU ReLU6 LeakyReLU Tanh Sigmoid GELU SiLU ELU SELU CELU Mish Hardtanh Hardswish "
    "Hardsigmoid Softplus Softsign LogSigmoid relu relu_ relu6 leaky_relu leaky_relu_ tanh tanh_ "
    "sigmoid sigmoid_ gelu silu elu elu_ selu selu_ celu celu_ mish hardtanh hardtanh_ hardswish "
    "hardsigmoid softplus softsign logsigmoid",
    "same": "Identity Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
    "drop": "dropout dropout1d dropout2d dropout3d",
    "drop if told": "alpha_dropout feature_alpha_dropout",
    "max": "MaxPool2d max_pool2d",
    "average": "AvgPool2d avg_pool2d",
    "adaptive": "AdaptiveMaxPool2d adaptive_max_pool2d AdaptiveAvgPool2d adaptive_avg_pool2d",
    "flatten": "Flatten flatten",
    "norm": "BatchNorm1d BatchNorm2d",
}
_KINDS: dict[Any, str] = {  # of torch's modules and functions
    getattr(home, name): kind
    for kind, names in _NAMES.items()
    for name in names.split()
    for home in (nn, F, torch)
    if hasattr(home, name)
}
_METHODS = {
    **dict.fromkeys(("relu", "relu_", "tanh", "tanh_", "sigmoid", "sigmoid_"), "point"),
    "contiguous": "same", "flatten": "flatten",
}  # fmt: skip
_OPTIONS = {  # in the order in which functions take them
    "drop": ("p", "training"),
    "drop if told": ("p", "training"),
    "max": ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"),
    "average": ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
                "divisor_override"),
    "adaptive": ("output_size", "return_indices"),
    "flatten": ("start_dim", "end_dim"),
}  # fmt: skip

_HARMLESS = {"device", "dtype", "ndim", "is_cuda", "requires_grad"}  # no word about channels


@dataclass
class Op:
    """One operation on each channel alone.

    ``kind`` is "point" (run maps a tensor entry by entry), "norm", "pool", "flatten" or "same".
    A pool with ``steady`` false turns a constant map into one that is not constant at the border.
    """

    kind: str
    run: Callable[[Tensor], Tensor] | None = None
    norm: Norm | None = None
    steady: bool = True


def classify(
    model: nn.Module, node: fx.Node, before: fx.Node, batch: set[fx.Node], training: bool
) -> Op | str:
    """What ``node`` does to the channels of ``before``, or why that is not known.

    ``batch`` holds the values whose first dimension is known to be the batch.
    """
    name, target = node.name, node.target
    unknown = f"{name} is not known to act on each channel alone"
    if not node.args or node.args[0] is not before:
        return unknown
    if target is torch.reshape or _calls(node, "view", "reshape"):
        return _reshape(node, batch)
    if node.all_input_nodes != [before]:
        return unknown
    if node.op == "call_module":
        module = model.get_submodule(str(target))
        if module._forward_hooks or module._forward_pre_hooks:
            return f"{name} has forward hooks"
        kind = _KINDS.get(type(module), "")
        options = {key: getattr(module, key, None) for key in _OPTIONS.get(kind, ())}
        return _operation(kind, options, module, name, training) or unknown
    method = node.op == "call_method"
    kind = _METHODS.get(str(target), "") if method else _KINDS.get(target, "")
    options = dict(zip(_OPTIONS.get(kind, ()), node.args[1:], strict=False)) | node.kwargs

    def run(x: Tensor) -> Any:
        call: Any = getattr(Tensor, str(target)) if method else target
        return call(x, *node.args[1:], **node.kwargs)

    return _operation(kind, options, run, name, training) or unknown


def _operation(
    kind: str, options: dict[str, Any], run: Any, name: str, training: bool
) -> Op | str | None:
    """The operation; or why it does not act on each channel alone; None where nobody knows it."""
    if kind in ("point", "same"):
        return Op(kind, run if kind == "point" else None)
    if kind in ("drop", "drop if told"):
        drops = options.get("training", kind == "drop") and not training
        return f"{name} drops at random even in eval mode" if drops else Op("same")
    if kind == "flatten":
        ends = options.get("start_dim", 0), options.get("end_dim", -1)
        return Op("flatten") if ends == (1, -1) else f"{name} does not flatten to (batch, -1)"
    if kind == "norm":
        if run.running_mean is None or run.running_var is None:
            return f"{name} has no running statistics"
        return Op("norm", norm=run)
    if kind in ("max", "average", "adaptive"):
        return _pool(kind, options, name)
    return None


def _pool(kind: str, options: dict[str, Any], name: str) -> Op | str:
    if options.get("return_indices"):
        return f"{name} returns indices"
    padded = _any(options.get("padding") or 0, 0)
    if padded and _any(options.get("dilation") or 1, 1):
        return f"{name} may take the maximum over padding alone"
    zeros_in = kind == "average" and padded and options.get("count_include_pad", True)
    return Op("pool", steady=not zeros_in and options.get("divisor_override") is None)


def _any(value: Any, plain: int) -> bool:
    return any(v != plain for v in (value if isinstance(value, (tuple, list)) else (value,)))


def _reshape(node: fx.Node, batch: set[fx.Node]) -> Op | str:
    shape = node.args[1:]
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if node.kwargs or len(shape) != 2 or shape[1] != -1 or not isinstance(shape[0], fx.Node):
        return f"{node.name} does not flatten to (batch, -1): write flatten(1)"
    size: Any = shape[0]
    if size.target is operator.getitem and size.args[1] == 0:
        size = size.args[0]
        known = _is_shape(size)
    else:
        known = _is_size_of_batch(size)
    if known and size.args[0] in batch:
        return Op("flatten")
    return f"{node.name} has a first dimension that is not known to be the batch"


def _calls(node: fx.Node, *methods: str) -> bool:
    return node.op == "call_method" and node.target in methods


def _is_shape(node: fx.Node) -> bool:
    whole = _calls(node, "size") and len(node.args) == 1 and not node.kwargs
    return whole or (node.target is getattr and node.args[1] == "shape")


def _is_size_of_batch(node: fx.Node) -> bool:
    return _calls(node, "size") and (*node.args[1:], *node.kwargs.values()) == (0,)


def reads_no_channel(user: fx.Node) -> bool:
    """Whether a user reads only what no channel can change, such as the batch size."""
    if (user.target is getattr and user.args[1] in _HARMLESS) or _calls(user, "dim"):
        return True
    if _is_shape(user):
        return all(u.target is operator.getitem and u.args[1] == 0 for u in user.users)
    return _is_size_of_batch(user)


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
    """Links by the name of their first layer, and why the outputs of other layers stay."""

    links: dict[str, Link] = field(default_factory=dict)
    stay: dict[str, str] = field(default_factory=dict)
    read_by: dict[str, str] = field(default_factory=dict)  # the reader: the layer


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # so that reading a buffer directly is seen


def _trace(model: nn.Module, training: bool) -> fx.Graph:
    parameters = inspect.signature(model.forward).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    with preserved(model), warnings.catch_warnings():
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
            found.stay[name] = f"in training mode {also.stay.get(name, 'it feeds another layer')}"
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
                found.stay[name] = link
            _, *before = self.before(node)
            if layer := next(filter(self.is_layer, before), None):
                found.read_by[name] = self.names[id(self.module(layer))]
        return found

    def follow(self, start: fx.Node) -> Link | str:
        """From a layer to the next one: the link, or why there is none."""
        first: Any = self.module(start)
        if why := self.blocked(first):
            return why
        node, batch, ops = start, set(self.before(start)), list[Op]()
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

    def before(self, node: fx.Node) -> Iterator[fx.Node]:
        """The layer's call, and what is before it as far as each acts on the channels alone."""
        yield node
        while node.args and isinstance(source := node.args[0], fx.Node):
            if not self.is_layer(node) and isinstance(self.classify(node, source, {source}), str):
                return
            yield source
            node = source
