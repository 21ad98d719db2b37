"""Cutting with ``torch.fx``: recording the model's forward as a graph."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import fx, nn
from torch.fx.proxy import TraceError
from torch.utils import _pytree as pytree

from cyclade.optim.stages import randomness
from cyclade.optim.stages.inputs import RUNTIME, Signature
from cyclade.optim.stages.preserve import preserved
from cyclade.optim.stages.slots import Names, Slot
from cyclade.optim.stages.structure import hooked
from cyclade.optim.stages.watching import Watch

__all__ = ["Traced", "is_leaf", "trace"]


@dataclass
class Traced:
    """A recorded forward: what the splitter needs, whichever way it was recorded."""

    graph: fx.Graph
    inputs: list[fx.Node | None]  # one per leaf of the call; None for a baked-in constant
    direct: dict[fx.Node, Slot]  # nodes that stand for a parameter or buffer of the model
    constants: dict[fx.Node, Any]  # nodes that stand for a value fixed when recording
    modules: dict[str, nn.Module]  # leaf modules the graph calls
    outputs: list[Any]  # leaves of the result: nodes or constants
    out_spec: Any
    fits: Callable[[list[Any]], bool] | None = None  # for calls of other sizes; None for any


# Factories take no tensor, so a symbolic size does not reach them; fx would miss the random ones.
_FACTORIES = (
    "arange",
    "zeros",
    "ones",
    "full",
    "empty",
    "eye",
    "linspace",
    "tensor",
    "finfo",
    "iinfo",
)
_RANDOM = ("rand", "randn", "randint", "randperm", "normal")


@contextmanager
def _factories(tracer: fx.Tracer) -> Iterator[None]:
    """Record calls such as ``torch.arange(t)`` with a symbolic ``t``, and every random factory."""
    me = threading.get_ident()  # what other threads draw is not the model's

    def recorder(original: Callable[..., Any], always: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != me:
                return original(*args, **kwargs)
            leaves = pytree.tree_leaves((args, kwargs))
            if always or any(isinstance(leaf, fx.Proxy) for leaf in leaves):
                return tracer.create_proxy("call_function", original, args, kwargs)
            return original(*args, **kwargs)

        return call

    originals = {name: getattr(torch, name) for name in (*_FACTORIES, *_RANDOM)}
    try:
        for name, original in originals.items():
            setattr(torch, name, recorder(original, name in _RANDOM))
        yield
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)


def _in_assert(frame: FrameType | None) -> bool:
    """Whether a frame is at the test of an ``assert`` statement."""
    if frame is None:
        return False
    rest = [i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti]
    rest = [i for i in rest if i.opname not in ("TO_BOOL", "NOT_TAKEN", "CACHE", "EXTENDED_ARG")]
    if len(rest) < 2 or not rest[0].opname.endswith("IF_TRUE"):
        return False
    return rest[1].opname == "LOAD_ASSERTION_ERROR" or rest[1].argval is AssertionError


def is_leaf(module: nn.Module) -> bool:
    """Whether a module is one layer: a torch.nn class, or one without children."""
    is_torch = type(module).__module__.startswith(("torch.nn.", "torch.ao.nn."))
    return is_torch and not isinstance(module, nn.Sequential)


def _autocast() -> tuple[bool, bool]:
    return torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")


class _Tracer(fx.Tracer):
    """A tracer that keeps the structure of the call and refuses what fx would silently drop."""

    proxy_buffer_attributes = True

    def __init__(self, called: Signature) -> None:
        super().__init__()
        self.called = called
        self.out_spec: Any = None
        self._modes = _autocast()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_leaf(m) or hooked(m)  # hooks of a container fire only if it is called

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if not torch.is_grad_enabled():
            raise TraceError("forward switches gradients off for a part (torch.no_grad)")
        if _autocast() != self._modes:
            raise TraceError("forward switches autocast on or off for a part")
        return super().create_node(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        # The shapes of parameters are constants; fx has no such proxy for buffers.
        self.param_shapes_constant = isinstance(attr_val, nn.Parameter)
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def to_bool(self, obj: fx.Proxy) -> bool:
        # Frames: here, Proxy.__bool__, the model's code.
        if _in_assert(sys._getframe(2)):
            return True
        return super().to_bool(obj)

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        leaves = [
            self.create_proxy("placeholder", f"input_{k}", (), {}) if leaf is RUNTIME else leaf
            for k, leaf in enumerate(self.called.leaves)
        ]
        args, kwargs = self.called.arguments(leaves)

        def call(root: nn.Module) -> list[Any]:
            result, self.out_spec = pytree.tree_flatten(root_fn(root, *args, **kwargs))
            return result

        return call, [self.root]


def trace(model: nn.Module, called: Signature, names: Names) -> Traced:
    """Record ``model``'s forward for calls of the given signature.

    Raises whatever the model's code raises on symbolic values, and TraceError for what the
    record would lose.
    """
    if hooked(model):
        raise TraceError("the model itself has hooks, which the stages would skip")
    tracer = _Tracer(called)
    with preserved(model), torch.enable_grad(), _factories(tracer):
        held = {path: dict(module._buffers) for path, module in model.named_modules()}
        before = randomness.save(set())
        with Watch(model) as watch:
            graph = tracer.trace(model)
        if watch.moved:
            raise TraceError(f"forward writes to the parameter {next(iter(watch.moved))!r}")
        if not randomness.same(before, randomness.save(set())):
            raise TraceError("forward draws random numbers that do not depend on its inputs")
        _write_back(model, graph, held)
        direct: dict[fx.Node, Slot] = {}
        constants: dict[fx.Node, Any] = {}
        for node in graph.find_nodes(op="get_attr"):
            slot = names.slot(node.target)
            if slot is not None:
                direct[node] = slot
            else:
                constants[node] = _attribute(model, node.target)
    modules = {n.target: model.get_submodule(n.target) for n in graph.find_nodes(op="call_module")}
    placeholders = iter(graph.find_nodes(op="placeholder"))
    inputs = [next(placeholders) if leaf is RUNTIME else None for leaf in called.leaves]
    outputs = list(graph.output_node().args[0])  # type: ignore[arg-type]
    return Traced(graph, inputs, direct, constants, modules, outputs, tracer.out_spec)


def _attribute(model: nn.Module, path: str) -> Any:
    value: Any = model
    for atom in path.split("."):
        value = getattr(value, atom)
    return value


def _write_back(model: nn.Module, graph: fx.Graph, held: dict[str, dict[str, Any]]) -> None:
    """Record that forward gave a buffer a new value: ``self.count += 1`` assigns under fx."""
    for path, module in model.named_modules():
        for attr, value in module._buffers.items():
            if value is held[path].get(attr):
                continue
            name = f"{path}.{attr}" if path else attr
            if not isinstance(value, fx.Proxy) or held[path].get(attr) is None:
                raise TraceError(f"forward puts another tensor in the place of the buffer {name!r}")
            with graph.inserting_before(graph.output_node()):
                buffer = graph.create_node("get_attr", name)
                graph.call_method("copy_", (buffer, value.node))
