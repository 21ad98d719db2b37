"""Leaving a model and the process as they were: attributes, buffers, generators, threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from cyclade.optim._trees import pytree
from cyclade.optim.stages import effects
from cyclade.optim.stages.inputs import Inputs

_changed = threading.Condition()
_inside: set[int] = set()  # the threads that have a turn
_alone = False  # whether it is one that no other may run beside


@contextmanager
def in_turn(*, alone: bool) -> Iterator[None]:
    """Wait for a turn, `alone` or beside others that are not; a thread that has one keeps it."""
    global _alone
    me = threading.get_ident()
    if me in _inside:
        yield
        return
    with _changed:
        _changed.wait_for(lambda: not _alone and not (alone and _inside))
        _inside.add(me)
        _alone = alone
    try:
        yield
    finally:
        with _changed:
            _inside.remove(me)
            _alone = False
            _changed.notify_all()


_TOP = torch._C._autograd._top_saved_tensors_default_hooks


class Watch(TorchFunctionMode):
    """What a call does beside computing: `seen` counts it, `moved` has the parameters it wrote to.

    Parameters that are written to are copied before, and put back at the end of the watch. A model
    that holds compiled modules is not watched: torch.compile would trace the watch as well.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.moved: dict[str, tuple[Tensor, Tensor]] = {}  # by name: itself, and as it was
        self.after: dict[str, Tensor] = {}  # the same, as the call left them
        self._at = {_storage(p): (n, p) for n, p in model.named_parameters() if p.numel()}
        self._asleep = any("_orig_mod" in module._modules for module in model.modules())
        self._saving = _TOP(False)
        self._inference = torch.is_inference_mode_enabled()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if func is Tensor.register_hook:
            self.seen["Tensor.register_hook"] += 1
        if torch.is_inference_mode_enabled() and not self._inference:
            self.seen["torch.inference_mode"] = 1
        hooks = _TOP(False)
        if hooks is not None and hooks is not self._saving and not _of_torch(hooks):
            self.seen["saved_tensors_hooks"] = 1
        if effects.in_place(name) or (kwargs and "out" in kwargs):
            self._keep((args[:1], (kwargs or {}).get("out")))
        return func(*args, **(kwargs or {}))

    def _keep(self, targets: Any) -> None:
        for tensor in pytree.tree_leaves(targets):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                name, p = self._at.get(_storage(tensor), ("", None))
                if p is not None and name not in self.moved:
                    self.moved[name] = (p, p.detach().clone())

    def __enter__(self) -> Watch:
        if not self._asleep:
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        if not self._asleep:
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


def _of_torch(hooks: Any) -> bool:
    """Whether hooks on saved tensors are torch's own, which give back what they took."""
    return all(str(getattr(hook, "__module__", "")).startswith("torch.") for hook in hooks)


def custom_functions(loss: Tensor) -> Counter[str]:
    """The uses of `torch.autograd.Function` in the graph of a loss, by name."""
    return Counter(
        f"autograd.Function {type(node).__name__.removesuffix('Backward')}"
        for node in nodes(loss)
        if isinstance(node, torch.autograd.function.BackwardCFunction)
    )


def nodes(loss: Tensor) -> Iterator[Any]:
    """The nodes of a graph."""
    stack: list[Any] = [loss.grad_fn]
    seen: set[Any] = {None}
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(following for following, _ in node.next_functions)


_functorch = torch._C._functorch


class Places:
    """Tensors where modules hold them, with their values: a module may write to or replace one."""

    def __init__(self, places: Iterable[tuple[dict[str, Any], str]]) -> None:
        self._held = [
            (store, name, store[name], store[name].detach().clone(), version(store[name]))
            for store, name in places
        ]

    @torch.no_grad()
    def restore(self, *, counted: bool = False) -> None:
        """Put them back as they were; `counted`: each write to them was counted."""
        for store, name, tensor, value, seen in self._held:
            store[name] = tensor
            # Batch norm moves its statistics without counting it as a write.
            if version(tensor) != seen or not (counted or torch.equal(tensor, value)):
                tensor.copy_(value)


def buffers_of(model: nn.Module) -> list[tuple[dict[str, Any], str]]:
    """Where a model holds its buffers."""
    stores = [module._buffers for module in model.modules()]
    return [(store, name) for store in stores for name, b in store.items() if b is not None]


class Keep:
    """A record of a model's Python attributes, buffer values and of the random generators."""

    def __init__(self, model: nn.Module) -> None:
        # Each module with its path, attributes, and what the lists, dicts and sets among them held
        # (the registries _buffers, _modules, ... are dicts).
        self._modules = []
        for path, module in model.named_modules():
            saved = dict(vars(module))
            held = {k: v.copy() for k, v in saved.items() if type(v) in (list, dict, set)}
            self._modules.append((path, module, saved, held))
        plain = [(store, name) for store, name in buffers_of(model) if type(store[name]) is Tensor]
        self._buffers = Places(plain)
        self._rng = effects.save_rng(list(model.parameters()))

    def tensors(self) -> None:
        """Restore buffers and generators, but not what Python code has stored."""
        self._buffers.restore()
        effects.restore_rng(self._rng)

    def everything(self) -> None:
        """Restore all."""
        for _, module, saved, contents in self._modules:
            for name, content in contents.items():
                container = saved[name]
                container.clear()
                (container.extend if type(container) is list else container.update)(content)
            module.__dict__.clear()
            module.__dict__.update(saved)
        self.tensors()

    def changed(self) -> list[str]:
        """Names of the Python attributes that differ from the record."""
        names = []
        for path, module, saved, contents in self._modules:
            for name in {**saved, **module.__dict__}:
                old, now = saved.get(name), module.__dict__.get(name)
                if old is not now or (name in contents and not _alike(contents[name], now)):
                    names.append(f"{path}.{name}" if path else name)
        return names


def _alike(a: Any, b: Any) -> bool:
    """Whether two containers hold the same objects."""
    if isinstance(a, set):
        return bool(a == b)
    left, right = ([*c.items()] if isinstance(c, dict) else [(0, v) for v in c] for c in (a, b))
    return len(left) == len(right) and all(
        k == other and v is value for (k, v), (other, value) in zip(left, right, strict=True)
    )


def version(tensor: Tensor) -> int:
    """How often a tensor has been written to; inference tensors do not count."""
    return 0 if tensor.is_inference() else tensor._version


@contextmanager
def preserved_inputs(inputs: Inputs) -> Iterator[None]:
    """Call a model with the very tensors of its inputs, and leave them as they were."""
    leaves = pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
    given = {str(k): v for k, v in enumerate(leaves)}
    own = [k for k, v in given.items() if isinstance(v, Tensor) and not v.requires_grad]
    places = Places((given, k) for k in own)
    try:
        yield
    finally:
        places.restore(counted=True)


@contextmanager
def preserved(model: nn.Module) -> Iterator[Keep]:
    """Run a block of code that must leave no trace in ``model``, the generators or torch."""
    depth, dual = _functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level
    keep = Keep(model)
    try:
        yield keep
    finally:
        # A vmap or jvp that fails on symbolic values leaves its level open for every later call.
        if _functorch.get_dynamic_layer_stack_depth() > depth:
            _functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if dual < 0:  # no forward differentiation was under way
            forward_ad._current_level = dual
            with suppress(RuntimeError):
                torch._C._exit_dual_level(0)
        keep.everything()
