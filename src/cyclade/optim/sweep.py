"""The staged sweep: exact block gradients without a whole pass per block.

`grad(j)` advances the cached values to the input of block j's first stage, replays the stages from
there to the loss, and differentiates with respect to block j alone. Nothing below block j is
computed again, no gradient of another block is formed, and no graph outlives the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cyclade.optim.net import Batch, FlatPoint, LivePoint, Net, flatten, unflatten


@contextmanager
def exact_autocast() -> Iterator[None]:
    """Autocast as the caller set it, but without its cache of cast weights.

    The cache would hand out the weights as they were before a block moved.
    """
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)


class StagedSweep:
    """A point (the live parameters, or a lagged copy) moving along a cycle on one batch."""

    def __init__(
        self,
        net: Net,
        point: LivePoint | FlatPoint,
        batches: Sequence[Batch],
        replays: Sequence[Any],
        *,
        live: bool,
        keep: bool,
        sign: float = 1.0,
    ) -> None:
        self._net, self._point, self._batches = net, point, batches
        self._replays, self._live, self._keep, self._sign = replays, live, keep, sign
        # Cached values before a stage, for each micro-batch: {stage: env}.
        self._cached: list[dict[int, Any]] = [{0: net.chain.start(b.inputs)} for b in batches]
        self._slopes: dict[int, Callable[[Tensor], Tensor]] = {}  # for each micro-batch
        self.get = point.get
        self.loss: Tensor | None = None  # at the point where the sweep began, if that is live

    def set(self, j: int, u: Tensor) -> None:
        """Move block j; what was computed beyond its first stage is no longer true."""
        self._point.set(j, u)
        start = self._net.starts[j]
        for cached in self._cached:
            for stage in [stage for stage in cached if stage > start]:
                del cached[stage]

    def grad(self, j: int) -> Tensor:
        """∇^j of the mean loss over the batch."""
        total: Tensor | None = None
        losses = []
        for i, batch in enumerate(self._batches):
            env = self._advance(i, self._net.starts[j])
            leaves, end = self._suffix(i, j, env)
            found: Sequence[Tensor | None] = [None] * len(leaves)
            if self._by_slope():
                top = self._net.chain.output(end)
                start = self._slope(i, top)
            else:
                top = self._loss(end, batch)
                start = self._net.one(top)
                losses.append(top.detach() * batch.weight)
            if top.requires_grad:
                found = torch.autograd.grad(top, leaves, start, allow_unused=True)
            gj = self._scaled(self._flat(found, leaves), batch)
            total = gj if total is None else total + gj
        assert total is not None
        if self.loss is None and losses:
            self.loss = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        return total

    @torch.enable_grad()
    def hvp(self, j: int, v: Tensor) -> Tensor:
        """∇²_jj of the mean loss, times v."""
        total = torch.zeros_like(v)
        for i, batch in enumerate(self._batches):
            leaves, end = self._suffix(i, j, self._advance(i, self._net.starts[j]))
            loss = self._loss(end, batch)
            grads = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            shapes = [leaf.shape for leaf in leaves]
            terms = [
                (g * part).sum()
                for g, part in zip(grads, unflatten(v, shapes), strict=True)
                if g is not None and g.requires_grad
            ]
            if terms:
                found = torch.autograd.grad(torch.stack(terms).sum(), leaves, allow_unused=True)
                total = total + self._scaled(self._flat(found, leaves).detach(), batch)
        return total

    def _advance(self, i: int, stage: int) -> Any:
        """The values before `stage`, from the nearest ones that are still true."""
        cached = self._cached[i]
        at = max(s for s in cached if s <= stage)
        env = cached[at]
        if at < stage:
            tensors = self._point.tensors()
            with torch.no_grad():
                for s in range(at, stage):
                    env = self._replays[i].run(s, env, tensors, live=self._live)
                    if self._keep and s + 1 in self._net.starts:
                        cached[s + 1] = env
            cached[stage] = env
            if not self._keep and at > 0:
                del cached[at]  # a forward sweep never goes back
        return env

    def _suffix(self, i: int, j: int, env: Any) -> tuple[list[Tensor], Any]:
        """Block j as variables, and the values after the last stage, functions of them alone."""
        net = self._net
        tensors = dict(self._point.tensors())
        leaves = [tensors[name].detach().requires_grad_() for name in net.blocks[j].params]
        tensors.update(zip(net.blocks[j].params, leaves, strict=True))
        with torch.enable_grad():
            for s in range(net.starts[j], len(net.chain.stages)):
                env = self._replays[i].run(s, env, tensors, live=self._live)
        return leaves, env

    @torch.enable_grad()
    def _loss(self, end: Any, batch: Batch) -> Tensor:
        return self._net.loss(end, batch)

    def _by_slope(self) -> bool:
        """Whether to start from the slope of the loss: it has one, and its value is not wanted."""
        return self._net.slope is not None and (self.loss is not None or not self._live)

    def _slope(self, i: int, output: Tensor) -> Tensor:
        """The derivative of the loss in the model's output."""
        output = output.detach()
        if i not in self._slopes:
            assert self._net.slope is not None
            self._slopes[i] = self._net.slope(self._batches[i].target, output)
        return self._slopes[i](output)

    def _scaled(self, gj: Tensor, batch: Batch) -> Tensor:
        scale = batch.weight * self._sign
        return gj if scale == 1.0 else gj * scale

    @staticmethod
    def _flat(found: Sequence[Tensor | None], leaves: Sequence[Tensor]) -> Tensor:
        return flatten(
            [torch.zeros_like(a) if g is None else g for g, a in zip(found, leaves, strict=True)]
        )


class ClosureSweep:
    """The sweep of last resort: one call of a closure per block. Slow, always right.

    The closure returns the loss; whether it calls `backward` itself does not matter.
    """

    def __init__(
        self,
        net: Net,
        point: LivePoint | FlatPoint,
        closure: Callable[[], Tensor],
        *,
        sign: float = 1.0,
    ) -> None:
        self._net, self._point, self._closure, self._sign = net, point, closure, sign
        self.get, self.set = point.get, point.set
        self.loss: Tensor | None = None

    def grad(self, j: int) -> Tensor:
        """∇^j of the closure's loss at this point."""
        params = self._net.block_parameters(j)
        with self._standing_here(), torch.enable_grad():
            for p in self._net.parameters.values():
                p.grad = None
            loss = self._closure()
            if not isinstance(loss, Tensor) or loss.numel() != 1:
                raise ValueError("the closure must return the loss, a scalar tensor")
            grads: Sequence[Tensor | None] = [p.grad for p in params]
            if all(p.grad is None for p in self._net.parameters.values()):
                grads = torch.autograd.grad(loss.reshape(()), params, allow_unused=True)
            for p in self._net.parameters.values():
                p.grad = None
        if self.loss is None:
            self.loss = loss.detach().reshape(())
        return StagedSweep._flat(grads, params).detach() * self._sign

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
