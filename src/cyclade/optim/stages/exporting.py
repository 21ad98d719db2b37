"""Cutting with ``torch.export``: for models whose Python code ``torch.fx`` cannot follow."""

from __future__ import annotations

import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from cyclade.optim.stages import randomness
from cyclade.optim.stages.inputs import Inputs, without_objects
from cyclade.optim.stages.preserve import preserved
from cyclade.optim.stages.slots import Names, Slot
from cyclade.optim.stages.structure import hooked
from cyclade.optim.stages.tracing import Traced

__all__ = ["export"]

_PARAMETER_LIKE = (InputKind.PARAMETER, InputKind.BUFFER)
_VALUE = (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)


def export(model: nn.Module, inputs: Inputs, names: Names) -> Traced:
    """Record ``model``'s forward on ``inputs``, whose shapes become part of the record."""
    for path, module in model.named_modules():
        if hooked(module):
            raise ValueError(f"{path or 'the model itself'} has hooks, which the stages would skip")
    with preserved(model), torch.enable_grad(), _quiet():
        before = randomness.save(set())
        model.forward = _without_objects(model.forward)
        program = _exported(model, inputs)
        after = randomness.save(set())
    for source in ("python", "numpy"):
        if not randomness.same({source: before[source]}, after):
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
    outputs = _outputs(graph, signature, by_target)
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

    def size_fits(wanted: Any, size: int, bound: dict[str, int]) -> bool:
        name = str(wanted)
        if name.isdigit():  # a number, or a symbol that has been found to be one
            return int(name) == size
        if name not in limits or bound.setdefault(name, size) != size:
            return False
        return bool(limits[name].lower <= size) and bool(size <= limits[name].upper)

    def fits(leaves: list[Any]) -> bool:
        bound: dict[str, int] = {}
        for node, leaf in zip(called, leaves, strict=True):
            wanted = None if node is None else node.meta.get("val")
            if not isinstance(wanted, Tensor) or not isinstance(leaf, Tensor):
                if isinstance(wanted, Tensor) or isinstance(leaf, Tensor):
                    return False
                continue  # constants belong to the signature of the call
            alike = wanted.dtype == leaf.dtype and wanted.device == leaf.device
            if not alike or wanted.dim() != leaf.dim():
                return False
            pairs = zip(wanted.shape, leaf.shape, strict=True)
            if not all(size_fits(a, b, bound) for a, b in pairs):
                return False
        return True

    return fits


def _without_objects(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward whose output export can describe; training has no use for the rest."""

    @functools.wraps(forward)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        return without_objects(forward(*args, **kwargs))

    return filtered


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


def _outputs(graph: fx.Graph, signature: Any, by_target: dict[str, fx.Node]) -> list[Any]:
    """The leaves of the result; changed buffers are written back inside the graph."""
    end = graph.output_node()
    outputs: list[Any] = []
    returned: Any = end.args[0]
    for value, spec in zip(returned, signature.output_specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            outputs.append(value)
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            with graph.inserting_before(end):
                graph.call_method("copy_", (by_target[spec.target], value))
        else:
            raise ValueError(f"torch.export made an output of unknown kind {spec.kind.name}")
    return outputs
