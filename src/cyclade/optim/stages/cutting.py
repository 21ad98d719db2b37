"""Choosing how to cut a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from torch import fx, nn
from torch.utils import _pytree as pytree

from cyclade.optim._warn import warn_user
from cyclade.optim.stages.chain import Chain, CutWarning, Program
from cyclade.optim.stages.inputs import Inputs, Names, Signature, parameter_names
from cyclade.optim.stages.parts import Env, is_plain, layers, modules_as_parts
from cyclade.optim.stages.recording import Traced, export, trace
from cyclade.optim.stages.splitting import split
from cyclade.optim.stages.structure import refuse_unrepeatable

__all__ = ["Attempt", "CutWarning", "attempt", "cut", "runs_whole"]


_STACKS = (nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)


@dataclass
class Attempt:
    """A chain, and for one that could not be cut the ways that were tried."""

    chain: Chain
    reasons: list[str] = field(default_factory=list)
    needs_example: bool = False  # whether an example might give more stages

    def warn(self) -> None:
        """Say why the model could not be cut, if it could not."""
        if not self.reasons:
            return
        advice = "rewrite forward without control flow on values, or give stages="
        if self.needs_example:
            advice = "give example=Inputs(args, kwargs) so that torch.export can try, " + advice
        warn_user(
            CutWarning(
                f"{type(self.chain.model).__name__} could not be cut into stages, so every block "
                "pays for a full pass. Tried " + "; ".join(self.reasons) + f". To cut it: {advice}"
            )
        )


def cut(
    model: nn.Module,
    *,
    example: Inputs | None = None,
    stages: Sequence[nn.Module] | None = None,
) -> Chain:
    """Cut a model into a chain of stages, one per use of a layer's parameters.

    In order of preference: the modules given as ``stages``, applied one after the other; the
    children of an ``nn.Sequential``; ``torch.fx``; ``torch.export``, which needs an ``example``
    call; and the whole model as a single stage, with a warning. Modules that cannot be replayed
    are refused with a ValueError.
    """
    made = attempt(model, example=example, stages=stages)
    made.warn()
    return made.chain


def attempt(
    model: nn.Module,
    *,
    example: Inputs | None = None,
    stages: Sequence[nn.Module] | None = None,
) -> Attempt:
    """The same without the warning."""
    refuse_unrepeatable(model)
    if stages is not None:
        given = _given(model, stages)
        return Attempt(Chain(model, "stages", _builder(model, "stages", given)))
    stacked = any(isinstance(m, _STACKS) for m in model.modules())
    if stacked and example is not None:
        # One layer to fx, many to export.
        ways = ["export", "fx"]
    elif is_plain(model):
        ways = ["sequential"]
    elif isinstance(model, nn.Sequential):
        # fx may see into blocks that are one stage each otherwise.
        ways = ["fx", "sequential", "export"]
    else:
        ways = ["fx", "export"]
    if stacked and is_plain(model) and "sequential" not in ways:
        ways.append("sequential")
    reasons = []
    for how in ways:
        try:
            chain = Chain(model, how, _builder(model, how), example)
        except Exception as error:
            reasons.append(f"{how}: {_first_line(error)}")
            continue
        return Attempt(chain, needs_example=stacked and example is None)
    return Attempt(runs_whole(model).chain, reasons, needs_example=example is None)


def runs_whole(model: nn.Module) -> Attempt:
    """The model as a single stage."""
    return Attempt(Chain(model, "whole", _builder(model, "whole", [("model", model)])))


def _builder(
    model: nn.Module, how: str, stages: Sequence[tuple[str, nn.Module]] | None = None
) -> Callable[[Signature | None, Inputs | None], Program]:
    """What cuts the model in one way for a kind of call; it raises where that does not work."""
    names = Names(model)

    def build(called: Signature | None, inputs: Inputs | None) -> Program:
        refuse_unrepeatable(model)
        if how == "fx":
            assert called is not None
            return _traced(trace(model, called, names), names)
        if how == "export":
            if inputs is None:
                raise ValueError("torch.export needs an example batch (example=Inputs(...))")
            return _traced(export(model, inputs, names), names)
        return Program(modules_as_parts(layers(model) if stages is None else stages, names))

    return build


def _traced(traced: Traced, names: Names) -> Program:
    parts = split(traced, names)
    needed = {*parts[0].reads, *parts[0].passes}
    wanted = [
        (k, node.name)
        for k, node in enumerate(traced.inputs)
        if node is not None and node.name in needed
    ]
    outputs = [_output(value, traced) for value in traced.outputs]

    def enter(leaves: list[Any]) -> Env:
        return {name: leaves[k] for k, name in wanted}

    def leave(env: Env) -> Any:
        return pytree.tree_unflatten([output(env) for output in outputs], traced.out_spec)

    return Program(parts, enter, leave, traced.fits)


def _output(value: Any, traced: Traced) -> Callable[[Env], Any]:
    """How one leaf of the result is found in the last env."""
    if not isinstance(value, fx.Node):
        # A leaf may itself be a structure fx recorded, with nodes inside.
        return lambda env: fx.node.map_arg(value, lambda node: env[node.name])
    if value in traced.direct:
        return lambda env: traced.direct[value].get()
    if value in traced.constants:
        return lambda env: traced.constants[value]
    return itemgetter(value.name)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _given(model: nn.Module, stages: Sequence[nn.Module]) -> list[tuple[str, nn.Module]]:
    """The user's stages with the paths they have in the model."""
    names = Names(model)
    if not stages:
        raise ValueError("stages is empty: give the modules in the order they are applied")
    paths = {id(module): path for path, module in model.named_modules(remove_duplicate=True)}
    given = []
    for k, module in enumerate(stages):
        if not isinstance(module, nn.Module):
            raise ValueError(f"stages[{k}] is a {type(module).__name__}, not an nn.Module")
        given.append((paths.get(id(module)) or f"stage{k}", module))
    used = parameter_names(slot for _, module in given for slot in names.of(module))
    missing = [name for name in names.parameters if name not in set(used)]
    if missing:
        raise ValueError(f"stages leave out parameters of the model: {missing}")
    return given
