"""Recording a model's forward as a graph: by ``torch.fx``, or by ``torch.export``."""

from __future__ import annotations

import dis
import functools
import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from operator import attrgetter
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.proxy import TraceError

from cyclade.optim._trees import pytree
from cyclade.optim.stages import effects
from cyclade.optim.stages.inputs import RUNTIME, Inputs, Names, Signature, Slot, without_objects
from cyclade.optim.stages.preserve import Watch, preserved
from cyclade.optim.stages.structure import hooked


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
_FACTORIES = ("arange", "zeros", "ones", "full", "empty", "eye", "linspace", "tensor")
_LIMITS = ("finfo", "iinfo")
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

    originals = {name: getattr(torch, name) for name in (*_FACTORIES, *_LIMITS, *_RANDOM)}
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


class _Call(nn.Module):
    """A module that takes one value, or the arguments of a call as two."""

    draws_random_numbers = False  # of its own

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, value: Any, kwargs: Any = None) -> Any:
        """The module's own result."""
        return self.module(value) if kwargs is None else self.module(*value, **kwargs)


def one_after_the_other(modules: Sequence[tuple[str, nn.Module]]) -> Traced:
    """The graph of modules that are called in a row, the first with the arguments of the call."""
    graph = fx.Graph()
    inputs = [graph.placeholder("args"), graph.placeholder("kwargs")]
    values, called = inputs, dict[str, nn.Module]()
    for name, module in modules:
        if name not in called:
            called[name] = module if called else _Call(module)
        values = [graph.call_module(name, tuple(values))]
    return Traced(graph, [*inputs], {}, {}, called, [*values], pytree.tree_flatten(None)[1])


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
        args, kwargs = pytree.tree_unflatten(leaves, self.called.spec)

        def call(root: nn.Module) -> list[Any]:
            result, self.out_spec = pytree.tree_flatten(root_fn(root, *args, **kwargs))
            return result

        return call, [self.root]


def trace(model: nn.Module, called: Signature, names: Names) -> Traced:
    """Record ``model``'s forward for such calls; a TraceError says what the record would lose."""
    if hooked(model):
        raise TraceError("the model itself has hooks, which the stages would skip")
    tracer = _Tracer(called)
    with preserved(model), torch.enable_grad(), _factories(tracer):
        held = {path: dict(module._buffers) for path, module in model.named_modules()}
        before = effects.save_rng()
        with Watch(model) as watch:
            graph = tracer.trace(model)
        if watch.moved:
            raise TraceError(f"forward writes to the parameter {next(iter(watch.moved))!r}")
        if not effects.same_rng(before, effects.save_rng()):
            raise TraceError("forward draws random numbers that do not depend on its inputs")
        _write_back(model, graph, held)
        direct: dict[fx.Node, Slot] = {}
        constants: dict[fx.Node, Any] = {}
        for node in graph.find_nodes(op="get_attr"):
            slot = names.slot(node.target)
            if slot is not None:
                direct[node] = slot
            else:
                constants[node] = attrgetter(node.target)(model)
    modules = {n.target: model.get_submodule(n.target) for n in graph.find_nodes(op="call_module")}
    placeholders = iter(graph.find_nodes(op="placeholder"))
    inputs = [next(placeholders) if leaf is RUNTIME else None for leaf in called.leaves]
    outputs = list(graph.output_node().args[0])  # type: ignore[arg-type]
    return Traced(graph, inputs, direct, constants, modules, outputs, tracer.out_spec)


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


_PARAMETER_LIKE = (InputKind.PARAMETER, InputKind.BUFFER)
_VALUE = (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)


def export(model: nn.Module, inputs: Inputs, names: Names) -> Traced:
    """Record ``model``'s forward on ``inputs``, whose shapes become part of the record."""
    for path, module in model.named_modules():
        if hooked(module):
            raise ValueError(f"{path or 'the model itself'} has hooks, which the stages would skip")
    forward = model.forward

    @functools.wraps(forward)
    def described(*args: Any, **kwargs: Any) -> Any:  # what export knows; training needs no more
        return without_objects(forward(*args, **kwargs))

    with preserved(model), torch.enable_grad(), _quiet():
        before = effects.save_rng()
        model.forward = described
        program = _exported(model, inputs)
        after = effects.save_rng()
    for source in ("python", "numpy"):
        if not effects.same_rng({source: before[source]}, after):
            raise ValueError(
                f"forward draws from {source}'s random numbers, which would be baked in"
            )
    graph = program.graph
    signature = program.graph_signature
    direct: dict[fx.Node, Slot] = {}
    constants: dict[fx.Node, Any] = {}
    called: list[fx.Node | None] = []
    by_target: dict[str, fx.Node] = {}
    for node, spec in zip(graph.find_nodes(op="placeholder"), signature.input_specs, strict=True):
        if spec.kind in _PARAMETER_LIKE:
            slot = names.slot(str(spec.target))
            if slot is None:
                raise ValueError(f"torch.export names an unknown parameter {spec.target!r}")
            direct[node] = slot
            by_target[str(spec.target)] = node
        elif spec.kind in _VALUE:
            constants[node] = program.constants[str(spec.target)]
        elif spec.kind is InputKind.USER_INPUT:
            called.append(node)
        else:
            raise ValueError(f"torch.export made an input of unknown kind {spec.kind.name}")
    for node in graph.find_nodes(op="get_attr"):
        constants[node] = getattr(program.graph_module, str(node.target))
    end = graph.output_node()
    outputs: list[Any] = []
    returned: Any = end.args[0]
    for value, made in zip(returned, signature.output_specs, strict=True):
        if made.kind is OutputKind.USER_OUTPUT:
            outputs.append(value)
        elif made.kind is OutputKind.BUFFER_MUTATION:  # written back inside the graph
            with graph.inserting_before(end):
                graph.call_method("copy_", (by_target[str(made.target)], value))
        else:
            raise ValueError(f"torch.export made an output of unknown kind {made.kind.name}")
    out_spec, fits = program.call_spec.out_spec, _fits(program, called)
    return Traced(graph, called, direct, constants, {}, outputs, out_spec, fits)


def _exported(model: nn.Module, inputs: Inputs) -> torch.export.ExportedProgram:
    """The record with sizes left open where the model allows it, else with those of the example."""
    args, kwargs = inputs.args, dict(inputs.kwargs)
    open_sizes: Any = torch.export.ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf in pytree.tree_leaves((args, kwargs)):
        if isinstance(leaf, Tensor) and leaf.dim():
            open_sizes[leaf] = dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO)
    try:
        return torch.export.export(model, args, kwargs, dynamic_shapes=open_sizes, strict=False)
    except Exception:
        return torch.export.export(model, args, kwargs, strict=False)


def _fits(
    program: torch.export.ExportedProgram, called: list[fx.Node | None]
) -> Callable[[list[Any]], bool]:
    """Whether a record may serve a call with these leaves: only its sizes may be others.

    torch does not hand over every condition on the sizes, so such a call must be verified.
    """
    limits = {str(symbol): limit for symbol, limit in program.range_constraints.items()}
    wanted = [None if node is None else node.meta.get("val") for node in called]

    def size_fits(name: str, size: int) -> bool:
        if name.isdigit():  # a number, or a symbol that has been found to be one
            return int(name) == size
        return name in limits and bool(limits[name].lower <= size <= limits[name].upper)

    def fits(leaves: list[Any]) -> bool:
        sizes: dict[str, int] = {}  # by symbol
        for value, leaf in zip(wanted, leaves, strict=True):
            if not isinstance(value, Tensor) and not isinstance(leaf, Tensor):
                continue  # constants belong to the signature of the call
            if not isinstance(value, Tensor) or not isinstance(leaf, Tensor):
                return False
            if (value.dtype, value.device, value.dim()) != (leaf.dtype, leaf.device, leaf.dim()):
                return False
            names = map(str, value.shape)
            if any(sizes.setdefault(n, k) != k for n, k in zip(names, leaf.shape, strict=True)):
                return False
        return all(size_fits(name, size) for name, size in sizes.items())

    return fits


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch.export's report of a failure off the screen: the caller tells the reason."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
