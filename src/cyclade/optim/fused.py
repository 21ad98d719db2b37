"""The update of a block where it lies: estimate, step, weight decay and the lagged point.

The arithmetic that `core.cycle` asks for in line 6 and 7,

    g ← g + (∇_now − ∇_lag)   or   g ← ∇_now,      x_lag ← x,      x ← (x − η g) / (1 + η wd),

(with g scaled down first where it is clipped)

need not be a kernel for each sign. The objects below stand in for the vectors of a block: they note
what is to be done, and `Update.commit` does it, tensor by tensor where they lie. In a captured
cycle, whose lr and weight decay lie on the device, that is one Triton kernel (without Triton such a
cycle works with vectors); in an eager one of a method without estimates, one call of torch for each
sign.
The roundings are those of the operations on vectors, so that all ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import flatten, unflatten

_TOGETHER = 32  # tensors of a block in one launch
_LANES = 1024  # entries that one program of the kernel updates
_EXACT = (torch.float32, torch.float64)


class Pieces:
    """A gradient of a block as autograd gives it: one tensor a parameter."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)
        self.then: list[Tensor] | None = None  # the gradients at the lagged point, to be subtracted
        self.g: Tensor | None = None  # the estimate, to be corrected or overwritten
        self.scale: Tensor | None = None  # by which a gradient that is clipped is multiplied

    def __sub__(self, lagged: Pieces) -> Pieces:
        """∇_now − ∇_lag."""
        difference = Pieces(self.tensors)
        difference.then = lagged.tensors
        return difference

    def __radd__(self, g: Tensor) -> Pieces:
        """G + (∇_now − ∇_lag)."""
        corrected = Pieces(self.tensors)
        corrected.then, corrected.g = self.then, g
        return corrected


class Estimates:
    """The estimates g, one vector a block; `set` is left to the update that follows."""

    def __init__(self, flats: list[Tensor]) -> None:
        self._flats = flats

    def get(self, j: int) -> Tensor:
        """Vector j itself."""
        return self._flats[j]

    def set(self, j: int, u: Pieces | Tensor) -> None:
        """Overwrite vector j, or note that it is to be overwritten."""
        if isinstance(u, Pieces):
            u.g = self._flats[j]
        else:
            self._flats[j].copy_(u)


class Step:
    """η and 1 + η·wd of a block: numbers, or tensors of one (the second None for 1).

    With `in_place` it is made by torch's operations on lists: an eager step.
    """

    def __init__(self, rate: Any, shrink: Any, *, in_place: bool = False) -> None:
        self.rate, self.shrink, self.in_place = rate, shrink, in_place

    def __mul__(self, direction: Pieces) -> _Move:
        return _Move(self, direction)


class _Move:
    """t·d, to be subtracted from x."""

    def __init__(self, step: Step, direction: Pieces) -> None:
        self.step, self.direction = step, direction


class LiveBlock:
    """The parameters of a block where they lie."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)

    def __sub__(self, move: _Move) -> Update:
        return Update(self.params, move.direction, move.step)


class Update:
    """The new value of a block. `commit` writes it, and the old one to the lagged point."""

    def __init__(self, params: list[Tensor], direction: Pieces, step: Step) -> None:
        self._params, self._direction, self._step = params, direction, step
        self._done = False

    def commit(self, lagged: Tensor | None = None) -> None:
        """Do all of it, once."""
        if self._done:
            return
        self._done = True
        d = self._direction
        if self._step.in_place:
            in_place(self._params, d.tensors, self._step, d.scale)
            return
        write = apply if kernel() is None or not self._params[0].is_cuda else launch
        write(self._params, d.tensors, d.then, d.g, lagged, self._step, d.scale)


def in_place(
    params: list[Tensor], now: list[Tensor], step: Step, scale: Tensor | None = None
) -> None:
    """The update of an eager step, by torch's operations on lists."""
    if scale is not None:
        now = list(torch._foreach_mul(now, scale))
    torch._foreach_sub_(params, torch._foreach_mul(now, step.rate))
    if step.shrink is not None:
        torch._foreach_div_(params, step.shrink)


def apply(
    params: list[Tensor], now: list[Tensor], then: list[Tensor] | None, g: Tensor | None,
    lagged: Tensor | None, step: Step, scale: Tensor | None = None,
) -> None:  # fmt: skip
    """The update by operations on vectors: what the kernel is held against."""
    x, d = flatten(params), flatten(now)
    if scale is not None:
        d = d * scale
    if then is not None:
        assert g is not None
        d = g + (d - flatten(then))
    if g is not None:
        g.copy_(d)
    if lagged is not None:
        lagged.copy_(x)
    new = (x - step.rate * d) / step.shrink
    torch._foreach_copy_(params, unflatten(new, [p.shape for p in params]))


def launch(
    params: list[Tensor], now: list[Tensor], then: list[Tensor] | None, g: Tensor | None,
    lagged: Tensor | None, step: Step, scale: Tensor | None = None,
) -> None:  # fmt: skip
    """The update by the Triton kernel."""
    update, start = kernel(), 0
    for k in range(0, len(params), _TOGETHER):
        some = slice(k, k + _TOGETHER)
        sizes = tuple(p.numel() for p in params[some])
        grid = (sum(-(-size // _LANES) for size in sizes),)
        none = params[0]  # stands for a tensor that the kernel does not touch
        update[grid](
            tuple(params[some]), tuple(now[some]), tuple(now[some] if then is None else then[some]),
            none if g is None else g, none if lagged is None else lagged, step.rate, step.shrink,
            none if scale is None else scale, start, sizes, then is not None, g is not None,
            lagged is not None, scale is not None, _LANES,
            enable_fp_fusion=False,
        )  # fmt: skip
        start += sum(sizes)


def fits(tensors: Sequence[Tensor | None], like: Sequence[Tensor]) -> bool:
    """Whether gradients can be left in pieces: all there, dense and of the parameters' dtype."""
    return all(
        g is not None
        and g.layout == torch.strided
        and g.is_contiguous()
        and p.is_contiguous()
        and g.dtype == p.dtype
        and p.dtype in _EXACT
        for g, p in zip(tensors, like, strict=True)
    )


@cache
def kernel() -> Any:
    """The Triton kernel; None where Triton is not installed."""
    try:
        from cyclade.optim.triton_update import update
    except ImportError:
        return None
    return update
