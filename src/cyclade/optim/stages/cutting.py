"""Choosing how to cut a model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import nn

from cyclade.optim.stages import opaque, refusals
from cyclade.optim.stages.chain import Chain
from cyclade.optim.stages.inputs import Inputs, guess, signature
from cyclade.optim.stages.program import build
from cyclade.optim.stages.slots import Names, parameter_names

__all__ = ["CutWarning", "cut"]


_STACKS = (nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)


class CutWarning(UserWarning):
    """The model could not be cut into stages, so that every replay runs all of it."""


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
    refusals.check(model)
    names = Names(model)
    if stages is not None:
        given = _given(model, stages, names)
        return Chain(model, "stages", build("stages", names, None, None, given), stages=given)
    is_sequential = isinstance(model, nn.Sequential)
    if opaque.is_plain(model):
        ways = ["sequential"]
    elif is_sequential:
        # fx may see into blocks that are one stage each otherwise.
        ways = ["fx", "sequential", "export"]
    elif example is not None and any(isinstance(m, _STACKS) for m in model.modules()):
        # One layer to fx, many to export.
        ways = ["export", "fx"]
    else:
        ways = ["fx", "export"]
    called = guess(model) if example is None else signature(example)[0]
    reasons = []
    for how in ways:
        try:
            program = build(how, names, called, example)
        except Exception as error:
            reasons.append(f"{how}: {_first_line(error)}")
            continue
        return Chain(model, how, program, example=example)
    chain = Chain(model, "whole", build("whole", names, None, None))
    advice = "rewrite forward without control flow on values, or give stages="
    if example is None:
        advice = "give example=Inputs(args, kwargs) so that torch.export can try, " + advice
    warnings.warn(
        CutWarning(
            f"{type(model).__name__} could not be cut into stages, so every block pays for a full "
            f"pass. Tried " + "; ".join(reasons) + f". To cut it: {advice}"
        ),
        stacklevel=2,
    )
    return chain


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _given(
    model: nn.Module, stages: Sequence[nn.Module], names: Names
) -> list[tuple[str, nn.Module]]:
    """The user's stages with the paths they have in the model."""
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
