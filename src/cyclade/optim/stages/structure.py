"""Noticing that a model is no longer made of what it was made of when it was cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import is_
from typing import Any

from torch import Tensor, nn

__all__ = ["Structure", "hooked"]

_REGISTRIES = (
    "_modules", "_parameters", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
    "_backward_pre_hooks",
)  # fmt: skip
_HOOKS = _REGISTRIES[2:]
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
        # Registries that are empty, and what the others and the attributes hold: a look at them
        # belongs to every step, so it is one pass of C code over each.
        self._empty: list[dict[str, Any]] = []
        self._full: list[tuple[str, Any, list[Any]]] = []
        self._attributes: list[tuple[dict[str, Any], str, Any]] = []
        self._hooks: list[tuple[str, Tensor, list[Any]]] = []
        self._paths: dict[int, str] = {}
        for path, module in model.named_modules():
            state = vars(module)
            for name in _REGISTRIES:
                registry = state[name]
                self._paths[id(registry)] = path
                if registry:
                    self._full.append((path, registry, list(_content(registry))))
                else:
                    self._empty.append(registry)
            where = f"{path}." if path else ""
            attributes = [
                (name, value)
                for name, value in state.items()
                if name not in _OWN
                and not isinstance(value, _PLAIN)
                and f"{where}{name}" not in written
            ]
            for _, value in attributes:
                if type(value) in (list, dict):
                    self._full.append((path, value, list(_content(value))))
            # A forward may also be put on the instance afterwards.
            self._paths[id(state)] = path
            self._attributes += [(state, name, value) for name, value in attributes]
            self._attributes.append((state, "forward", state.get("forward")))
        for name, p in model.named_parameters():
            self._hooks.append((name, p, _hooks_of(p)))

    def changed(self) -> str | None:
        """Where the model has changed, or None."""
        if any(self._empty):
            grown = next(registry for registry in self._empty if registry)
            return self._paths[id(grown)] or "the model itself"
        for path, registry, values in self._full:
            if len(registry) != len(values) or not all(map(is_, _content(registry), values)):
                return path or "the model itself"
        for state, name, value in self._attributes:
            if state.get(name) is not value:
                return self._paths[id(state)] or "the model itself"
        for name, p, hooks in self._hooks:
            if p._backward_hooks or hooks:
                now = _hooks_of(p)
                if len(now) != len(hooks) or not all(map(is_, now, hooks)):
                    return name
        return None


def _content(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _hooks_of(p: Tensor) -> list[Any]:
    return list((p._backward_hooks or {}).values())
