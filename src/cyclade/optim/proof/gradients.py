"""The proof, on a real batch before anything moves, that a route gives the model's gradients."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor, nn

from cyclade.optim._trees import pytree
from cyclade.optim.cycle.closures import ModelReplay, ModelSweep
from cyclade.optim.cycle.sweep import StagedSweep
from cyclade.optim.net import Batch, LivePoint, Net, unflatten
from cyclade.optim.stages import Replay
from cyclade.optim.stages.preserve import (
    Watch,
    custom_functions,
    nodes,
    preserved,
    preserved_inputs,
)
from cyclade.optim.stages.verifying import OTHER_KERNELS, same, verify

_ROUGH = 1e6  # roundings; `same` caps what they allow at 5 %
_AWAY = 0.5  # how far `elsewhere` goes, in root mean squares of a parameter


class UnprovedError(Exception):
    """A route does not give what the model gives; says where."""


@contextmanager
def proving() -> Iterator[None]:
    """Whatever a model's code raises when it is cut up says that a route does not work."""
    try:
        yield
    except UnprovedError:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise UnprovedError(text.splitlines()[0]) from error


@contextmanager
def elsewhere(net: Net) -> Iterator[None]:
    """Stand at another point for a while: what is zero at this one hides what lies before it."""
    trained = [p for p in net.parameters.values() if p.requires_grad and p.numel()]
    kept = [p.detach().clone() for p in trained]
    generator = torch.Generator().manual_seed(0)
    try:
        with torch.no_grad():
            for p in trained:
                size = float(p.abs().square().mean().sqrt()) or _usual(p)
                noise = torch.randn(p.shape, generator=generator)
                p.add_(noise.to(device=p.device, dtype=p.dtype), alpha=_AWAY * size)
        yield
    finally:
        with torch.no_grad():
            for p, value in zip(trained, kept, strict=True):
                p.copy_(value)


def _usual(p: Tensor) -> float:
    """The size of a weight's entries as layers begin with them; of a gate or bias 1."""
    return math.sqrt(len(p) / p.numel()) if p.dim() > 1 else 1.0


class Proof:
    """The loss and the gradients of the model itself on one batch, to hold the routes against."""

    def __init__(self, net: Net, batch: Batch) -> None:
        for name, p in net.parameters.items():
            if getattr(p, "_post_accumulate_grad_hooks", None):
                raise ValueError(
                    f"{name} has a hook by register_post_accumulate_grad_hook, which works on "
                    ".grad: a cyclic step has none. Remove it; register_hook works"
                )
        self.net, self.batch = net, batch
        with preserved(net.model) as keep, preserved_inputs(batch.inputs), torch.enable_grad():
            with Watch(net.model) as watch:
                output = net.model(*batch.inputs.args, **batch.inputs.kwargs)
            loss = net.loss_of(output, batch)
            self.written = keep.changed()  # attributes that forward itself writes
            self.trained = {n: p for n, p in net.parameters.items() if p.requires_grad}
            self._refuse_moving(watch)
            if not loss.requires_grad:
                raise ValueError(
                    "the loss has no graph: it does not depend on any trained parameter (was it "
                    "detached, made from .item(), or computed under torch.no_grad?)"
                )
            self._refuse_strangers(loss)
            self.effects = watch.seen + custom_functions(loss)
            # Where losses of several ranks meet in a normalisation, each counts by its weight.
            weight = batch.weight if net.weigh_losses else 1.0
            top = loss if weight == 1.0 else loss * weight
            found = torch.autograd.grad(top, list(self.trained.values()), allow_unused=True)
        self.loss = loss.detach()
        self.grads: dict[str, Tensor | None] = {
            name: None if g is None else g.detach().to_dense() / weight
            for name, g in zip(self.trained, found, strict=True)
        }

    @cached_property
    def finite(self) -> bool:
        """Whether there is anything to compare with."""
        found = [self.loss, *(g for g in self.grads.values() if g is not None)]
        return all(bool(torch.isfinite(one).all()) for one in found)

    @property
    def unseen(self) -> list[str]:
        """Parameters of which nothing can be said here, as their gradient is zero."""
        return [n for n, g in self.grads.items() if g is None or not bool(g.any())]

    def check_stages(self) -> None:
        """Hold the stages against the model; an UnprovedError says where they differ."""
        if self.net.whole_model:
            return
        if self.net.moving:
            raise UnprovedError(
                f"forward moves the frozen parameter {self.net.moving[0]}, which stages would move "
                "once for every block"
            )
        with proving():
            verify(self.net.chain, self.batch.inputs)

    def check_gradients(self) -> None:
        """Hold the gradient of every block against the model's."""
        net, point, sweep = self.net, LivePoint(self.net), None
        with proving(), net.chain.eager(), preserved(net.model):
            if net.whole_model:
                sweep = ModelSweep(net, point, ModelReplay(net, [self.batch]), live=False)
            self._compare(sweep or StagedSweep(net, point, [self.batch], [Replay()], live=False))
            if self.effects and net.chain.how in ("fx", "export"):
                self._compare_effects()

    def _compare(self, sweep: StagedSweep | ModelSweep) -> None:
        net, weight, device = self.net, self.batch.weight, self.loss.device.type
        # Accelerators and autocast multiply in fewer digits than they add (TF32, bfloat16), and may
        # take another kernel for one weight's gradient than for all.
        rough = device != "cpu" or torch.is_autocast_enabled(device)
        loose = _ROUGH if rough else OTHER_KERNELS
        # Other kernels draw other masks: with an export only the pattern can be compared.
        by_value = self.finite and not (net.chain.how == "export" and net.chain.random)
        known = [g.abs().max() for g in self.grads.values() if g is not None and g.numel()]
        # A gradient that is rounding alone (a bias before batch norm) has no scale of its own.
        floor = max((float(g) for g in known), default=0.0) * (1.0 if loose == _ROUGH else 0.01)
        for j, block in enumerate(net.blocks):
            pieces = unflatten(sweep.grad(j) / weight, [p.shape for p in net.block_parameters(j)])
            for k, (name, piece) in enumerate(zip(block.params, pieces, strict=True)):
                expected = self.grads[name]
                if expected is None or not bool(expected.any()):
                    continue
                if k in sweep.unused[j]:
                    raise UnprovedError(
                        f"{name} gets a gradient in the model but none in its stages: forward "
                        "reaches it in a way that is not through the module that owns it"
                    )
                piece = piece.to(expected.dtype)
                if by_value and not same(piece, expected, loose=loose, scale=floor):
                    raise UnprovedError(
                        f"{name} has another gradient in the stages than in the model (hooks, "
                        "gradients within forward or the loss, or values kept outside)"
                    )
        if by_value and sweep.loss is not None:
            loss = sweep.loss / weight
            if not same(loss, self.loss.to(loss.dtype), loose=loose):
                raise UnprovedError("the loss of the stages is not that of the model")

    def _compare_effects(self) -> None:
        """A record drops what is no operation, which shows in gradients only where they flow."""
        net = self.net
        tensors = {name: p.detach().requires_grad_() for name, p in self.trained.items()}
        with torch.enable_grad():
            with Watch(net.model) as watch:
                env = net.chain.run(self.batch.inputs, tensors, live=False)
            loss = net.loss_of(net.chain.output(env), self.batch)
        lost = Counter(self.effects) - Counter(watch.seen + custom_functions(loss))
        for name in lost:
            raise UnprovedError(
                f"forward uses {name}, which a record by {net.chain.how} leaves out"
            )

    def _refuse_moving(self, watch: Watch) -> None:
        """Frozen parameters that forward writes to are state; trained ones cannot be."""
        for name, (p, before) in watch.moved.items():
            if name in self.trained and not torch.equal(watch.after[name], before):
                raise ValueError(
                    f"forward writes to the trained parameter {name}, which would move it once for "
                    f"every block: do that after opt.step, or freeze it ({tuple(p.shape)})"
                )
        self.net.moving = tuple(name for name in watch.moved if name not in self.trained)

    def _refuse_strangers(self, loss: Tensor) -> None:
        """The loss may depend on the parameters, the batch, and on leaves that forward makes."""
        batch, model = self.batch, self.net.model
        given = pytree.tree_leaves((batch.inputs.args, dict(batch.inputs.kwargs), batch.target))
        known = {id(p) for p in model.parameters()} | {id(v) for v in given}
        strangers = {id(leaf): leaf for leaf in _leaves(loss) if id(leaf) not in known}
        if not strangers:
            return
        with Watch(model):
            again = model(*batch.inputs.args, **batch.inputs.kwargs)
        for leaf in _leaves(self.net.loss_of(again, batch)):
            if id(leaf) in strangers:
                kind = "parameter" if isinstance(leaf, nn.Parameter) else "tensor"
                raise ValueError(
                    f"the loss depends on a trained {kind} of shape {tuple(leaf.shape)} that is "
                    "not among the model's parameters, and would never be trained: register it in "
                    "the model (a loss with parameters belongs into a model that returns its own "
                    "loss), or freeze it with requires_grad_(False). Two nets in turn, as in a "
                    "GAN: one model of both that returns its loss, and for each an optimizer with "
                    'blocks=["G", "D"] and lr=[0.1, 0.0], or the other way round'
                )


def _leaves(loss: Tensor) -> list[Tensor]:
    """The variables at the ends of a graph."""
    return [node.variable for node in nodes(loss) if hasattr(node, "variable")]
