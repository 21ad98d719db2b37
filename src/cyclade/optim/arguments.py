"""Checks of what a user gives to an optimizer."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from cyclade._checks import each, is_number, meant, non_negative, positive, require, whole_number
from cyclade.optim.cycle.schedule import Turns
from cyclade.optim.options import PRECONDITIONERS
from cyclade.sampling.orders import Greedy, OrderName

if TYPE_CHECKING:
    from cyclade.optim.optimizer import CyclicOptimizer

LEARNING_RATES: dict[str | None, float] = {
    None: 0.8, "momentum": 0.2, "one block": 0.2, "spectral": 0.8, "spectral-linear": 0.8,
    "curvature": 1.0, "adam": 1e-3,
}  # fmt: skip
"""Rates that train small nets in the first try (`docs/benchmarks/nets.md`), by preconditioner;
without one also by what else there is. Where nothing is said of the steps they are Adam's. With
momentum β they are multiplied by 1 − β."""

ADAGRAD_NORMS: dict[str | None, float] = {None: 1.0, "spectral": 1.0, "spectral-linear": 1.0}
"""c in Λ_j = √(1 + G_j/c²) where no lr is given, with G_j the sum of ‖g^j‖² so far. A net begins on
a plateau, where gradients are small and the steps stay large; they fall as gradients add up. No
block moves by more than the rate times c in a cycle."""

CLIP_NORMS: dict[str | None, float] = {
    None: 0.5, "momentum": 0.5, "one block": 1.0, "spectral": 0.5, "spectral-linear": 0.5,
}  # fmt: skip
"""At which norm the gradient of a block is clipped where no lr is given: single batches have
gradients many times the usual ones, along which a large step destroys what was learned."""

DAMPING: dict[str | None, float] = {"curvature": 10.0}
"""Λ_j = L_j + this: a net is nearly flat at its start and curves within some tens of cycles. For
other preconditioners it is a guard against 0."""

RECURSIVE_RATES: dict[str | None, float] = {
    None: 0.005, "spectral": 0.01, "spectral-linear": 0.01, "curvature": 0.05, "adam": 1e-3,
}  # fmt: skip
"""The same for methods that carry an estimate; with 0.005 the paper's LeNet is trained."""


def signature_of(cls: type) -> inspect.Signature:
    """The parameters of a class, with those that its `__init__` hands on as ``**options``."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        own = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        for one in own:
            if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
                found.setdefault(one.name, one)
        if not any(one.kind is one.VAR_KEYWORD for one in own):
            break
    return inspect.Signature(sorted(found.values(), key=lambda one: one.kind))


def check_names(label: str, options: Iterable[str], accepted: inspect.Signature) -> None:
    """Refuse options that a class does not have, with the one that may be meant."""
    names = list(accepted.parameters)
    for name in options:
        if name not in names:
            raise TypeError(
                f"{label} has no option {name!r}{meant(name, names)}; it takes {', '.join(names)}"
            )


def check_model(model: Any, precondition: str | None) -> nn.Module:
    """The model, out of the wrappers that torch.compile and DDP put around it."""
    if not isinstance(model, nn.Module):
        hint = ": give the model itself, not model.parameters()" if hasattr(model, "send") else ""
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}{hint}")
    found: nn.Module = model
    while isinstance(found, nn.parallel.DistributedDataParallel) or hasattr(found, "_orig_mod"):
        found = getattr(found, "_orig_mod", None) or found.module  # type: ignore[assignment]
    for name, p in found.named_parameters():
        if type(p).__name__ == "DTensor":  # FSDP2's `fully_shard`, tensor parallelism
            raise ValueError(
                f"{name} is a DTensor (fully_shard, or tensor parallelism), of which a rank has a "
                "shard: use cyclade.optim.sharded.ShardedSCCD or ShardedVROCCD, or give the plain "
                "model (each rank holds all of it)"
            )
        if p.requires_grad and p.is_complex() and precondition is not None:
            raise ValueError(
                f"{name} is complex, for which precondition={precondition!r} is not defined: use "
                "precondition=None, or keep real and imaginary parts as two real parameters"
            )
    return found


def check_loss(loss_fn: Any, model: nn.Module) -> None:
    """Refuse what is not a loss, and a loss with parameters that nobody would train."""
    if loss_fn is not None and not callable(loss_fn):
        hint = f" (a learning rate is lr={loss_fn!r})" if isinstance(loss_fn, float) else ""
        raise TypeError(f"loss_fn must be callable or None, got {type(loss_fn).__name__}{hint}")
    if isinstance(loss_fn, nn.Module):
        known = {id(p) for p in model.parameters()}
        for name, p in loss_fn.named_parameters():
            if p.requires_grad and id(p) not in known:
                raise ValueError(
                    f"loss_fn ({type(loss_fn).__name__}) has a parameter {name!r} that would never "
                    "be trained: make the loss part of a model that returns it (loss_fn=None), or "
                    "freeze it with requires_grad_(False)"
                )


def check_resident(
    opt: CyclicOptimizer, resident: Any, visit_steps: Any, steps: StepOptions, **refused: Any
) -> None:
    """Refuse what visits to one block at a time cannot have."""
    require(resident == "block", "resident", resident, "'block' or None")
    whole_number("visit_steps", visit_steps, 1)
    if opt.name != "SCCD":
        raise ValueError(f"resident='block' is for SCCD, not for {type(opt).__name__}")
    if steps.precondition not in (None, "adam") or steps.momentum:
        raise ValueError("resident='block' takes Adam's steps: leave precondition= and momentum=")
    for name, value in refused.items():
        if value:
            raise ValueError(f"resident='block' does not take {name}=: leave it out")


def check_capture(
    turns: Turns, parameters: Iterable[Tensor], *, recursive: bool, alone: bool
) -> None:
    """Refuse capture=True where nothing can be captured."""
    if isinstance(turns.order, Greedy):
        raise ValueError("capture=True cannot take order='greedy', which looks at every gradient")
    if not turns.fixed and (recursive or not alone):
        raise ValueError(
            "capture=True with a recursive method, or over several processes, needs an order that "
            "stays: forward, backward or a list"
        )
    if not all(p.is_cuda for p in parameters):
        raise ValueError(
            "capture=True needs a model on CUDA: move it there first, or give capture=False"
        )


@dataclass
class StepOptions:
    """The options of the steps, which every param group begins with; lr may be one a group."""

    lr: Any
    weight_decay: float
    momentum: float
    nesterov: bool
    clip_norm: float | None
    clip_total_norm: float | None
    adagrad_norm: float | None
    maximize: bool
    precondition: str | None
    damping: float | None
    betas: tuple[float, float]
    eps: float

    def check(self) -> None:
        """Refuse what makes no sense, by name."""
        if self.damping is None:
            self.damping = DAMPING.get(self.precondition, 1e-3)
        each(non_negative, weight_decay=self.weight_decay, damping=self.damping)
        positive("eps", self.eps)
        below_1 = is_number(self.momentum) and 0 <= self.momentum < 1
        require(below_1, "momentum", self.momentum, "in [0, 1)")
        for name in ("clip_norm", "clip_total_norm", "adagrad_norm"):
            norm = getattr(self, name)
            fits = norm is None or (is_number(norm) and norm > 0)
            require(fits, name, norm, "positive or None")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov=True needs a momentum")
        known = self.precondition in PRECONDITIONERS
        require(known, "precondition", self.precondition, f"one of {PRECONDITIONERS}")
        pair = isinstance(self.betas, tuple | list) and len(self.betas) == 2
        pair = pair and all(isinstance(b, int | float) and 0 <= b < 1 for b in self.betas)
        require(pair, "betas", self.betas, "two numbers in [0, 1)")
        adam = self.precondition == "adam"
        if adam and self.momentum > 0:
            raise ValueError(
                "precondition='adam' has its momentum in betas[0]: leave momentum at 0"
            )
        if adam and self.adagrad_norm not in (None, math.inf):
            raise ValueError(
                "precondition='adam' has its own scale, from betas[1]: leave adagrad_norm at None"
            )

    def complete(self, *, one_block: bool, recursive: bool, imaginary: bool) -> None:
        """Take defaults where no lr is given.

        Where nothing is said of the steps they are Adam's, but for `SGD` and complex parameters.
        Adam's steps are bounded by themselves, the curvature's by its damping, and the estimate of
        a recursive method has no spikes: their norms have no default (see `docs/nets.md`).
        """
        silent = self.lr is None and self.precondition is None
        silent = silent and not self.momentum and self.adagrad_norm is None
        if silent and not imaginary and (recursive or not one_block):
            self.precondition = "adam"
        kind = self.precondition
        if kind is None:
            kind = "one block" if one_block else "momentum" if self.momentum else None
        default = self.lr is None
        if default:
            rate = RECURSIVE_RATES[self.precondition] if recursive else LEARNING_RATES[kind]
            self.lr = round(rate * (1.0 - self.momentum), 12)  # 0.02, not 0.01999…
        if default and not recursive:
            if self.adagrad_norm is None:
                self.adagrad_norm = ADAGRAD_NORMS.get(kind)
            if self.clip_norm is None and self.clip_total_norm is None:
                self.clip_norm = CLIP_NORMS.get(kind)
        # Infinity: never, where a default would.
        self.clip_norm = None if self.clip_norm == math.inf else self.clip_norm
        self.adagrad_norm = None if self.adagrad_norm == math.inf else self.adagrad_norm

    def default_order(self, *, one_block: bool, recursive: bool, capture: bool) -> OrderName:
        """Forward, as in the paper; a new one each cycle for Adam's steps and for momentum.

        They lock in a fixed order (`studies/deep`). CUDA graphs of recursive methods need one all
        the same, and what momentum does to a recursive method was not studied.
        """
        moments = self.precondition == "adam" or (self.momentum > 0 and not recursive)
        fixed = one_block or (capture and recursive)
        return "shuffled" if moments and not fixed else "forward"

    def defaults(self) -> dict[str, Any]:
        """The defaults of param groups, as torch's optimizers have them."""
        lr = self.lr if isinstance(self.lr, Tensor) else 0.0
        decay, betas = float(self.weight_decay), tuple(self.betas)
        return {**vars(self), "lr": lr, "weight_decay": decay, "betas": betas}


def rates_of(lr: Any, m: int) -> list[Any]:
    """One learning rate for each of m param groups."""
    rates = list(lr) if isinstance(lr, list | tuple) else [lr] * m
    if len(rates) != m:
        raise ValueError(
            f"lr must be one number, or one for each of the {m} blocks, got {len(rates)}"
        )
    for rate in rates:
        if not isinstance(rate, int | float | Tensor) or isinstance(rate, bool):
            raise TypeError(f"lr must be a number or a tensor, got {type(rate).__name__}")
        require(0 <= float(rate) < math.inf, "lr", float(rate), "at least 0 and finite")
    # A tensor for each group, so that schedulers may differ.
    return [lr.clone() for _ in rates] if isinstance(lr, Tensor) else rates


def shared_options(opt: CyclicOptimizer, loss_fn: Any, order: Any, seed: int) -> dict[str, Any]:
    """What must be the same on all ranks, and in a run that is taken up again."""
    groups = [
        {name: str(value) for name, value in group.items() if name != "params"}
        for group in opt.param_groups
    ]
    turns = order if isinstance(order, str | list | tuple) else type(order).__name__
    loss = getattr(loss_fn, "__qualname__", type(loss_fn).__qualname__)
    return {
        "the optimizer": opt.name, "the loss": str(loss), "param_groups": groups,
        "blocks=": opt.partitioning.wanted, "order": str(turns),
        "b and b_small": (opt.b, opt.b_small), "seed": seed, "visit_steps": opt.visit_steps,
    }  # fmt: skip


def check_closure(groups: list[dict[str, Any]], parameters: Mapping[str, nn.Parameter]) -> None:
    """Refuse what a closure cannot give: the curvature, and gradients of earlier micro-batches."""
    if any(group["precondition"] == "curvature" for group in groups):
        raise ValueError("precondition='curvature' needs the batch: step(x, y), not a closure")
    for name, p in parameters.items():
        if p.requires_grad and p.grad is not None and bool(p.grad.to_dense().any()):
            raise ValueError(f"{name} holds a .grad before step(closure), {_ACCUMULATED}")
    accelerate = sys.modules.get("accelerate")
    if accelerate is not None and (k := accelerate.state.GradientState().num_steps) > 1:
        raise ValueError(f"Accelerate accumulates {k} micro-batches a step, {_ACCUMULATED}")


_ACCUMULATED = (
    "but a closure gives the last micro-batch alone: feed every micro-batch, opt.feed(x, y), and "
    "then call step() without one; or leave accumulation off (and call opt.zero_grad() first, if "
    "the gradient is of another loss)"
)
