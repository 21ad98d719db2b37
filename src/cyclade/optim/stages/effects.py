"""What a model does besides computing: random draws, buffers that move, writes in place."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload

from cyclade.optim._trees import pytree
from cyclade.optim.stages.inputs import Names, Slot

NO, MAYBE, YES = 0, 1, 2
RngState = dict[torch.device | str, Any]

_OF_TORCH = ("torch.nn.", "torch.ao.nn.")
_RATES = ((nn.modules.dropout._DropoutNd, "p"), ((nn.MultiheadAttention, nn.RNNBase), "dropout"))


def _own(module: nn.Module) -> int:
    """Randomness of a module's own forward, its children left out."""
    if isinstance(module, (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)):
        return YES
    if not module.training:
        return NO
    if isinstance(module, nn.RReLU):
        return YES
    for kinds, rate in _RATES:
        if isinstance(module, kinds):
            return YES if getattr(module, rate) > 0 else NO
    if type(module).__module__.startswith(_OF_TORCH):
        return NO
    # Python code we cannot look into: it may draw, unless its author says that it does not.
    return NO if getattr(module, "draws_random_numbers", True) is False else MAYBE


def module_randomness(module: nn.Module) -> int:
    """NO, MAYBE or YES: does a call of ``module`` draw random numbers, in its present mode?"""
    return max(_own(m) for m in module.modules())


def save_rng(*values: Any) -> RngState:
    """The state of Python's, NumPy's and torch's generators, also on the devices of `values`."""
    state: RngState = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        torch.device("cpu"): torch.get_rng_state(),
    }
    leaves = [v for v in pytree.tree_leaves(values) if isinstance(v, (Tensor, torch.device))]
    for device in {v.device if isinstance(v, Tensor) else v for v in leaves}:
        if device.type not in ("cpu", "meta"):
            state[device] = torch.get_device_module(device).get_rng_state(device)
    return state


def restore_rng(state: RngState) -> None:
    """Put the generators back where they were."""
    for device, value in state.items():
        if device == "python":
            random.setstate(value)
        elif device == "numpy":
            np.random.set_state(value)  # noqa: NPY002
        elif torch.device(device).type == "cpu":
            torch.set_rng_state(value)
        else:
            torch.get_device_module(device).set_rng_state(value, device)


def same_rng(a: RngState, b: RngState) -> bool:
    """Whether no generator has moved between two states."""
    return all(_equal(a[device], b[device]) for device in a)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    return all(bool(np.all(x == y)) for x, y in zip(a, b, strict=True))


@contextmanager
def repeated(state: RngState) -> Iterator[None]:
    """Draw again from ``state``; afterwards the generators stand where they stood before."""
    now = save_rng(list(state))
    restore_rng(state)
    try:
        yield
    finally:
        restore_rng(now)


_NORM_FILES = ("torch.nn.modules.batchnorm", "torch.nn.modules.instancenorm")


def changing(modules: Iterable[nn.Module], names: Names) -> tuple[list[Slot], list[Slot]]:
    """The buffers that calls of `modules` may change, and those of them their outputs ignore.

    Batch and instance norm change their statistics in training mode and do not use them then.
    Other torch.nn layers change nothing. Any buffer of a class of the user's may change.
    """
    state: list[Slot] = []
    idle: list[Slot] = []
    for owner in (inner for module in modules for inner in module.modules() if inner._buffers):
        slots = [slot for slot in names.own(owner) if slot.buffer]
        home = type(owner).__module__
        if isinstance(owner, nn.modules.batchnorm._NormBase):
            if owner.training and owner.track_running_stats:
                state += slots
                if home in _NORM_FILES and not isinstance(owner, nn.SyncBatchNorm):
                    idle += slots
        elif not home.startswith("torch.nn.modules."):
            state += slots
    return state, idle


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_INPLACE_OPERATORS = _words(
    "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift setitem set"
)
_ARITHMETIC = _words("add sub mul div truediv iadd isub imul itruediv add_ sub_ mul_ div_")
_VIEWS = _words(
    "view view_as reshape reshape_as flatten unflatten transpose t permute squeeze unsqueeze T mT "
    "expand expand_as getitem getattr chunk split split_with_sizes tensor_split unbind select "
    "narrow slice movedim moveaxis swapaxes swapdims contiguous to type type_as float double half "
    "bfloat16 cpu cuda detach alias dropout identity Identity Flatten Unflatten Dropout diagonal "
    "real imag unfold as_strided ravel squeeze_ unsqueeze_"
)
_DRAWS = _words(
    "rand randn randint randperm normal bernoulli bernoulli_ multinomial poisson normal_ uniform_ "
    "exponential_ random_ cauchy_ geometric_ log_normal_ rand_like randn_like randint_like "
    "gumbel_softmax fractional_max_pool2d fractional_max_pool3d binomial native_dropout"
)
_TRAINING_DRAWS = _words(
    "dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout "
    "feature_alpha_dropout feature_alpha_dropout_ feature_dropout_ rrelu rrelu_ "
    "multi_head_attention_forward"
)
_NORMS = {"batch_norm": "training", "instance_norm": "use_input_stats"}


def name_of(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    """The bare name of what a node calls."""
    if node.op == "call_method":
        return str(node.target)
    if node.op == "call_module":
        return type(modules[str(node.target)]).__name__
    if isinstance(node.target, OpOverload):
        return str(node.target._schema.name).rpartition("::")[2]
    return str(getattr(node.target, "__name__", ""))


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """The arguments of a function node by name, as far as its signature is known."""
    if isinstance(node.target, OpOverload):
        schema = node.target._schema.arguments
        bound = {a.name: a.default_value for a in schema if a.has_default_value()}
        bound.update(zip((a.name for a in schema), node.args, strict=False))
        return {**bound, **node.kwargs}
    try:
        found = inspect.signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return dict(node.kwargs)  # a builtin has no signature
    found.apply_defaults()
    return dict(found.arguments)


def _first(node: fx.Node) -> Any:
    return node.args[0] if node.args else next(iter(node.kwargs.values()), None)


def in_place(name: str) -> bool:
    """Whether a method of this name writes to its object."""
    return name[2:-2] in _INPLACE_OPERATORS if name.startswith("__") else name.endswith("_")


def written(node: fx.Node, modules: dict[str, nn.Module]) -> list[fx.Node]:
    """The nodes whose values a node writes to in place."""
    found: list[Any] = []
    name, first = name_of(node, modules), _first(node)
    if node.op == "call_module":
        found = [first] if getattr(modules[str(node.target)], "inplace", False) else []
    elif node.op == "call_method":
        found = [first] if in_place(name) else []
    elif node.op == "call_function":
        arguments = arguments_of(node)
        if isinstance(node.target, OpOverload):
            for argument in node.target._schema.arguments:
                if argument.alias_info is not None and argument.alias_info.is_write:
                    found.append(arguments.get(argument.name))
        elif in_place(name) or (
            name in _INPLACE_OPERATORS and node.target.__module__ == "_operator"
        ):
            found.append(first)
        if arguments.get("inplace") is True:
            found.append(first)
        found.append(node.kwargs.get("out"))
        if name in _NORMS and arguments.get(_NORMS[name], True) is not False:
            # Running statistics are written without the schema saying so.
            found += [arguments.get("running_mean"), arguments.get("running_var")]
    return [value for value in found if isinstance(value, fx.Node)]


def base(node: fx.Node, modules: dict[str, nn.Module]) -> fx.Node | None:
    """The node whose memory a node's value may share, or None."""
    if node.op not in ("call_function", "call_method", "call_module"):
        return None
    overwritten = written(node, modules)
    if overwritten:
        return overwritten[0]
    first = _first(node)
    is_view = name_of(node, modules) in _VIEWS
    return first if is_view and isinstance(first, fx.Node) else None


def elementwise(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether a node is plain arithmetic, such as adding a bias or scaling by a gain."""
    return node.op != "call_module" and name_of(node, modules) in _ARITHMETIC


def node_randomness(node: fx.Node, modules: dict[str, nn.Module]) -> int:
    """NO, MAYBE or YES: does a node draw random numbers?"""
    if node.op == "call_module":
        return module_randomness(modules[str(node.target)])
    name = name_of(node, modules)
    if name in _DRAWS:
        return YES
    arguments = arguments_of(node) if node.op == "call_function" else {}
    if name in _TRAINING_DRAWS:
        training = arguments.get("training", arguments.get("train", True))
        p = arguments.get("p", arguments.get("dropout_p", 0.5))
        return NO if training is False or p == 0 else YES
    if name == "scaled_dot_product_attention":
        positional = node.args[4] if len(node.args) > 4 else 0.0
        p = node.kwargs.get("dropout_p", positional)
        return NO if isinstance(p, (int, float)) and p == 0 else YES
    if (
        isinstance(node.target, OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
    ):
        return YES
    if node.op == "call_function" and not is_known(node.target):
        # A function kept whole by torch.fx.wrap: its code is not seen.
        return NO if arguments.get("training") is False else MAYBE
    return NO


def is_known(function: Any) -> bool:
    """Whether a function comes with Python or torch, so that its name tells what it does."""
    home = str(getattr(function, "__module__", None) or "torch")
    return home.partition(".")[0] in ("torch", "_operator", "builtins", "math")
