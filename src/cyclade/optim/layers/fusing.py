"""Finding the layers of a stage that can run in few kernels."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize

from cyclade.optim.layers.functions import linear, pooled
from cyclade.optim.stages.opaque import Applied
from cyclade.optim.stages.structure import hooked

_RELU = (F.relu, torch.relu, torch.relu_, F.relu_)
_POOL = (F.max_pool2d, torch.max_pool2d)


class PooledConv(nn.Module):
    """A convolution, a ReLU and a pooling in one; the weights stay where they are."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self._layer = (conv,)  # not registered: its parameters belong to the model

    def forward(self, x: Tensor) -> Tensor:
        """What the three give one after the other."""
        conv = self._layer[0]
        if not _is_conv(conv):
            raise RuntimeError("a Conv2d was changed after the optimizer was built: build it again")
        return pooled(x, conv.weight, conv.bias, int(conv.padding[0]))


class LinearReLU(nn.Module):
    """A linear layer, and its ReLU."""

    def __init__(self, layer: nn.Linear, relu: bool) -> None:
        super().__init__()
        self._layer, self._relu = (layer,), relu

    def forward(self, x: Tensor) -> Tensor:
        """What the two give one after the other."""
        return linear(x, self._layer[0].weight, self._layer[0].bias, self._relu)


def fused(body: nn.Module) -> nn.Module | None:
    """The body of a stage with such layers in one, or None where it has none."""
    if isinstance(body, fx.GraphModule):
        return _in_graph(body)
    if isinstance(body, Applied) and (modules := _in_a_row(body.each)) is not None:
        return Applied(modules, first=body.first)
    return None


def _in_a_row(modules: Sequence[nn.Module]) -> list[nn.Module] | None:
    """The same for modules that are applied one after the other."""
    found: list[nn.Module] = []
    k = 0
    while k < len(modules):
        one, length = _starting(modules[k : k + 3])
        found.append(modules[k] if one is None else one)
        k += length
    return None if len(found) == len(modules) and all(map(operator.is_, found, modules)) else found


def _starting(modules: Sequence[nn.Module]) -> tuple[nn.Module | None, int]:
    """The layer in one that these begin with, and how many of them it takes."""
    first, *rest = modules
    if _is_linear(first):
        relu = bool(rest) and _is_relu(rest[0])
        return LinearReLU(first, relu), 1 + relu  # type: ignore[arg-type]
    # The largest of four comes before or after the ReLU.
    pairs = (rest, rest[::-1]) if len(rest) == 2 and _is_conv(first) else ()
    if any(_is_relu(a) and _is_pool(b) for a, b in pairs):
        return PooledConv(first), 3  # type: ignore[arg-type]
    return None, 1


def _in_graph(body: fx.GraphModule) -> fx.GraphModule | None:
    root = nn.Module()
    for name, value in {**vars(body)["_modules"], **_constants(body)}.items():
        setattr(root, name, value)
    graph = fx.Graph()
    kept: dict[fx.Node, fx.Node] = {}
    replaced = False
    for node in body.graph.nodes:
        if node in kept:
            continue
        row = _row(node, body)
        one, length = _starting([kind for _, kind in row]) if row else (None, 1)
        if one is None:
            if node.op == "output":
                graph.output(fx.node.map_arg(node.args[0], kept.__getitem__))
            else:
                kept[node] = graph.node_copy(node, kept.__getitem__)
            continue
        replaced, name = True, f"fused_{node.name}"
        setattr(root, name, one)
        made = graph.call_module(name, (kept[node.args[0]],))
        # The values within have no other reader, so only the last is asked for.
        kept.update((inner, made) for inner, _ in row[:length])
    return fx.GraphModule(root, graph) if replaced else None


def _constants(body: fx.GraphModule) -> dict[str, Any]:
    names = [str(node.target) for node in body.graph.find_nodes(op="get_attr")]
    return {name: getattr(body, name) for name in names}


def _row(node: fx.Node, body: fx.GraphModule) -> list[tuple[fx.Node, nn.Module]]:
    """This node and up to two after it, each the only reader of the one before, as modules."""
    row: list[tuple[fx.Node, nn.Module]] = []
    while len(row) < 3:
        module = _as_module(node, body)
        if module is None:
            break
        row.append((node, module))
        if len(node.users) != 1:
            break
        node = next(iter(node.users))
    return row


def _as_module(node: fx.Node, body: fx.GraphModule) -> nn.Module | None:
    """The module that does what a node does, for the few kinds that are looked for."""
    if not node.args or not isinstance(node.args[0], fx.Node):
        return None
    if node.op == "call_module" and len(node.args) == 1 and not node.kwargs:
        return body.get_submodule(str(node.target))
    if node.op == "call_method" and node.target in ("relu", "relu_"):
        return nn.ReLU()
    if node.op == "call_function" and node.target in _RELU:
        return nn.ReLU()
    if node.op == "call_function" and node.target in _POOL:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
        given: dict[str, Any] = {
            **dict(zip(names, node.args[1:], strict=False)), **node.kwargs
        }  # fmt: skip
        if not any(isinstance(value, fx.Node) for value in given.values()):
            return nn.MaxPool2d(**given)
    return None


def _plain(module: nn.Module) -> bool:
    return not hooked(module) and not parametrize.is_parametrized(module)


def _is_linear(module: nn.Module) -> bool:
    return type(module) is nn.Linear and module.bias is not None and _plain(module)


def _is_relu(module: nn.Module) -> bool:
    return type(module) is nn.ReLU and _plain(module)


def _is_pool(module: nn.Module) -> bool:
    if type(module) is not nn.MaxPool2d or not _plain(module):
        return False
    same = all(size in (2, (2, 2), [2, 2]) for size in (module.kernel_size, module.stride))
    simple = module.padding in (0, (0, 0)) and module.dilation in (1, (1, 1))
    return same and simple and not module.ceil_mode and not module.return_indices


def _is_conv(module: nn.Module) -> bool:
    if type(module) is not nn.Conv2d or module.bias is None or not _plain(module):
        return False
    pads = module.padding
    even = not isinstance(pads, str) and pads[0] == pads[1]
    simple = module.stride == (1, 1) and module.dilation == (1, 1) and module.groups == 1
    return even and simple and module.padding_mode == "zeros"
