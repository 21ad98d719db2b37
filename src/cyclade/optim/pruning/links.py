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
from contextlib import suppress
from typing import Any, NamedTuple

from torch import Tensor, fx, nn

from cyclade.optim.stages import effects
from cyclade.optim.stages.preserve import preserved

Norm = nn.BatchNorm1d | nn.BatchNorm2d
Layer = nn.Linear | nn.Conv2d

# What acts on each channel alone, by the names of torch's modules and functions, and of methods.
_NAMES = {
    "point": "ReLU ReLU6 LeakyReLU Tanh Sigmoid GELU SiLU ELU SELU CELU Mish Hardtanh Hardswish "
    "Hardsigmoid Softplus Softsign LogSigmoid relu relu_ relu6 leaky_relu leaky_relu_ tanh tanh_ "
    "sigmoid sigmoid_ gelu silu elu elu_ selu selu_ celu celu_ mish hardtanh hardtanh_ hardswish "
    "hardsigmoid softplus softsign logsigmoid",
    "same": "contiguous Identity Dropout Dropout1d Dropout2d Dropout3d AlphaDropout "
    "FeatureAlphaDropout",
    "drop": "dropout dropout1d dropout2d dropout3d",
    "max": "MaxPool2d max_pool2d",
    "average": "AvgPool2d avg_pool2d",
    "adaptive": "AdaptiveMaxPool2d adaptive_max_pool2d AdaptiveAvgPool2d adaptive_avg_pool2d",
    "flatten": "Flatten flatten",
    "norm": "BatchNorm1d BatchNorm2d",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_OPTIONS = {  # in the order in which functions take them
    "drop": "p training",
    "max": "kernel_size stride padding dilation ceil_mode return_indices",
    "average": "kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "adaptive": "output_size return_indices",
    "flatten": "start_dim end_dim",
}
_HARMLESS = ("device", "dtype", "ndim", "is_cuda", "requires_grad")  # no word about channels


class Op(NamedTuple):
    """One operation on each channel alone.

    ``kind`` is "point" (run maps a tensor entry by entry), "norm", "pool", "flatten" or "same".
    A pool with ``steady`` false turns a constant map into one that is not constant at the border.
    """

    kind: str
    run: Callable[[Tensor], Tensor] | None = None
    norm: Norm | None = None
    steady: bool = True


class Link(NamedTuple):
    """Layer ``first`` feeds ``second``; each channel becomes ``k`` consecutive inputs of it."""

    first: Layer
    ops: list[Op]
    second_name: str
    second: Layer
    k: int


class Links(NamedTuple):
    """Links by the name of their first layer, and why the outputs of other layers stay."""

    links: dict[str, Link]
    stay: dict[str, str]
    read_by: dict[str, str]  # the reader: the layer


def find_links(model: nn.Module) -> Links:
    """The links that hold both in eval and in training mode."""
    found, also = (_Graph(model, training).walk() for training in (False, True))
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


class _Graph:
    """One traced graph and what its modules are used for."""

    def __init__(self, model: nn.Module, training: bool) -> None:
        self.training, self.modules = training, dict(model.named_modules())
        self.names = {id(m): name for name, m in self.modules.items()}
        self.calls: Counter[int] = Counter()
        self.bare: set[int] = set()  # modules whose tensors are read without a call
        self.layers: dict[str, fx.Node] = {}
        self.holders = Counter(id(p) for m in model.modules() for p in _held(m))
        for node in _trace(model, training).nodes:
            if node.op == "call_module":
                module = self.module(node)
                self.calls[id(module)] += 1
                self.bare.update(id(m) for m in module.modules() if m is not module)
                if isinstance(module, Layer):
                    self.layers[self.names[id(module)]] = node
            elif node.op == "get_attr":
                owner = self.modules.get(str(node.target).rpartition(".")[0])
                self.bare.add(id(owner))

    def module(self, node: fx.Node) -> Any:
        return self.modules[str(node.target)]

    def is_layer(self, node: fx.Node) -> bool:
        return node.op == "call_module" and isinstance(self.module(node), Layer)

    def walk(self) -> Links:
        found = Links({}, {}, {})
        for name, node in self.layers.items():
            try:
                found.links[name] = self.follow(node)
            except _End as end:
                found.stay[name] = str(end)
            _, *before = self.before(node)
            if layer := next(filter(self.is_layer, before), None):
                found.read_by[name] = self.names[id(self.module(layer))]
        return found

    def before(self, node: fx.Node) -> Iterator[fx.Node]:
        """The layer's call, and what is before it as far as each acts on the channels alone."""
        yield node
        with suppress(_End):
            while node.args and isinstance(source := node.args[0], fx.Node):
                if not self.is_layer(node):
                    self.classify(node, source, {source})
                yield source
                node = source

    def follow(self, start: fx.Node) -> Link:
        """The link from a layer to the next one."""
        first = self.module(start)
        self.check(first, "")
        node, batch, ops = start, set(self.before(start)), list[Op]()
        while True:
            batch.add(node)
            users = [user for user in node.users if not _reads_no_channel(user)]
            if len(users) != 1:
                several = "its values have several users: " + ", ".join(u.name for u in users)
                raise _End(several if users else "it is not used")
            user = users[0]
            if user.op == "output":
                raise _End("its values leave the model")
            flat = isinstance(first, nn.Linear) or any(op.kind == "flatten" for op in ops)
            if self.is_layer(user):
                return self.ended(first, ops, node, user, flat)
            op = self.classify(user, node, batch)
            if op.kind == "pool" and flat:
                raise _End(f"{user.name} mixes its outputs")
            if op.norm is not None:
                self.check(op.norm, f"{user.name} stays: ")
                if isinstance(op.norm, nn.BatchNorm1d) is not flat:
                    raise _End(f"{user.name} does not normalise over its channels")
                if not flat and op.norm.num_features != len(first.weight):
                    raise _End(f"{user.name} has other features than {len(first.weight)}")
            ops.append(Op("same") if flat and op.kind == "flatten" else op)
            node = user

    def ended(self, first: Layer, ops: list[Op], node: fx.Node, user: fx.Node, flat: bool) -> Link:
        """The link, now that `user` calls the second layer, if that reads the channels."""
        second = self.module(user)
        name = self.names[id(second)]
        self.check(second, f"the next layer, {name}, stays: ")
        width = second.weight.shape[1]
        k, rest = divmod(width, len(first.weight))
        fits = rest == 0 and (k == 1 or isinstance(first, nn.Conv2d)) and user.args[:1] == (node,)
        flat_norms = (op.norm for op in ops if isinstance(op.norm, nn.BatchNorm1d))
        fits = fits and all(norm.num_features == width for norm in flat_norms)
        if not fits or flat is not isinstance(second, nn.Linear):
            raise _End(f"the inputs of {name} are not its channels")
        return Link(first, ops, name, second, k)

    def check(self, module: nn.Module, who: str) -> None:
        """Raise where this module must not change."""
        kind, own, calls = type(module), _held(module), self.calls[id(module)]
        groups = getattr(module, "groups", 1)
        lacks = isinstance(module, Layer) and module._parameters.get("weight") is None
        odd = lacks or any(type(p) is not nn.Parameter for p in own)
        shared = any(self.holders[id(p)] > 1 for p in own)
        plain = kind in (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d)
        for trouble, why in (
            (not plain, f"it is a {kind.__name__}, not a plain layer"),
            (groups != 1, f"it has groups = {groups}"),
            (calls > 1, f"it is called {calls} times"),
            (id(module) in self.bare, "its parameters are also read without calling it"),
            (shared, "its parameters are shared with another module"),
            (_hooked(module), "it has forward hooks"),
            (odd, "its weight is not a plain parameter"),
        ):
            if trouble:
                raise _End(who + why)

    def classify(self, node: fx.Node, before: fx.Node, batch: set[fx.Node]) -> Op:
        """What ``node`` does to the channels of ``before``.

        ``batch`` holds the values whose first dimension is known to be the batch.
        """
        name, target = node.name, node.target
        called, word = node.op == "call_module", effects.name_of(node, self.modules)
        known = called or node.op == "call_method" or effects.is_known(target)
        if node.args[:1] == (before,) and known and word in ("view", "reshape"):
            return _reshape(node, batch)
        kind = _KINDS.get(word) if known else None
        if kind is None or node.args[:1] != (before,) or node.all_input_nodes != [before]:
            raise _End(f"{name} is not known to act on each channel alone")
        keys = _OPTIONS.get(kind, "").split()
        run: Any
        if called:
            run = self.module(node)
            if _hooked(run):
                raise _End(f"{name} has forward hooks")
            options = {key: getattr(run, key, None) for key in keys}
        else:
            call: Any = getattr(Tensor, target) if isinstance(target, str) else target
            run = lambda x: call(x, *node.args[1:], **node.kwargs)  # noqa: E731
            options = dict(zip(keys, node.args[1:], strict=False)) | node.kwargs
        if kind == "drop" and options.get("training", True) and not self.training:
            raise _End(f"{name} drops at random even in eval mode")
        whole = (options.get("start_dim", 0), options.get("end_dim", -1)) == (1, -1)
        if kind == "flatten" and not whole:
            raise _End(f"{name} does not flatten to (batch, -1)")
        if kind == "norm" and (run.running_mean is None or run.running_var is None):
            raise _End(f"{name} has no running statistics")
        if kind in ("max", "average", "adaptive"):
            return Op("pool", steady=_keeps_constants(kind, options, name))
        return Op(kind, run if kind == "point" else None, run if kind == "norm" else None)


def _held(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module._parameters.values() if p is not None]


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _keeps_constants(kind: str, options: dict[str, Any], name: str) -> bool:
    """Whether a pool maps constants to constants; refused where it does another thing."""

    def other(key: str, plain: int) -> bool:
        value = options.get(key) or plain
        return any(v != plain for v in (value if isinstance(value, (tuple, list)) else (value,)))

    if options.get("return_indices"):
        raise _End(f"{name} returns indices")
    padded = other("padding", 0)
    if padded and other("dilation", 1):
        raise _End(f"{name} may take the maximum over padding alone")
    zeros_in = kind == "average" and padded and options.get("count_include_pad", True)
    return not zeros_in and options.get("divisor_override") is None


def _reshape(node: fx.Node, batch: set[fx.Node]) -> Op:
    shape = node.args[1:]
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if node.kwargs or len(shape) != 2 or shape[1] != -1 or not isinstance(shape[0], fx.Node):
        raise _End(f"{node.name} does not flatten to (batch, -1): write flatten(1)")
    if _measured(shape[0]) not in batch:
        raise _End(f"{node.name} has a first dimension that is not known to be the batch")
    return Op("flatten")


def _calls(node: fx.Node, method: str) -> bool:
    return node.op == "call_method" and node.target == method


def _is_shape(node: Any) -> bool:
    whole = _calls(node, "size") and len(node.args) == 1 and not node.kwargs
    return whole or (node.target is getattr and node.args[1] == "shape")


def _measured(size: Any) -> Any:
    """The value whose first dimension a node is, as in x.size(0) and x.shape[0]; else None."""
    if _calls(size, "size") and (*size.args[1:], *size.kwargs.values()) == (0,):
        return size.args[0]
    entry = size.target is operator.getitem and size.args[1] == 0
    return size.args[0].args[0] if entry and _is_shape(size.args[0]) else None


def _reads_no_channel(user: fx.Node) -> bool:
    """Whether a user reads only what no channel can change, such as the batch size."""
    if (user.target is getattr and user.args[1] in _HARMLESS) or _calls(user, "dim"):
        return True
    readers = user.users if _is_shape(user) else [user]
    return all(_measured(reader) is not None for reader in readers)
