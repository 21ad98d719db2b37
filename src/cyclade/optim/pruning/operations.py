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
