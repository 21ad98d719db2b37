"""SCCD and VRO-CCD written literally, on any model: every block pays for a pass of all of it.

Slow, and what the optimizers are held against in the tests. Nothing is cut, kept or proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cyclade.optim.batches import as_inputs
from cyclade.optim.net import own_loss


class Literal:
    """One cycle over `blocks` of parameter names in each step, in the order in which they stand.

    Random numbers are the same in every turn of a cycle. Buffers, and frozen parameters that
    forward moves, move in the first turn alone. With `recursive` the first step forms g_{−1}.
    """

    def __init__(
        self, model: nn.Module, loss_fn: Any, blocks: Sequence[Sequence[str]], lr: float = 0.0, *,
        weight_decay: float = 0.0, recursive: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.loss_fn, self.lr, self.decay = model, loss_fn, lr, weight_decay
        named = dict(model.named_parameters())
        self.blocks = [[named[name] for name in names] for names in blocks]
        self.g: list[list[Tensor]] | None = None
        self.lagged = [_copies(block) for block in self.blocks]  # x_{k−1}, then partly x_k
        self.recursive = recursive

    def step(self, inputs: Any, target: Any = None, *, refresh: bool = True) -> float:
        """A cycle on one batch; the loss at its start."""
        self.before, self.drawn = _copies(self.state), torch.get_rng_state()
        forming = self.recursive and self.g is None
        loss, after, drawn, found = 0.0, self.before, self.drawn, []
        for j, block in enumerate(self.blocks):
            value, d = self.gradient(j, inputs, target)
            if j == 0:  # the turn that counts for buffers and generators
                loss, after, drawn = value, _copies(self.state), torch.get_rng_state()
            found.append(d)
            if self.g is not None and not refresh:
                old = self.gradient(j, inputs, target, self.lagged)[1]
                d = [g + a - b for g, a, b in zip(self.g[j], d, old, strict=True)]
            if not forming:
                self.lagged[j] = _copies(block)
                self.move(j, block, d)
            if self.g is not None:
                self.g[j] = d
        if forming:
            self.g = found
        _put(self.state, after)
        torch.set_rng_state(drawn)
        return loss

    @property
    def state(self) -> list[Tensor]:
        """Buffers, and frozen parameters."""
        frozen = [p.data for p in self.model.parameters() if not p.requires_grad]
        return [*self.model.buffers(), *frozen]

    def gradient(
        self, j: int, inputs: Any, target: Any, at: list[list[Tensor]] | None = None
    ) -> tuple[float, list[Tensor]]:
        """The loss and ∇^j at the model's own point, or `at` another."""
        own = [_copies(block) for block in self.blocks]
        for block, values in zip(self.blocks, at or own, strict=True):
            _put([p.data for p in block], values)
        _put(self.state, self.before)
        torch.set_rng_state(self.drawn)
        call = as_inputs(inputs)
        with torch.enable_grad():
            output = self.model(*call.args, **call.kwargs)
            loss = own_loss(output) if self.loss_fn is None else self.loss_fn(output, target)
        grads = torch.autograd.grad(loss, self.blocks[j], allow_unused=True)
        for block, values in zip(self.blocks, own, strict=True):
            _put([p.data for p in block], values)
        pairs = zip(self.blocks[j], grads, strict=True)
        return float(loss.detach()), [torch.zeros_like(p) if g is None else g for p, g in pairs]

    def move(self, j: int, block: list[nn.Parameter], d: list[Tensor]) -> None:
        """Line 7: x^j ← prox of the weight decay at x^j − η d."""
        for p, direction in zip(block, d, strict=True):
            p.data.sub_(self.lr * direction).div_(1.0 + self.lr * self.decay)


def _copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


@torch.no_grad()
def _put(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
