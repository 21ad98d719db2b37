"""Noticing that a model is no longer made of what it was made of when it was cut."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor, nn

__all__ = ["Structure", "hooked"]

_REGISTRIES = (
    "_modules", "_parameters", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
    "_backward_pre_hooks",
)  # fmt: skip
_HOOKS = _REGISTRIES[2:]
_OWN = frozenset(vars(nn.Module()))
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def hooked(module: nn.Module) -> bool:
    """Whether a call of this very module runs hooks."""
    return any(getattr(module, name) for name in _HOOKS)


class Structure:
    """The children, parameters, hooks and attributes of every module, to be compared by identity.

    Numbers, flags and strings are left to `Mode`, buffers to the stages, which read them from
    their modules, and attributes that forward itself writes (`written`) to nobody.
    """

    def __init__(self, model: nn.Module, written: Collection[str] = ()) -> None:
        self._held: list[tuple[str, dict[str, Any], list[tuple[str, Any]]]] = []
        self._hooks: list[tuple[str, Tensor, list[Any]]] = []
        for path, module in model.named_modules():
            state = vars(module)
            for name in _REGISTRIES:
                self._held.append((path, state[name], list(state[name].items())))
            where = f"{path}." if path else ""
            attributes = [
                (name, value)
                for name, value in state.items()
                if name not in _OWN
                and not isinstance(value, _PLAIN)
                and f"{where}{name}" not in written
            ]
            # A forward may also be put on the instance afterwards.
            attributes.append(("forward", state.get("forward")))
            self._held.append((path, state, attributes))
        for name, p in model.named_parameters():
            self._hooks.append((name, p, _hooks_of(p)))

    def changed(self) -> str | None:
        """Where the model has changed, or None."""
        for path, held, items in self._held:
            exact = "training" not in held  # a registry: nothing may be added either
            if (exact and len(held) != len(items)) or any(
                held.get(name) is not value for name, value in items
            ):
                return path or "the model itself"
        for name, p, hooks in self._hooks:
            if p._backward_hooks or hooks:
                now = _hooks_of(p)
                if len(now) != len(hooks) or any(
                    a is not b for a, b in zip(now, hooks, strict=True)
                ):
                    return name
        return None


def _hooks_of(p: Tensor) -> list[Any]:
    return list((p._backward_hooks or {}).values())
