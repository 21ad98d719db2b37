"""A whole cycle as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from cyclade.optim.net import Batch

Body = Callable[[list[Batch]], Tensor]


class Graphs:
    """Replays a cycle from a CUDA graph; one graph for each kind of cycle and shape of batch.

    The first `warmup` cycles of a kind run eagerly (they are ordinary steps), the next one is
    captured and replayed. What changes between cycles must live in tensors that keep their place:
    parameters, state, lr, and the static copies of the batch made here.
    """

    def __init__(self, warmup: int = 3) -> None:
        self._warmup = warmup
        self._ran: dict[Any, int] = {}
        self._ready: dict[Any, tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]] = {}
        self._pool: Any = None
        self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def clear(self) -> None:
        """Forget every graph: something they point to was replaced."""
        self._ran.clear()
        self._ready.clear()

    def run(self, kind: Any, batches: list[Batch], body: Body) -> Tensor:
        """The loss of `body(batches)`, run eagerly, captured, or replayed."""
        calls = [(b.inputs.args, b.inputs.kwargs, b.target) for b in batches]
        leaves, spec = pytree.tree_flatten(calls)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        plain = tuple(repr(leaf) for leaf in leaves if not isinstance(leaf, Tensor))
        key = (kind, tuple((t.shape, t.dtype) for t in tensors), plain, spec)
        ready = self._ready.get(key)
        if ready is None:
            ran = self._ran[key] = self._ran.get(key, 0) + 1
            if ran <= self._warmup:
                return self._aside(body, batches)
            ready = self._ready[key] = self._capture(body, batches, leaves, spec)
        graph, static, loss = ready
        torch._foreach_copy_(static, tensors)
        graph.replay()
        return loss.clone()

    def _aside(self, body: Body, batches: list[Batch]) -> Tensor:
        """Eagerly, on the stream that captures: what warms up there is what is captured there."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = body(batches)
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _capture(
        self, body: Body, batches: list[Batch], leaves: list[Any], spec: Any
    ) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]:
        static = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        calls = pytree.tree_unflatten(static, spec)
        copies = [
            Batch(type(b.inputs)(tuple(args), dict(kwargs)), target, b.weight, b.size)
            for b, (args, kwargs, target) in zip(batches, calls, strict=True)
        ]
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = body(copies)
        return graph, [leaf for leaf in static if isinstance(leaf, Tensor)], loss
