"""Sweeps over a batch that is spread over the ranks of a process group.

Each rank computes the gradient of block j on its own samples, weighted as its part of the whole
batch; the sum over the ranks is ∇^j of the whole. One all-reduce a block carries that vector and
one number per parameter (whether it was used at all); the first one of a cycle also the loss, and
one number per rank (whether its own was finite). Where g^j is corrected by a difference of two
gradients, the difference is what is summed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import Net
from cyclade.ranks import RankLostError, Ranks

_WIDE = (torch.float32, torch.float64)


class Reduced:
    """A sweep whose gradients and loss are those of the whole batch, the same on every rank."""

    def __init__(self, sweep: Any, net: Net, ranks: Ranks, share: float = 1.0) -> None:
        self._sweep, self._net, self._ranks, self.share = sweep, net, ranks, share
        self.get, self.set = sweep.get, sweep.set
        self.loss: Tensor | None = None
        self.faults: Tensor | None = None  # by rank: 1 where the loss was not finite, 2 no loss
        self.unused: dict[int, set[int]] = {}  # by block: parameters without gradient on any rank
        self._lag: Any = None

    def grad(self, j: int) -> Tensor:
        """∇^j over the whole batch, or what it is corrected by."""
        if self.loss is not None:
            return self._summed(j, self._local(j))
        try:
            local = self._local(j)
        except RankLostError:
            raise
        except Exception:
            # Nothing has moved yet: let the others know, instead of leaving them waiting.
            nothing = torch.full_like(self.get(j), math.nan)
            loss = torch.full((), math.nan, device=nothing.device)
            self._sweep.unused[j] = set()
            self._summed(j, nothing, loss, torch.full_like(loss, 2.0))
            raise
        loss = self._sweep.loss * self.share
        return self._summed(j, local, loss, (~torch.isfinite(loss)).to(loss.dtype))

    def _local(self, j: int) -> Tensor:
        """This rank's part of it."""
        local: Tensor = self._sweep.grad(j)
        if self._lag is not None:
            local = local - self._lag.grad(j)
        return local if self.share == 1.0 else local * self.share

    def hvp(self, j: int, v: Tensor) -> Tensor:
        return self._ranks.sum((self._sweep.hvp(j, v) * self.share).contiguous())

    def correct_by(self, lag: Any) -> Subtracted:
        """Give differences to the gradients of `lag` from now on; what stands in for it."""
        self._lag = lag
        return Subtracted(lag)

    def _summed(
        self, j: int, local: Tensor, loss: Tensor | None = None, fault: Tensor | None = None
    ) -> Tensor:
        real = torch.view_as_real(local).reshape(-1) if local.is_complex() else local
        unused = self._sweep.unused[j]
        used = real.new_ones(len(self._net.blocks[j].params))  # had a gradient here
        for k in unused:
            used[k] = 0.0
        parts, told = [real, used], real.new_ones(0)
        narrow = real.dtype not in _WIDE
        if loss is not None and fault is not None:
            told = loss.new_zeros(
                1 + self._ranks.size, dtype=torch.float32 if narrow else real.dtype
            )
            told[0], told[1 + self._ranks.rank] = loss, fault
            if narrow:  # a loss is not rounded to bfloat16
                self._ranks.sum(told)
            else:
                parts.append(told)
        packed = self._ranks.sum(torch.cat(parts))
        size, count = real.numel(), len(used)
        if loss is not None:
            whole = told if narrow else packed[size + count :]
            self.loss, self.faults = whole[0].to(loss.dtype), whole[1:]
        self.unused[j] = self._unused_anywhere(unused, packed[size : size + count])
        gj = packed[:size]
        return torch.view_as_complex(gj.view(-1, 2)) if local.is_complex() else gj

    def _unused_anywhere(self, unused: set[int], ranks_using: Tensor) -> set[int]:
        """Parameters that no rank had a gradient for; a rank that used all need not look."""
        if not unused or self._ranks.size == 1:
            return unused
        if ranks_using.is_cuda and torch.cuda.is_current_stream_capturing():
            raise ValueError(
                "capture=True on several ranks needs every parameter used on every rank: one had "
                "no gradient here. Give capture=False"
            )
        counts = ranks_using.tolist()
        return {k for k in unused if counts[k] == 0.0}


class Subtracted:
    """The lagged point where `Reduced` has subtracted its gradients already."""

    def __init__(self, lag: Any) -> None:
        self.point, self.follow, self.trim = lag.point, lag.follow, lag.trim

    def grad(self, j: int) -> float:
        return 0.0


class ReducedLag(Subtracted):
    """The lagged point with gradients summed by themselves, for orders chosen on the way."""

    def __init__(self, lag: Any, ranks: Ranks, share: float) -> None:
        super().__init__(lag)
        self._lag, self._ranks, self._share = lag, ranks, share

    def grad(self, j: int) -> Any:
        gj = self._lag.grad(j) * self._share
        if gj.is_complex():
            return torch.view_as_complex(self._ranks.sum(torch.view_as_real(gj).contiguous()))
        return self._ranks.sum(gj)
