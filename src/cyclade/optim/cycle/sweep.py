"""The staged sweep: exact block gradients without a whole pass per block.

`grad(j)` advances the cached values to the input of block j's first stage, replays the stages from
there to the loss, and differentiates with respect to block j alone. Nothing below block j is
computed again, no gradient of another block is formed, and no graph outlives the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import Batch, FlatPoint, LivePoint, Net, Pieces, flatten, unflatten

_layout = attrgetter("layout")


@contextmanager
def exact_autocast() -> Iterator[None]:
    """Autocast as the caller set it, but without its cache of cast weights.

    The cache would hand out the weights as they were before a block moved. Autocast to float16 is
    refused: it needs a loss scaler.
    """
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16:
            raise ValueError(
                "float16 autocast needs a GradScaler, which cannot scale block after block: use "
                "bfloat16"
            )
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)


class StagedSweep:
    """A point (the live parameters, or a lagged copy) moving along a cycle on one batch.

    It begins with the batches, or with the values `at` some stages. Gradients of blocks in
    `in_pieces` stay as autograd gives them (`Pieces`), where a batch is one, weighs 1, and gives
    every parameter a gradient.
    """

    def __init__(
        self,
        net: Net,
        point: LivePoint | FlatPoint,
        batches: Sequence[Batch],
        replays: Sequence[Any],
        *,
        live: bool,
        sign: float = 1.0,
        in_pieces: Collection[int] = (),
        at: Sequence[dict[int, Any]] | None = None,
    ) -> None:
        self._net, self._point, self._batches = net, point, batches
        self._replays, self._live, self._sign = replays, live, sign
        whole = len(batches) == 1 and batches[0].weight * sign == 1.0
        self._may_stay = in_pieces if whole else ()
        # Cached values before a stage, for each micro-batch: {stage: env}.
        self._cached: list[dict[int, Any]] = list(
            at or [{0: net.chain.start(b.inputs)} for b in batches]
        )
        self._in_pieces: set[int] = set()  # blocks whose last gradient was left in pieces
        self.loss: Tensor | None = None  # at the point where the sweep began
        self.unused: dict[int, set[int]] = {}  # by block: its parameters that had no gradient

    def get(self, j: int) -> Any:
        """Block j: a copy, or where it lies if its gradient is in pieces."""
        point: Any = self._point
        return point.block(j) if j in self._in_pieces else point.get(j)

    def set(self, j: int, u: Any) -> None:
        """Move block j; what was computed beyond its first stage is no longer true."""
        self._point.set(j, u)
        start = self._net.starts[j]
        for cached in self._cached:
            for stage in tuple(cached):
                if stage > start:
                    del cached[stage]

    def grad(self, j: int) -> Any:
        """∇^j of the mean loss over the batch."""
        net, losses = self._net, []
        total: Any = None
        first = self.loss is None  # then the loss is that where the sweep began
        unused = set(range(len(net.blocks[j].params)))
        for i, batch in enumerate(self._batches):
            leaves, loss = self._end(i, j)
            if first:
                losses.append(loss.detach() * batch.weight)
            found: Sequence[Tensor | None] = [None] * len(leaves)
            if loss.requires_grad:
                start = torch.full_like(loss, batch.weight) if net.weigh_losses else None
                found = torch.autograd.grad(loss, leaves, start, allow_unused=True)
            for k, g in enumerate(found):
                if g is not None:
                    unused.discard(k)
            if j in self._may_stay and not unused and set(map(_layout, found)) == {torch.strided}:
                self._in_pieces.add(j)
                total = Pieces(found)  # type: ignore[arg-type]
            else:
                gj = self._scaled(dense(found, leaves), batch)
                total = gj if total is None else total + gj
        if total is None:  # all samples are on other ranks
            total = torch.zeros_like(self._point.get(j))
            exact = torch.promote_types(total.real.dtype, torch.float32)  # as others' losses
            losses.append(total.new_zeros((), dtype=exact))
        self.unused[j] = unused
        if first:
            self.loss = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        return total

    @torch.enable_grad()
    def hvp(self, j: int, v: Tensor) -> Tensor:
        """∇²_jj of the mean loss, times v."""
        total = torch.zeros_like(v)
        for i, batch in enumerate(self._batches):
            leaves, loss = self._end(i, j)
            grads = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            shapes = [leaf.shape for leaf in leaves]
            terms = [
                (g * part).sum()
                for g, part in zip(grads, unflatten(v, shapes), strict=True)
                if g is not None and g.requires_grad
            ]
            if terms:
                found = torch.autograd.grad(torch.stack(terms).sum(), leaves, allow_unused=True)
                total = total + self._scaled(dense(found, leaves).detach(), batch)
        return total

    def _advance(self, i: int, stage: int) -> Any:
        """The values before `stage`, from the nearest ones that are still true."""
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self._advance(i, stage)
        cached = self._cached[i]
        at = max(filter(stage.__ge__, cached))
        env = cached[at]
        if at < stage:
            run, tensors = self._replays[i].run, self._point.tensors()
            for s in range(at, stage):
                env = run(s, env, tensors, live=self._live)
                if s + 1 in self._net.starts:
                    cached[s + 1] = env
            cached[stage] = env
        return env

    def _end(self, i: int, j: int) -> tuple[list[Tensor], Tensor]:
        """Block j as variables, with its parameters' hooks, and the loss of micro-batch i."""
        net, block = self._net, self._net.blocks[j]
        env, tensors = self._advance(i, block.start), dict(self._point.tensors())
        run, leaves = self._replays[i].run, []
        with torch.enable_grad():
            for name in block.params:
                leaf = tensors[name] = tensors[name].detach().requires_grad_()
                leaves.append(leaf)
                for hook in (net.parameters[name]._backward_hooks or {}).values():
                    leaf.register_hook(hook)  # type: ignore[no-untyped-call]
            for s in range(block.start, len(net.chain.stages)):
                env = run(s, env, tensors, live=self._live)
            return leaves, net.loss_of(net.chain.output(env), self._batches[i])

    def _scaled(self, gj: Tensor, batch: Batch) -> Tensor:
        scale = self._sign if self._net.weigh_losses else batch.weight * self._sign
        return gj if scale == 1.0 else gj * scale


def dense(found: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """Gradients as one vector: sparse ones made dense, zeros where there is none."""
    return flatten(
        [
            torch.zeros_like(a) if g is None else g.to_dense() if g.layout != torch.strided else g
            for g, a in zip(found, like, strict=True)
        ]
    )


class NotFiniteError(RuntimeError):
    """The loss, or the gradient of a block, is NaN or infinite; it was not applied."""


class Checked:
    """A sweep that refuses to go on from a loss that is not finite, before anything has moved.

    On the CPU, where looking costs little, the same holds for every block's gradient: the block
    stays, and with it the parameters finite. On a GPU it would cost a wait in every turn.
    """

    def __init__(self, sweep: Any, replays: list[Any], report: Callable[[Any], str]) -> None:
        self._sweep, self._replays, self._report = sweep, replays, report
        self.get, self.unused = sweep.get, sweep.unused
        self._first = True
        self.moved = False  # whether a block has moved, so that there is something to lose

    def set(self, j: int, u: Tensor) -> None:
        self.moved = True
        self._sweep.set(j, u)

    @property
    def loss(self) -> Tensor:
        return self._sweep.loss  # type: ignore[no-any-return]

    def grad(self, j: int) -> Tensor:
        """∇^j, if the loss is finite."""
        try:
            gj: Tensor = self._sweep.grad(j)
            if self._first and not math.isfinite(loss := float(self._sweep.loss)):
                raise NotFiniteError(
                    f"the loss is {loss}{self._report(self._sweep)}: the step was not applied"
                )
            _require_finite(gj, j, self.moved)
        except BaseException:
            if not self.moved:
                for replay in reversed(self._replays):
                    replay.undo()
            raise
        self._first = False
        return gj


class CheckedLag:
    """The lagged point, whose gradients must be finite as well."""

    def __init__(self, lag: Any, now: Checked) -> None:
        self._lag, self._now = lag, now
        self.follow, self.trim = lag.follow, lag.trim

    def grad(self, j: int) -> Any:
        gj = self._lag.grad(j)
        _require_finite(gj, j, self._now.moved)
        return gj


def _require_finite(gj: Any, j: int, moved: bool) -> None:
    """Look at a gradient, as far as that can be done without waiting for a device."""
    for t in gj if isinstance(gj, Pieces) else [gj]:
        # A finite sum says that all is finite; another one may be an overflow.
        if isinstance(t, Tensor) and t.is_cpu and not math.isfinite(abs(t.sum().item())):
            if bool(torch.isfinite(t).all()):
                continue
            raise NotFiniteError(
                f"the gradient of block {j} is not finite, though the loss is: it was not applied"
                + ("; blocks before it have moved" if moved else "")
            )
