"""AdamW's step for one block, in the arithmetic of `torch.optim.AdamW`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import Net
from cyclade.optim.options import GroupOptions
from cyclade.optim.state import BlockState


class AdamStep:
    """η Λ^{−1} of AdamW: with d the first moment, x − t·d is (1 − lr·wd) x − size · d / denom.

    Written as AdamW writes it, so that one block gives its bits: the quotient is formed before it
    is subtracted, and the decay multiplies x first. `core.cycle` asks for no more of a step than
    x − t·d: the product keeps d, and the difference is `moved`. A regulariser takes the `diagonal`.
    `master` gives the float32 copy of x.
    """

    def __init__(
        self, size: Any, denom: Tensor, keep: Any, diagonal: Callable[[], Tensor],
        master: Callable[[Tensor], Tensor] | None,
    ) -> None:  # fmt: skip
        self.size, self.denom, self.keep, self.diagonal = size, denom, keep, diagonal
        self.master = master

    def __mul__(self, d: Tensor) -> AdamStep:
        self.d = d
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What a tensor asks of an operand that is none: x − t·d, the only one there is."""
        x, step = args
        return step.moved(x)

    def moved(self, x: Tensor) -> Tensor:
        """Where the step leads from x."""
        master = None if self.master is None else self.master(x)
        wide = x.to(self.d.dtype) if master is None else master
        if self.keep is not None:
            wide = wide * self.keep
        if isinstance(self.size, Tensor):
            moved = wide - self.size * self.d / self.denom
        else:
            moved = torch.addcdiv(wide, self.d, self.denom, value=-self.size)
        if master is not None:
            master.copy_(moved)
        return moved.to(x.dtype)


class Adam:
    """First and second moments of every block, with bias correction and decoupled decay."""

    def __init__(
        self, net: Net, options: GroupOptions, state: BlockState, *, masters: bool = False
    ) -> None:
        self._net, self._options, self._state, self._masters = net, options, state, masters

    def at(self, j: int, gj: Tensor, used: Tensor | None) -> tuple[Tensor, AdamStep]:
        """The first moment and the step; where `used` is 0 nothing moves."""
        beta1, beta2 = self._options.blocks[j]["betas"]
        m, v, updates = self._moments(j)
        gj = gj.to(m.dtype)
        if used is None:
            m.lerp_(gj, 1 - beta1)
            v.mul_(beta2).addcmul_(gj, gj, value=1 - beta2)
        else:
            m.copy_(torch.where(used > 0, torch.lerp(m, gj, 1 - beta1), m))
            v.copy_(torch.where(used > 0, (v * beta2).addcmul(gj, gj, value=1 - beta2), v))
        updates.add_(1)
        rate, decay = self._options.rate(j), self._options.decay(j)
        denom, count = self._denominator(j, v, updates)
        if decay is not None:
            decay = 1 - rate * (decay if used is None else decay * used)
        narrow = self._masters and self._net.block_parameters(j)[0].dtype != denom.dtype
        master = partial(self._master, j) if narrow else None
        size = rate / (1 - beta1**count)
        step = AdamStep(size, denom, decay, partial(self._diagonal, j, v, denom), master)
        return m.clone() if used is None else m * used, step

    def current(self, j: int) -> Tensor:
        """The diagonal of the step as it stands."""
        _, v, updates = self._moments(j)
        return self._diagonal(j, v, self._denominator(j, v, updates)[0])

    def metric(self, j: int) -> Tensor:
        """Λ_j as it stands."""
        return self._denominator(j, *self._moments(j)[1:])[0]

    def _master(self, j: int, x: Tensor) -> Tensor:
        """Block j in float32, which x is rounded from; where x was changed, x itself."""
        wide = x.float()
        master: Tensor = self._state.get(j, "master", wide.clone)
        return master.copy_(torch.where(master.to(x.dtype) == x, master, wide))

    def _diagonal(self, j: int, v: Tensor, denom: Tensor) -> Tensor:
        """lr / Λ_j. A coordinate that never had a gradient has no scale: it has the plain lr."""
        scaled = torch.where(v > 0, denom, torch.ones_like(denom))
        diagonal: Tensor = self._options.rate(j) / scaled
        return diagonal.to(self._net.block_parameters(j)[0].dtype)

    def _denominator(self, j: int, v: Tensor, updates: Tensor) -> tuple[Tensor, Any]:
        """√(v / (1 − β2^k)) + ε, and k."""
        own = self._options.blocks[j]
        # On the host bias corrections are Python numbers, as in AdamW.
        count: Any = updates.clamp(min=1) if self._options.numbers else max(updates.item(), 1.0)
        corrected = (1 - own["betas"][1] ** count) ** 0.5
        return (v.sqrt() / corrected).add_(own["eps"]), count

    def _moments(self, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """Both moments and the number of updates, in float32 at least: bfloat16 stalls."""
        places, params = self._state.of(j), self._net.block_parameters(j)
        # The count is read by the host, unless a CUDA graph counts for itself.
        where = params[0].device if self._options.numbers else torch.device("cpu")
        if "updates" not in places:
            dtype = torch.promote_types(params[0].dtype, torch.float32)
            size = sum(p.numel() for p in params)
            places["first_moment"] = params[0].new_zeros(size, dtype=dtype)
            places["second_moment"] = params[0].new_zeros(size, dtype=dtype)
            places["updates"] = torch.zeros((), dtype=dtype, device=where)
        elif places["updates"].device != where:  # after a state was loaded
            places["updates"] = places["updates"].to(where)
        return places["first_moment"], places["second_moment"], places["updates"]
