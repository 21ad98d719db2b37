"""What a model is made of: modules that are refused, and whether it has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import is_
from types import CellType, FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrizations
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_POWER_ITERATION = "runs a power iteration on every training forward, so no replay equals the first"


def _problem(module: nn.Module) -> str | None:
    """Why a module cannot be replayed and what to do about it, or None."""
    held = (*module._parameters.values(), *module._buffers.values())
    if any(tensor is not None and is_lazy(tensor) for tensor in held):
        return "is not initialised yet: run the model once on a batch before cutting it"
    if isinstance(module, parametrizations._SpectralNorm) and module.training:
        return f"{_POWER_ITERATION}: remove it (precondition='spectral' scales the step instead)"
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm):
            return f"{_POWER_ITERATION}: call torch.nn.utils.remove_spectral_norm on it"
        if isinstance(hook, WeightNorm):
            return (
                "keeps its computed weight (and the graph behind it) as an attribute: use "
                "torch.nn.utils.parametrizations.weight_norm instead of torch.nn.utils.weight_norm"
            )
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
        return "rewrites its weight in forward (max_norm): set max_norm=None"
    if isinstance(module, _WRAPPERS):
        return "wraps the model and reduces gradients by itself: give the inner .module"
    if any(cls.__module__.startswith("torch.distributed.fsdp") for cls in type(module).__mro__):
        return "is sharded by FSDP, so that its parameters are not its own: give the plain module"
    if "torch.jit" in type(module).__module__:
        return "is a TorchScript module, whose parameters cannot be exchanged: give the nn.Module"
    return None


def refuse_unrepeatable(model: nn.Module) -> None:
    """Raise a ValueError that names the first module which cannot be replayed."""
    for path, module in model.named_modules():
        problem = _problem(module)
        if problem is not None:
            where = f"module {path!r}" if path else "the model"
            raise ValueError(f"{where} ({type(module).__name__}) {problem}")


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_REGISTRIES = ("_modules", "_parameters", *_HOOKS)
# What torch.nn.Module has itself, and the lists of their parameters that LSTMs and GRUs renew.
_OWN = frozenset(vars(nn.Module())) | {"_flat_weights", "_flat_weight_refs"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def hooked(module: nn.Module) -> bool:
    """Whether a call of this very module runs hooks."""
    return any(getattr(module, name) for name in _HOOKS)


class Structure:
    """The children, parameters, hooks and attributes of every module, to be compared by identity.

    Numbers, flags and strings are left to `Mode`, buffers to the stages, which read them from
    their modules, and attributes that forward itself writes (`written`) to nobody. Lists and dicts
    are looked into; what other objects hold inside is not seen.
    """

    def __init__(self, model: nn.Module, written: Collection[str] = ()) -> None:
        # A look at them belongs to every step, so it is one pass of C code over each.
        self._contents: list[tuple[Any, list[Any]]] = []  # a list or dict, and what it holds
        self._attributes: list[tuple[dict[str, Any], list[str], list[Any]]] = []
        for path, module in model.named_modules():
            state, prefix = vars(module), f"{path}." if path else ""
            # A forward may also be put on the instance afterwards.
            names = ["forward"] + [
                name
                for name, value in state.items()
                if not (name in _OWN or f"{prefix}{name}" in written or isinstance(value, _PLAIN))
            ]
            values = [state.get(name) for name in names]
            self._attributes.append((state, names, values))
            held = [value for value in values if type(value) in (list, dict)]
            for container in (*(state[name] for name in _REGISTRIES), *held):
                self._contents.append((container, list(_entries(container))))
        self._hooks = [(p, list(_hooks_of(p))) for p in model.parameters()]

    def changed(self) -> bool:
        """Whether the model has changed."""
        return not (
            all(_same(_entries(container), values) for container, values in self._contents)
            and all(
                all(map(is_, map(state.get, names), values))
                for state, names, values in self._attributes
            )
            and all(_same(_hooks_of(p), hooks) for p, hooks in self._hooks)
        )


def _entries(container: Any) -> Collection[Any]:
    return container if type(container) is list else container.values()


def _hooks_of(p: Tensor) -> Collection[Any]:
    return p._backward_hooks.values() if p._backward_hooks else ()


def _same(now: Collection[Any], before: Collection[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


_BAKED = (bool, int, float, str, type(None))
_RATES = ("p", "dropout")


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
                if watched and name != "training" and isinstance(value, _BAKED):
                    self._fields.append((vars(module), name))
        if recorded:
            self._read_outside()

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

    def _read_outside(self) -> None:
        """Numbers, flags and words that code of modules may read from globals and from objects."""
        own = [m for m in self._modules if not type(m).__module__.startswith("torch.")]
        read = [
            (vars(module), name)
            for module in own
            for name, value in vars(module).items()
            if not isinstance(value, (*_BAKED, dict))  # dicts: see `Structure`
        ]
        read += [place for cls in {type(m): None for m in own} for place in _names_read(cls)]
        found: dict[tuple[int, str], tuple[Any, str]] = {}
        for holder, name in read:
            value = holder.get(name)
            for place in [(holder, name)] if isinstance(value, _BAKED) else _held_by(value):
                found[id(place[0]), place[1]] = place
        self._fields += found.values()


def _held_by(value: Any) -> list[tuple[Any, str]]:
    """The numbers, flags and words that a dict or an object (a config, a namespace) holds."""
    content = value if type(value) is dict else None
    if content is None and not callable(value):
        known = isinstance(value, (type, nn.Module, Tensor, ModuleType))
        content = None if known else getattr(value, "__dict__", None)
    return [
        (content, name)
        for name, entry in (content.items() if isinstance(content, dict) else ())
        if isinstance(name, str) and not name.startswith("__") and isinstance(entry, _BAKED)
    ]


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
