"""The sweep of last resort: the whole model, or a user's closure, once for every block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from cyclade.optim.cycle.sweep import dense
from cyclade.optim.net import Batch, FlatPoint, LivePoint, Net
from cyclade.optim.stages import effects
from cyclade.optim.stages.preserve import Places, buffers_of, preserved_inputs

Grads = Sequence[Tensor | None]


class ModelSweep:
    """A sweep that differentiates a loss with respect to the model's own parameters."""

    def __init__(
        self, net: Net, point: LivePoint | FlatPoint, source: ModelReplay | ClosureLoss, *,
        live: bool, sign: float = 1.0,
    ) -> None:  # fmt: skip
        self._net, self._point, self._sign = net, point, sign
        self._source, self._live = source, live
        self.get, self.set = point.get, point.set
        self.loss: Tensor | None = None  # where the sweep began
        self.unused: dict[int, set[int]] = {}  # by block: its parameters that had no gradient

    def grad(self, j: int) -> Tensor:
        params = self._net.block_parameters(j)
        with self._standing_here():
            loss, grads = self._source.gradients(params, self._live)
        if self.loss is None:
            self.loss = loss.detach().reshape(())
        self.unused[j] = {k for k, g in enumerate(grads) if g is None}
        return dense(grads, params).detach() * self._sign

    def hvp(self, j: int, v: Tensor) -> Tensor:
        raise ValueError(
            "precondition='curvature' needs a model that can be cut into stages, and this one runs "
            "as a whole: use None, 'spectral' or 'adam'"
        )

    @contextmanager
    def _standing_here(self) -> Iterator[None]:
        """Lend the model this point's values, where they are not its own."""
        if isinstance(self._point, LivePoint):
            yield
            return
        own = {name: p.data for name, p in self._net.parameters.items()}
        try:
            for name, value in self._point.tensors().items():
                self._net.parameters[name].data = value
            yield
        finally:
            for name, data in own.items():
                self._net.parameters[name].data = data


class ClosureLoss:
    """The user's closure, called once per block; whether it calls `backward` does not matter."""

    def __init__(self, net: Net, closure: Callable[[], Tensor]) -> None:
        self._net, self._closure = net, closure

    @torch.enable_grad()
    def gradients(self, params: list[nn.Parameter], live: bool) -> tuple[Tensor, Grads]:
        self._forget()
        loss = self._closure()
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise ValueError("the closure must return the loss, a scalar tensor")
        grads: Grads = [p.grad for p in params]
        if all(p.grad is None for p in self._net.parameters.values()):
            if not loss.requires_grad:
                raise ValueError(
                    "the closure's loss has no graph and no .grad was set: nothing to train on"
                )
            grads = torch.autograd.grad(loss.reshape(()), params, allow_unused=True)
        self._forget()
        return loss, grads

    def undo(self) -> None:
        """What the closure did cannot be undone."""

    def _forget(self) -> None:
        for p in self._net.parameters.values():
            p.grad = None


class ModelReplay:
    """The loss of the model itself on one batch, again and again, as if it were called once.

    Buffers (and frozen parameters that forward moves) move with the first live call only; all later
    ones begin with the values and repeat the random draws that it began with.
    """

    def __init__(self, net: Net, batches: Sequence[Batch]) -> None:
        self._net, self._batches = net, batches
        self._rng: effects.RngState | None = None
        self._before: Places | None = None  # buffers, once they have moved, as they were

    def gradients(self, params: list[nn.Parameter], live: bool) -> tuple[Tensor, Grads]:
        net, model = self._net, self._net.model
        moving = [(net.parameters, name) for name in net.moving]
        own = Places([*buffers_of(model), *moving])
        self.undo()
        with ExitStack() as stack:
            if self._rng is None:
                self._rng = effects.save_rng(list(model.parameters()))
            else:
                stack.enter_context(effects.repeated(self._rng))
            stack.enter_context(torch.enable_grad())
            terms = []
            for batch in self._batches:
                stack.enter_context(preserved_inputs(batch.inputs))
                output = model(*batch.inputs.args, **batch.inputs.kwargs)
                terms.append(net.loss_of(output, batch) * batch.weight)
            loss = terms[0] if len(terms) == 1 else torch.stack(terms).sum()
            grads = torch.autograd.grad(loss, params, allow_unused=True)
        if live and self._before is None:
            self._before = own
        else:
            own.restore()
        return loss, grads

    def undo(self) -> None:
        if self._before is not None:
            self._before.restore()
