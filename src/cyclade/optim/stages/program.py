"""A cut of the model for one mode and one kind of call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, ModuleType
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
    only their dropout rates decide how a stage is treated. A record (`recorded`) also holds what
    forward read from the globals of its code and from objects, such as a config.
    """

    def __init__(self, model: nn.Module, *, recorded: bool = False) -> None:
        self._modules = list(model.modules())
        self._first = next(
            ((m, k) for m in self._modules for k, p in m._parameters.items() if p is not None), None
        )
        self._fields: list[tuple[Any, str]] = []
        for module in self._modules:
            plain = type(module).__module__.startswith(("torch.nn.", "torch.ao.nn."))
            for name, value in vars(module).items():
                watched = name in _RATES if plain else not name.startswith("_")
                if watched and name != "training" and isinstance(value, _PLAIN):
                    self._fields.append((vars(module), name))
        if recorded:
            self._fields += _read_outside(self._modules)

    def now(self) -> tuple[Any, ...]:
        """The present condition."""
        where: Any = None
        if self._first is not None:
            tensor = self._first[0]._parameters[self._first[1]]
            where = None if tensor is None else (tensor.device, tensor.dtype)
        flags = [module.training for module in self._modules]
        return (where, *flags, *[fields.get(name) for fields, name in self._fields])

    def changed(self, before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
        """The name of the first number, flag or word that differs; "" if it is another thing."""
        own = 1 + len(self._modules)
        fields = zip(self._fields, before[own:], now[own:], strict=True)
        return next((name for (_, name), a, b in fields if a is not b and a != b), "")


def _read_outside(modules: Sequence[nn.Module]) -> list[tuple[Any, str]]:
    """Numbers, flags and words that the code of modules may read from globals and from objects."""
    found: dict[tuple[int, str], tuple[Any, str]] = {}
    done: set[type] = set()

    def look(holder: Any, name: str, value: Any, inside: bool = True) -> None:
        if isinstance(value, _PLAIN):
            found[id(holder), name] = (holder, name)
        elif inside and (content := _content(value)) is not None:
            for key, entry in content.items():
                if isinstance(key, str) and not key.startswith("__"):
                    look(content, key, entry, inside=False)

    for module in modules:
        if type(module).__module__.startswith("torch."):
            continue
        for name, value in vars(module).items():
            if not isinstance(value, (*_PLAIN, dict)):  # dicts: see `Structure`
                look(vars(module), name, value)
        if type(module) not in done:
            done.add(type(module))
            for holder, name in _names_read(type(module)):
                look(holder, name, holder.get(name))
    return list(found.values())


def _content(value: Any) -> dict[str, Any] | None:
    """What a dict or an object (a config, a namespace) holds; None for modules and the like."""
    if type(value) is dict:
        return value
    plain = not isinstance(value, (type, nn.Module, Tensor, ModuleType)) and not callable(value)
    held = getattr(value, "__dict__", None) if plain else None
    return held if isinstance(held, dict) else None


def _names_read(cls: type) -> Iterator[tuple[Any, str]]:
    """Where the methods of a class read globals and enclosing variables, and their names."""
    for base in cls.__mro__:
        if base.__module__.startswith("torch.") or base is object:
            continue
        for function in vars(base).values():
            if isinstance(function, FunctionType):
                names = function.__code__.co_names
                yield from ((function.__globals__, n) for n in names if n in function.__globals__)
                cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
                yield from ((_Cell(cell), name) for name, cell in cells)


class _Cell:
    """A variable of an enclosing function."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def get(self, name: str) -> Any:
        """Its value now; None before it has one."""
        try:
            return self._cell.cell_contents
        except ValueError:
            return None


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
