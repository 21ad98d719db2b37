"""Seeing that a fixed order has locked: gradients of a block that point the same way for ever.

On deep nets with momentum or Adam's steps the loss swings along directions that all blocks share.
A simultaneous step meets the swing with alternating sign, and it averages out. In a fixed order
every block meets the same phase in every cycle: the cosine of a block's successive gradients stays
high, and what should cancel adds up to a drift (`studies/deep`). With b_k = μ b_{k−1} + g_k two
neighbouring buffers of the momentum give the gradient between them, up to a factor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cyclade.optim._warn import warn_user
from cyclade.optim.net import Net
from cyclade.optim.options import GroupOptions
from cyclade.optim.state import BlockState

EVERY = 50
"""Cycles from one look to the next; a look costs three copies of the buffers and one wait."""

LOOKS = 3
"""As many looks in a row are averaged."""

PROGRESS = 0.9
"""The loss from the first to the last of these looks; where it falls faster, nothing is locked."""

LOCKED = 0.45
"""A mean cosine over blocks and looks that locked orders reach (`studies/deep/records.json`); steps
so small that nothing swings reach it too: then the loss falls, or lr is far too small."""


class LockWarning(UserWarning):
    """A fixed order of the blocks has locked."""


class LockWatch:
    """Looks at the momentum of every block now and then; `cosines` is what it saw last."""

    def __init__(self, net: Net, options: GroupOptions, state: BlockState, *, fixed: bool) -> None:
        self._net, self._options, self._state, self._fixed = net, options, state, fixed
        self._seen: list[list[Tensor]] = []
        self._means: list[float] = []  # over the blocks, at the last looks
        self._losses: list[float] = []  # at these looks
        self._warned = False
        self.cosines: list[float] = []  # of each block's gradients in two successive cycles

    def look(self, cycles: int, loss: Tensor) -> None:
        """After cycle number `cycles`, which began with this loss."""
        phase = cycles % EVERY
        if phase > 2:
            return
        found = [self._buffer(j) for j in range(self._net.m)]
        if phase == 0:
            self._seen = []
        if len(self._seen) != phase or any(buffer is None for _, buffer in found):
            return  # taken up in the middle, or steps without momentum
        self._seen.append([buffer.clone() for _, buffer in found if buffer is not None])
        if phase == 2:
            self._judge([factor for factor, _ in found], float(loss))

    def _buffer(self, j: int) -> tuple[float, Tensor | None]:
        """μ and b of block j."""
        own = self._options.blocks[j]
        if own["precondition"] == "adam":
            return own["betas"][0], self._state.of(j).get("first_moment")
        return own["momentum"], self._state.of(j).get("momentum_buffer")

    def _judge(self, factors: list[float], loss: float) -> None:
        cosines = []
        for mu, b0, b1, b2 in zip(factors, *self._seen, strict=True):
            one, other = b1 - mu * b0, b2 - mu * b1
            size = (one.norm() * other.norm()).clamp(min=torch.finfo(one.dtype).tiny)
            cosines.append(torch.dot(one, other) / size)
        self.cosines, self._seen = torch.stack(cosines).tolist(), []
        self._means = [*self._means[1 - LOOKS :], sum(self.cosines) / len(self.cosines)]
        self._losses = [*self._losses[1 - LOOKS :], loss]
        mean = sum(self._means) / LOOKS
        falls = loss < PROGRESS * self._losses[0]
        known = len(self._means) == LOOKS and self._fixed and self._net.m > 1
        if known and mean > LOCKED and not falls and not self._warned:
            self._warned = True
            warn_user(
                LockWarning(
                    "the fixed order of the blocks may have locked: the gradients of a block point "
                    f"the same way cycle after cycle (mean cosine {mean:.2f}), yet the loss hardly "
                    "falls. order='shuffled' breaks this (or is lr far too small?)"
                )
            )
