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
    x − t·d; a regulariser takes the `diagonal`. `master` gives the float32 copy of x.
    """

    def __init__(
        self, size: Any, denom: Tensor, keep: Any, diagonal: Callable[[], Tensor],
        master: Callable[[Tensor], Tensor] | None,
    ) -> None:  # fmt: skip
        self.size, self.denom, self.keep, self.diagonal = size, denom, keep, diagonal
        self.master = master

    def __mul__(self, moment: Tensor) -> _AdamMove:
        return _AdamMove(self, moment)


class _AdamMove:
    """t·d, to be subtracted from x."""

    def __init__(self, step: AdamStep, moment: Tensor) -> None:
        self._step, self._moment = step, moment

    def __rsub__(self, x: Tensor) -> Tensor:
        step = self._step
        master = None if step.master is None else step.master(x)
        wide = x.to(self._moment.dtype) if master is None else master
        if step.keep is not None:
            wide = wide * step.keep
        if isinstance(step.size, Tensor):
            moved = wide - step.size * self._moment / step.denom
        else:
            moved = torch.addcdiv(wide, self._moment, step.denom, value=-step.size)
        if master is not None:
            master.copy_(moved)
        return moved.to(x.dtype)


class Adam:
    """First and second moments of every block, with bias correction and decoupled decay."""

    def __init__(
        self, net: Net, options: GroupOptions, state: BlockState, *, masters: bool = False
    ) -> None:
        self._net, self._options, self._state, self._slot = net, options, state, state.get
        self._masters = masters

    def at(self, j: int, gj: Tensor, used: Tensor | None) -> tuple[Tensor, AdamStep]:
        """The first moment and the step; where `used` is 0 nothing moves."""
        beta1, beta2 = self._options.shared(j, "betas")
        m, v, updates = self._moments(j)
        gj = gj.to(m.dtype)
        if used is None:
            m.lerp_(gj, 1 - beta1)
            v.mul_(beta2).addcmul_(gj, gj, value=1 - beta2)
        else:
            m.copy_(torch.where(used > 0, torch.lerp(m, gj, 1 - beta1), m))
            v.copy_(torch.where(used > 0, (v * beta2).addcmul(gj, gj, value=1 - beta2), v))
        updates.add_(1)
        d = m.clone() if used is None else m * used
        return d, self._step(j, used)

    def current(self, j: int) -> Tensor:
        """The diagonal of the step as it stands."""
        return self._diagonal(j, self._denominator(j)[0])

    def metric(self, j: int) -> Tensor:
        """Λ_j as it stands."""
        return self._denominator(j)[0]

    def _step(self, j: int, used: Tensor | None) -> AdamStep:
        rate, decay = self._options.rate(j), self._options.decay(j)
        denom, count = self._denominator(j)
        size = rate / (1 - self._options.shared(j, "betas")[0] ** count)
        if decay is not None:
            decay = decay if used is None else decay * used
            decay = 1 - rate * decay
        narrow = self._masters and self._net.block_parameters(j)[0].dtype != denom.dtype
        master = partial(self._master, j) if narrow else None
        return AdamStep(size, denom, decay, lambda: self._diagonal(j, denom), master)

    def _master(self, j: int, x: Tensor) -> Tensor:
        """Block j in float32, which x is rounded from; where x was changed, x itself."""
        wide = x.float()
        master: Tensor = self._slot(j, "master", wide.clone)
        return master.copy_(torch.where(master.to(x.dtype) == x, master, wide))

    def _diagonal(self, j: int, denom: Tensor) -> Tensor:
        """lr / Λ_j. A coordinate that never had a gradient has no scale: it has the plain lr."""
        scaled = torch.where(self._moments(j)[1] > 0, denom, torch.ones_like(denom))
        diagonal: Tensor = self._options.rate(j) / scaled
        return diagonal.to(self._net.block_parameters(j)[0].dtype)

    def _denominator(self, j: int) -> tuple[Tensor, Any]:
        """√(v / (1 − β2^k)) + ε, and k."""
        _, v, updates = self._moments(j)
        # On the host bias corrections are Python numbers, as in AdamW.
        count: Any = updates.clamp(min=1) if self._options.numbers else max(updates.item(), 1.0)
        corrected = (1 - self._options.shared(j, "betas")[1] ** count) ** 0.5
        return (v.sqrt() / corrected).add_(self._options.shared(j, "eps")), count

    def _moments(self, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """Both moments and the number of updates, in float32 at least: bfloat16 stalls."""
        params = self._net.block_parameters(j)
        size, like = sum(p.numel() for p in params), params[0]
        dtype = torch.promote_types(like.dtype, torch.float32)
        zeros = like.new_zeros
        first = self._slot(j, "first_moment", lambda: zeros(size, dtype=dtype))
        second = self._slot(j, "second_moment", lambda: zeros(size, dtype=dtype))
        # The count is read by the host, unless a CUDA graph counts for itself.
        where = torch.device("cpu") if self._options.numbers is None else like.device
        updates = self._slot(j, "updates", lambda: torch.zeros((), dtype=dtype, device=where))
        if updates.device != where:  # after a state was loaded
            updates = self._state.put(j, "updates", updates.to(where))
        return first, second, updates
