"""Cycles as CUDA graphs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cyclade.optim._trees import pytree
from cyclade.optim.net import Batch

Body = Callable[[list[Batch]], Tensor]

# Many runs may share a GPU, each in a thread with a stream of its own. What is not a replay (eager
# warm-up and capture) happens on two streams that all of them share, one run at a time: torch hands
# out streams from a small pool, and work of another run on a stream under capture would end up in
# the graph. Streams of high priority are a pool apart from those that runs are given.
alone = threading.RLock()


@cache
def _recording_stream(device: int) -> Any:
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


@cache
def side_stream(device: int) -> Any:
    """A second stream for what runs beside the main part of a captured cycle."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


class Recorder:
    """Runs a piece of work eagerly a few times, then captures it, and replays it from then on.

    What changes between replays must live in tensors that keep their place.
    """

    WARMUP = 3

    def __init__(self) -> None:
        self._ran: dict[Any, int] = {}
        self._ready: dict[Any, tuple[torch.cuda.CUDAGraph, Any]] = {}
        self._pool: Any = None

    def clear(self) -> None:
        """Forget every graph: something they point to was replaced."""
        if self._ready:
            torch.cuda.current_stream().synchronize()  # none may still be running
        self._ran.clear()
        self._ready.clear()
        self._pool = None  # it went with the last of its graphs

    def __len__(self) -> int:
        return len(self._ready)

    def warm(self, key: Any) -> bool:
        """Whether work of this kind has run eagerly often enough to be captured."""
        return self._ran.get(key, 0) >= self.WARMUP

    def eagerly(self, key: Any, work: Callable[[], Any]) -> Any:
        """Run it where it will be captured: what warms up there is what is captured there."""
        self._ran[key] = self._ran.get(key, 0) + 1
        here = torch.cuda.current_stream()
        with alone:
            stream = _recording_stream(here.device_index)
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                result = work()
            here.wait_stream(stream)
            here.synchronize()  # before another run uses these streams and their memory
        return result

    def replay(self, key: Any, work: Callable[[], Any]) -> Any:
        """Replay it, captured first if need be; what it returned when it was captured."""
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._capture(work)
        graph, result = ready
        graph.replay()
        return result

    def _capture(self, work: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        here = torch.cuda.current_stream()
        here.synchronize()
        collecting = gc.isenabled()
        with alone, torch.cuda.stream(_recording_stream(here.device_index)):
            gc.disable()  # nothing on the device may be freed while it records
            # cuBLAS keeps a workspace for each stream. Graphs recorded on one stream would share
            # it and, replayed side by side, write into each other's sums: each gets its own.
            torch._C._cuda_clearCublasWorkspaces()
            try:
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = work()
                finally:
                    torch._C._cuda_clearCublasWorkspaces()
                    graph.capture_end()
            finally:
                if collecting:
                    gc.enable()
        return graph, result


class Graphs:
    """Replays a cycle from a CUDA graph; one graph for each kind of cycle and shape of batch.

    The first cycles of a kind run eagerly (they are ordinary steps), the next one is captured and
    replayed on static copies of its batch.
    """

    def __init__(self) -> None:
        self._recorder = Recorder()
        self._static: dict[Any, tuple[list[Tensor], list[Batch]]] = {}

    def clear(self) -> None:
        """Forget every graph: something they point to was replaced."""
        self._recorder.clear()
        self._static.clear()

    def __len__(self) -> int:
        return len(self._recorder)

    def run(self, kind: Any, batches: list[Batch], body: Body) -> Tensor:
        """The loss of `body(batches)`, run eagerly, captured, or replayed."""
        tensors, shape = described(batches)
        key = (kind, shape)
        if not self._recorder.warm(key):
            eager: Tensor = self._recorder.eagerly(key, lambda: body(batches))
            eager.record_stream(torch.cuda.current_stream())  # it was made on another stream
            return eager
        if key not in self._static:
            self._static[key] = static_copies(batches)
        static, copies = self._static[key]
        torch._foreach_copy_(static, tensors)
        loss: Tensor = self._recorder.replay(key, lambda: body(copies))
        return loss.clone()


def described(batches: list[Batch]) -> tuple[list[Tensor], Any]:
    """The tensors of the batches, and all else that a graph over them bakes in."""
    leaves, spec = pytree.tree_flatten(_calls(batches))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    plain = tuple(repr(leaf) for leaf in leaves if not isinstance(leaf, Tensor))
    return tensors, (tuple((t.shape, t.dtype) for t in tensors), plain, spec)


def static_copies(batches: list[Batch]) -> tuple[list[Tensor], list[Batch]]:
    """Batches of the same kind in storage of their own, and their tensors."""
    leaves, spec = pytree.tree_flatten(_calls(batches))
    static = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    copies = [
        Batch(type(b.inputs)(tuple(args), dict(kwargs)), target, b.weight, b.size)
        for b, (args, kwargs, target) in zip(
            batches, pytree.tree_unflatten(static, spec), strict=True
        )
    ]
    return [leaf for leaf in static if isinstance(leaf, Tensor)], copies


def _calls(batches: list[Batch]) -> list[Any]:
    return [(b.inputs.args, b.inputs.kwargs, b.target) for b in batches]
