"""Operations that act on each channel alone, recognised in a torch.fx graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

__all__ = ["Norm", "Op", "classify", "reads_no_channel"]

Norm = nn.BatchNorm1d | nn.BatchNorm2d

_POINTWISE: dict[type[nn.Module], str] = {  # and the name of the function
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.LeakyReLU: "leaky_relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.ELU: "elu",
    nn.SELU: "selu",
    nn.CELU: "celu",
    nn.Mish: "mish",
    nn.Hardtanh: "hardtanh",
    nn.Hardswish: "hardswish",
    nn.Hardsigmoid: "hardsigmoid",
    nn.Softplus: "softplus",
    nn.Softsign: "softsign",
    nn.LogSigmoid: "logsigmoid",
}
_POINTWISE_FUNCTIONS = {
    getattr(home, name + tail)
    for home in (F, torch)
    for name in _POINTWISE.values()
    for tail in ("", "_")
    if hasattr(home, name + tail)
}
_POINTWISE_METHODS = {"relu", "relu_", "tanh", "tanh_", "sigmoid", "sigmoid_"}

_SILENT = {  # in eval mode they do nothing
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
}
_DROPOUTS: dict[Any, bool] = {  # and whether they drop unless told otherwise
    F.dropout: True,
    F.dropout1d: True,
    F.dropout2d: True,
    F.dropout3d: True,
    F.alpha_dropout: False,
    F.feature_alpha_dropout: False,
}

_MAX = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
_AVG = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_ADAPTIVE = ("output_size", "return_indices")
_POOLS: dict[Any, tuple[str, ...]] = {
    nn.MaxPool2d: _MAX,
    F.max_pool2d: _MAX,
    torch.max_pool2d: _MAX,
    nn.AvgPool2d: _AVG,
    F.avg_pool2d: _AVG,
    nn.AdaptiveMaxPool2d: _ADAPTIVE,
    F.adaptive_max_pool2d: _ADAPTIVE,
    nn.AdaptiveAvgPool2d: _ADAPTIVE,
    F.adaptive_avg_pool2d: _ADAPTIVE,
}

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
    unknown = f"{node.name} is not known to act on each channel alone"
    if not node.args or node.args[0] is not before:
        return unknown
    if node.target is torch.reshape or _calls(node, "view", "reshape"):
        return _reshape(node, batch)
    if node.all_input_nodes != [before]:
        return unknown
    if node.op == "call_module":
        return _module(model.get_submodule(str(node.target)), node.name) or unknown
    extra, options = node.args[1:], dict(node.kwargs)
    target: Any = node.target

    def named(names: tuple[str, ...]) -> dict[str, Any]:
        return dict(zip(names, extra, strict=False)) | options

    if target is torch.flatten or _calls(node, "flatten"):
        ends = named(("start_dim", "end_dim"))
        return _flatten(ends.get("start_dim", 0), ends.get("end_dim", -1), node.name)
    if _calls(node, *_POINTWISE_METHODS):
        return Op("point", lambda x: getattr(x, target)())
    if _calls(node, "contiguous"):
        return Op("same")
    if node.op != "call_function":
        return unknown
    if target in _POINTWISE_FUNCTIONS:
        return Op("point", lambda x: target(x, *extra, **options))
    if target in _DROPOUTS:
        if named(("p", "training")).get("training", _DROPOUTS[target]) and not training:
            return f"{node.name} drops at random even in eval mode"
        return Op("same")
    if target in _POOLS:
        return _pool(target, named(_POOLS[target]), node.name)
    return unknown


def _module(module: nn.Module, name: str) -> Op | str | None:
    kind = type(module)
    if module._forward_hooks or module._forward_pre_hooks:
        return f"{name} has forward hooks"
    if kind in _POINTWISE:
        return Op("point", module)
    if kind in _SILENT:
        return Op("same")
    if kind in _POOLS:
        return _pool(kind, {key: getattr(module, key, None) for key in _POOLS[kind]}, name)
    if isinstance(module, nn.Flatten) and kind is nn.Flatten:
        return _flatten(module.start_dim, module.end_dim, name)
    if isinstance(module, Norm) and kind in (nn.BatchNorm1d, nn.BatchNorm2d):
        if module.running_mean is None or module.running_var is None:
            return f"{name} has no running statistics"
        return Op("norm", norm=module)
    return None


def _flatten(start: Any, end: Any, name: str) -> Op | str:
    return Op("flatten") if (start, end) == (1, -1) else f"{name} does not flatten to (batch, -1)"


def _pool(target: Any, options: dict[str, Any], name: str) -> Op | str:
    if options.get("return_indices"):
        return f"{name} returns indices"
    padded = _any(options.get("padding") or 0, 0)
    if padded and _any(options.get("dilation") or 1, 1):
        return f"{name} may take the maximum over padding alone"
    average = _POOLS[target] is _AVG
    zeros_in = average and padded and options.get("count_include_pad", True)
    return Op("pool", steady=not zeros_in and options.get("divisor_override") is None)


def _any(value: Any, plain: int) -> bool:
    return any(v != plain for v in (value if isinstance(value, (tuple, list)) else (value,)))


def _reshape(node: fx.Node, batch: set[fx.Node]) -> Op | str:
    shape = node.args[1:]
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if node.kwargs or len(shape) != 2 or shape[1] != -1 or not isinstance(shape[0], fx.Node):
        return f"{node.name} does not flatten to (batch, -1): write flatten(1)"
    size = shape[0]
    if size.target is operator.getitem and size.args[1] == 0:
        size = _node(size.args[0])
        known = _is_shape(size)
    else:
        known = _is_size_of_batch(size)
    if known and size.args[0] in batch:
        return Op("flatten")
    return f"{node.name} has a first dimension that is not known to be the batch"


def _calls(node: fx.Node, *methods: str) -> bool:
    return node.op == "call_method" and node.target in methods


def _node(value: Any) -> fx.Node:
    assert isinstance(value, fx.Node)
    return value


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
