"""A cut of the model for one mode and one kind of call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from cyclade.optim.stages import exporting, opaque, refusals, tracing
from cyclade.optim.stages.inputs import Inputs, Signature
from cyclade.optim.stages.part import Env, Part
from cyclade.optim.stages.slots import Names
from cyclade.optim.stages.splitting import split

__all__ = ["PROGRAM", "Mode", "Program", "build", "shapes"]

_PLAIN = (bool, int, float, str, type(None))
_RATES = ("p", "dropout")
PROGRAM = "%program"  # the env's note of the cut it belongs to; no value can have this name


class Program:
    """Parts in execution order, and the ways into and out of their env."""

    def __init__(
        self,
        parts: Sequence[Part],
        enter: Callable[[Inputs, list[Any]], Env],
        leave: Callable[[Env], Any],
        fits: Callable[[list[Any]], bool] | None = None,
    ) -> None:
        self.fits = fits  # whether an export may serve a call of other sizes
        self.parts = tuple(parts)
        self.infos = [part.info for part in parts]
        self._enter = enter
        self.leave = leave
        for part in self.parts:
            part.passes = (*part.passes, PROGRAM)

    def enter(self, inputs: Inputs, leaves: list[Any]) -> Env:
        """The env before the first stage."""
        env = self._enter(inputs, leaves)
        env[PROGRAM] = self
        return env


class Mode:
    """What of a model's condition a cut bakes in: device, training flags, plain attributes.

    A forward may branch on any number or flag that a module carries, so a change of one (a
    temperature, a switch) must lead to a new cut. Layers of torch.nn read theirs when called;
    only their dropout rates decide how a stage is treated.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = list(model.modules())
        self._first = next(
            ((m, k) for m in self._modules for k, p in m._parameters.items() if p is not None), None
        )
        self._fields: list[tuple[dict[str, Any], str]] = []
        for module in self._modules:
            plain = type(module).__module__.startswith(("torch.nn.", "torch.ao.nn."))
            for name, value in vars(module).items():
                watched = name in _RATES if plain else not name.startswith("_")
                if watched and name != "training" and isinstance(value, _PLAIN):
                    self._fields.append((vars(module), name))

    def now(self) -> tuple[Any, ...]:
        """The present condition."""
        where: Any = None
        if self._first is not None:
            tensor = self._first[0]._parameters[self._first[1]]
            where = None if tensor is None else (tensor.device, tensor.dtype)
        flags = [module.training for module in self._modules]
        return (where, *flags, *[fields.get(name) for fields, name in self._fields])


def shapes(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The shapes and types of the tensors among ``leaves``, which an export bakes in."""
    return tuple((v.shape, v.dtype, v.device) if isinstance(v, Tensor) else v for v in leaves)


def build(
    how: str,
    names: Names,
    called: Signature | None,
    inputs: Inputs | None,
    stages: Sequence[tuple[str, nn.Module]] = (),
) -> Program:
    """Cut the model one particular way; raises when that way does not work."""
    model = names.model
    refusals.check(model)
    if how == "fx":
        assert called is not None
        return _traced(tracing.trace(model, called, names), names)
    if how == "export":
        if inputs is None:
            raise ValueError("torch.export needs an example batch (example=Inputs(...))")
        return _traced(exporting.export(model, inputs, names), names)
    if how == "whole":
        parts = opaque.whole(model, names)
    else:
        parts = opaque.modules_as_parts(stages if how == "stages" else opaque.layers(model), names)
    return Program(parts, _enter_modules, lambda env: env["x"])


def _enter_modules(inputs: Inputs, leaves: list[Any]) -> Env:
    return {"args": tuple(inputs.args), "kwargs": dict(inputs.kwargs)}


def _traced(traced: tracing.Traced, names: Names) -> Program:
    parts = split(traced, names)
    needed = {*parts[0].reads, *parts[0].passes}
    wanted = [
        (k, node.name)
        for k, node in enumerate(traced.inputs)
        if node is not None and node.name in needed
    ]
    outputs = [_output(value, traced) for value in traced.outputs]

    def enter(inputs: Inputs, leaves: list[Any]) -> Env:
        return {name: leaves[k] for k, name in wanted}

    def leave(env: Env) -> Any:
        return pytree.tree_unflatten([output(env) for output in outputs], traced.out_spec)

    return Program(parts, enter, leave, traced.fits)


def _output(value: Any, traced: tracing.Traced) -> Callable[[Env], Any]:
    """How one leaf of the result is found in the last env."""
    if not isinstance(value, fx.Node):
        # A leaf may itself be a structure fx recorded, with nodes inside.
        return lambda env: fx.node.map_arg(value, lambda node: env[node.name])
    if value in traced.direct:
        return lambda env: traced.direct[value].get()
    if value in traced.constants:
        return lambda env: traced.constants[value]
    name = value.name
    return lambda env: env[name]
