"""Where parameters and buffers live in a model, and how they are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn

__all__ = ["Names", "Slot", "parameter_names"]


class Slot:
    """One parameter or buffer: the registry of the module that owns it, and its canonical name.

    The registry is kept, not the tensor, because ``model.to(...)`` puts new buffers there.
    """

    __slots__ = ("attr", "buffer", "key", "name", "store")

    def __init__(self, store: dict[str, Any], attr: str, name: str, *, buffer: bool) -> None:
        self.store = store
        self.attr = attr
        self.name = name
        self.buffer = buffer
        self.key = (id(store), attr)

    def get(self) -> Tensor:
        """The tensor that lives there now."""
        tensor: Tensor = self.store[self.attr]
        return tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Slot({self.name!r})"


class Names:
    """Canonical names: the first name ``named_parameters()`` gives, also for tied parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._parameters = {id(p): name for name, p in model.named_parameters()}
        self._buffers = {id(b): name for name, b in model.named_buffers()}

    @property
    def parameters(self) -> tuple[str, ...]:
        """All canonical parameter names, in the order of the model."""
        return tuple(self._parameters.values())

    def slot(self, path: str) -> Slot | None:
        """The slot at a dotted path, or None when no parameter or buffer lives there."""
        owner_path, _, attr = path.rpartition(".")
        try:
            owner = self.model.get_submodule(owner_path)
        except AttributeError:
            return None
        return self._at(owner, attr)

    def of(self, module: nn.Module) -> Iterator[Slot]:
        """All slots of a module and its children, aliases included."""
        for owner in module.modules():
            yield from self.own(owner)

    def own(self, owner: nn.Module) -> Iterator[Slot]:
        """The slots of a module itself."""
        for attr in (*owner._parameters, *owner._buffers):
            slot = self._at(owner, attr)
            if slot is not None:
                yield slot

    def _at(self, owner: nn.Module, attr: str) -> Slot | None:
        for store, names, buffer in (
            (owner._parameters, self._parameters, False),
            (owner._buffers, self._buffers, True),
        ):
            tensor = store.get(attr)
            if tensor is not None:
                name = names.get(id(tensor))
                if name is None and not buffer:
                    raise ValueError(
                        f"{type(owner).__name__}.{attr} is not a parameter of the model: "
                        "every stage must be made of modules of the model"
                    )
                return Slot(store, attr, name or attr, buffer=buffer)
        return None


def parameter_names(slots: Iterable[Slot]) -> tuple[str, ...]:
    """The distinct canonical parameter names among ``slots``, in order."""
    return tuple(dict.fromkeys(slot.name for slot in slots if not slot.buffer))
