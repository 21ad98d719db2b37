"""The proof, on a real batch before anything moves, that a route gives the model's gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from cyclade.optim.cycle.closures import ModelReplay, ModelSweep
from cyclade.optim.cycle.sweep import StagedSweep
from cyclade.optim.net import Batch, LivePoint, Net
from cyclade.optim.stages.preserve import preserved, preserved_inputs
from cyclade.optim.stages.verifying import OTHER_KERNELS, same

_ROUGH = 1e6  # roundings; `same` caps what they allow at 5 %


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


class Proof:
    """The loss and the gradients of the model itself on one batch, to hold the routes against."""

    def __init__(self, net: Net, batch: Batch) -> None:
        _refuse_gradient_hooks(net)
        self.net, self.batch = net, batch
        with preserved(net.model) as keep, preserved_inputs(batch.inputs), torch.enable_grad():
            output = net.model(*batch.inputs.args, **batch.inputs.kwargs)
            loss = net.loss_of(output, batch)
            self.written = keep.changed()  # attributes that forward itself writes
            self.trained = {n: p for n, p in net.parameters.items() if p.requires_grad}
            _refuse_without_graph(loss)
            _refuse_strangers(loss, net, batch)
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

    def check_stages(self) -> None:
        """Hold the stages against the model; an UnprovedError says where they differ."""
        with proving():
            if not self.net.whole_model:
                self.net.chain.verify(self.batch.inputs)

    def check_gradients(self) -> None:
        """Hold the gradient of every block against the model's."""
        with proving(), self.net.chain.eager(), preserved(self.net.model):
            self._compare(self._sweep())

    def _loose(self) -> float:
        """How many roundings gradients may be apart.

        Accelerators and autocast multiply in fewer digits than they add (TF32, bfloat16), and may
        take another kernel for one weight's gradient than for all.
        """
        device = self.loss.device.type
        rough = device != "cpu" or torch.is_autocast_enabled(device)
        return _ROUGH if rough else OTHER_KERNELS

    def _sweep(self) -> StagedSweep | ModelSweep:
        net, point = self.net, LivePoint(self.net)
        if net.whole_model:
            return ModelSweep(net, point, ModelReplay(net, [self.batch]), live=False)
        return StagedSweep(net, point, [self.batch], [net.chain.replay()], live=False, keep=False)

    def _compare(self, sweep: StagedSweep | ModelSweep) -> None:
        net, weight, loose = self.net, self.batch.weight, self._loose()
        # Other kernels draw other masks: with an export only the pattern can be compared.
        by_value = self.finite and not (net.chain.how == "export" and net.chain.random)
        known = [g.abs().max() for g in self.grads.values() if g is not None and g.numel()]
        # A gradient that is rounding alone (a bias before batch norm) has no scale of its own.
        floor = max((float(g) for g in known), default=0.0) * (1.0 if loose == _ROUGH else 0.01)
        for j, block in enumerate(net.blocks):
            flat = sweep.grad(j) / weight
            pieces = torch.split(flat, [net.parameters[n].numel() for n in block.params])
            for k, (name, piece) in enumerate(zip(block.params, pieces, strict=True)):
                expected = self.grads[name]
                if expected is None or not bool(expected.any()):
                    continue
                if k in sweep.unused[j]:
                    raise UnprovedError(
                        f"{name} gets a gradient in the model but none in its stages: forward "
                        "reaches it in a way that is not through the module that owns it"
                    )
                if by_value and not same(
                    piece.view_as(expected).to(expected.dtype),
                    expected,
                    loose=loose,
                    scale=floor,
                ):
                    raise UnprovedError(
                        f"{name} has another gradient in the stages than in the model (hooks, "
                        "gradients within forward or the loss, or values kept outside)"
                    )
        if by_value and sweep.loss is not None:
            loss = sweep.loss / weight
            if not same(loss, self.loss.to(loss.dtype), loose=loose):
                raise UnprovedError("the loss of the stages is not that of the model")


def _refuse_without_graph(loss: Tensor) -> None:
    if not loss.requires_grad:
        raise ValueError(
            "the loss has no graph: it does not depend on any trained parameter (was it detached, "
            "made from .item(), or computed under torch.no_grad?)"
        )


def _refuse_gradient_hooks(net: Net) -> None:
    for name, p in net.parameters.items():
        if getattr(p, "_post_accumulate_grad_hooks", None):
            raise ValueError(
                f"{name} has a hook by register_post_accumulate_grad_hook, which works on .grad: "
                "a cyclic step has none. Remove it; register_hook works"
            )


def _refuse_strangers(loss: Tensor, net: Net, batch: Batch) -> None:
    """The loss may depend on the model's parameters and the batch, but on nothing else trained."""
    given = pytree.tree_leaves((batch.inputs.args, dict(batch.inputs.kwargs), batch.target))
    known = {id(p) for p in net.model.parameters()} | {id(v) for v in given}
    for leaf in _leaves(loss):
        if id(leaf) not in known:
            kind = "parameter" if isinstance(leaf, nn.Parameter) else "tensor"
            raise ValueError(
                f"the loss depends on a trained {kind} of shape {tuple(leaf.shape)} that is not "
                "among the model's parameters, and would never be trained: register it in the "
                "model (a loss with parameters belongs into a model that returns its own loss), "
                "or freeze it with requires_grad_(False). Two nets in turn, as in a GAN: one "
                'model of both that returns its loss, and for each an optimizer with blocks=["G", '
                '"D"] and lr=[0.1, 0.0], or the other way round'
            )


def _leaves(loss: Tensor) -> Iterator[Tensor]:
    """The variables at the ends of a graph."""
    stack: list[Any] = [loss.grad_fn]
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        stack.extend(following for following, _ in node.next_functions)
