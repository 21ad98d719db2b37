"""Watching a forward for what a cut would drop: hooks, custom gradients, writes to parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

__all__ = ["Watch", "custom_functions", "nodes"]

_HOOKS: dict[Any, str] = {torch.Tensor.register_hook: "Tensor.register_hook"}
_TOP = torch._C._autograd._top_saved_tensors_default_hooks


class Watch(TorchFunctionMode):
    """What a call does beside computing: `seen` counts it, `moved` has the parameters it wrote to.

    Parameters that are written to are copied before, and put back at the end of the watch.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.moved: dict[str, tuple[Tensor, Tensor]] = {}  # by name: itself, and as it was
        self.after: dict[str, Tensor] = {}  # the same, as the call left them
        self._at = {_storage(p): (n, p) for n, p in model.named_parameters() if p.numel()}
        self._saving = _TOP(False)
        self._inference = torch.is_inference_mode_enabled()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        hook = _HOOKS.get(func)
        if hook is not None:
            self.seen[hook] += 1
        if torch.is_inference_mode_enabled() and not self._inference:
            self.seen["torch.inference_mode"] = 1
        hooks = _TOP(False)
        if hooks is not None and hooks is not self._saving and not _of_torch(hooks):
            self.seen["saved_tensors_hooks"] = 1
        if _writes(name) or (kwargs and "out" in kwargs):
            self._keep((args[:1], (kwargs or {}).get("out")))
        return func(*args, **(kwargs or {}))

    def _keep(self, targets: Any) -> None:
        for tensor in pytree.tree_leaves(targets):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                name, p = self._at.get(_storage(tensor), ("", None))
                if p is not None and name not in self.moved:
                    self.moved[name] = (p, p.detach().clone())

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for name, (p, value) in self.moved.items():
                self.after[name] = p.detach().clone()
                p.copy_(value)


def _storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # fake tensors and the like have none
        return -1


def _writes(name: str) -> bool:
    """Whether a function of this name writes to its first argument."""
    if name.startswith("__i") or name in ("__setitem__", "__set__"):
        return name not in ("__int__", "__index__", "__invert__")
    return name.endswith("_") and not name.endswith("__")


def _of_torch(hooks: Any) -> bool:
    """Whether hooks on saved tensors are torch's own, which give back what they took."""
    return all(str(getattr(hook, "__module__", "")).startswith("torch.") for hook in hooks)


def custom_functions(loss: Tensor) -> Counter[str]:
    """The uses of `torch.autograd.Function` in the graph of a loss, by name."""
    found: Counter[str] = Counter()
    for node in nodes(loss):
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            found[f"autograd.Function {type(node).__name__.removesuffix('Backward')}"] += 1
    return found


def nodes(loss: Tensor) -> Iterator[Any]:
    """The nodes of a graph."""
    stack: list[Any] = [loss.grad_fn]
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(following for following, _ in node.next_functions)
