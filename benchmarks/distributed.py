"""Training on several ranks beside DDP: seconds, bytes and reductions of a step, in one run.

Worlds of one and of several ranks (gloo on the CPU, one thread each; or NCCL, one GPU each) run
the same contestants on the same global batch: DDP with `torch.optim.SGD` (what users run today),
our engine with one block, exact cycles in forward and backward order, and VRO-CCD on a large and on
a small batch. For each: milliseconds, throughput against one rank, what is all-reduced in a step,
and the prediction of the cost model of docs/benchmarks/scaling.md over the time measured, with
constants of the same run: what DDP's step takes on a rank's part, what ours takes against it on one
rank, and what a reduction of so many bytes takes.

    python benchmarks/distributed.py                      # LeNet, b = 512, one and two ranks
    python benchmarks/distributed.py --ranks 1 2 4 --out distributed.json
    python benchmarks/distributed.py --checkpoints        # what writing and resuming take

Only a quiet machine with a core for every rank says anything about throughput.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import nets_models
from cyclade.optim import SCCD, SGD, VROCCD, Checkpoints
from measuring import arguments, in_turns, medians, timed
from tables import printed

SMALL = 22  # b' = ⌊√512⌋
LR = 0.05
BASE = "DDP + torch SGD"
SMALL_STEP = "VRO-CCD, small batch"


class Traffic:
    """What is all-reduced: the bytes of every call."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def add(self, tensor: Tensor) -> None:
        """One more all-reduce of this tensor."""
        self.sizes.append(tensor.numel() * tensor.element_size())

    def watching(self) -> Any:
        """Count what goes through `torch.distributed.all_reduce`."""
        plain = dist.all_reduce

        def counted(tensor: Tensor, *args: Any, **options: Any) -> Any:
            self.add(tensor)
            return plain(tensor, *args, **options)

        return patch.object(dist, "all_reduce", counted)


def contestants(
    batch: int, device: torch.device, traffic: Traffic, parts: list[int]
) -> dict[str, Callable[[], Any]]:
    """A step of each, on this rank's part of the batch; alone, the parts of larger worlds too."""
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, 32, 32, generator=generator)
    y = torch.randint(0, 10, (batch,), generator=generator)
    mine = slice(rank * batch // ranks, (rank + 1) * batch // ranks)
    little = slice(rank * SMALL // ranks, (rank + 1) * SMALL // ranks)
    x1, y1, x2, y2 = (a.to(device) for a in (x[mine], y[mine], x[little], y[little]))

    def net() -> nn.Module:
        torch.manual_seed(0)
        return nets_models.LeNet().to(device)

    def ddp() -> Callable[[], Any]:
        model = net()
        wrapped: Any = model
        if dist.is_initialized():
            wrapped = DistributedDataParallel(model, broadcast_buffers=False)
            wrapped.register_comm_hook(traffic, _counting_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)

        def step() -> None:
            optimizer.zero_grad()
            F.cross_entropy(wrapped(x1), y1).backward()
            optimizer.step()

        return step

    def ours(cls: Any, small: slice | None = None, **options: Any) -> Callable[[], Any]:
        opt = cls(net(), F.cross_entropy, lr=LR if cls is not VROCCD else 1e-3, **options)
        if small is None:
            return lambda: opt.step(x1, y1)
        opt.step(x1, y1)
        return lambda: opt.step(x2[small], y2[small], refresh=False)

    page = {"b": batch, "b_small": SMALL, "blocks": "layers"}
    of_parts = {part_of(SMALL_STEP, k): slice(0, -(-SMALL // k)) for k in parts}
    return {
        BASE: ddp(),
        "SGD, one block": ours(SGD),
        "SCCD forward": ours(SCCD, blocks="layers"),
        "SCCD backward": ours(SCCD, blocks="layers", order="backward"),
        "VRO-CCD, large batch": ours(VROCCD, **page),
        SMALL_STEP: ours(VROCCD, slice(None), **page),
        **{name: ours(VROCCD, part, **page) for name, part in of_parts.items()},
    }


def part_of(name: str, ranks: int) -> str:
    """What a step on the part of one of so many ranks is called, where it is made alone."""
    return f"{name} / {ranks}"


def _counting_hook(traffic, bucket):  # type: ignore[no-untyped-def]  # DDP reads annotations
    """DDP's own average, counted."""
    buffer = bucket.buffer()
    traffic.add(buffer)
    buffer.div_(dist.get_world_size())
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda done: done.value()[0])


def as_rank(batch: int, repeats: int, backend: str, out: Path, parts: list[int]) -> None:
    """One rank: the median milliseconds and the traffic of every contestant."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if ranks > 1:
        dist.init_process_group(backend)
    traffic = Traffic()
    steps, sent = contestants(batch, device, traffic, parts), {}
    for name, step in steps.items():
        # DDP counts in its hook, which itself calls all_reduce.
        with traffic.watching() if not name.startswith("DDP") else nullcontext():
            step()  # the first one of VRO-CCD forms g_{−1}
            traffic.sizes = []
            step()
        sent[name] = list(traffic.sizes)

    def read(step: Callable[[], Any]) -> float:
        _wait(device)
        return nets_models.seconds(step)

    seconds = medians(in_turns(steps, repeats, warm=3, one=read))
    found = {name: {"seconds": seconds[name], "sent": sent[name]} for name in steps}
    reducing = reduction_seconds(device) if ranks > 1 else []
    if ranks == 1 or dist.get_rank() == 0:
        alone = {str(k): found.pop(part_of(SMALL_STEP, k))["seconds"] for k in parts}
        out.write_text(json.dumps({"steps": found, "reducing": reducing, "alone": alone}))
    if ranks > 1:
        dist.barrier()
        os._exit(0)  # DDP's hook and gloo's threads do not survive the end of Python together


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
    if dist.is_initialized():
        dist.barrier()


def reduction_seconds(device: torch.device) -> list[tuple[int, float]]:
    """Seconds that an all-reduce of so many bytes adds between two pieces of work.

    Ranks that work arrive at different moments, and threads that slept must wake: behind a barrier
    a reduction is several times as fast as in a cycle.
    """
    image, kernel = torch.randn(64, 16, 32, 32, device=device), torch.randn(16, 16, 3, 3).to(device)

    def seconds(tensor: Tensor | None) -> float:
        each = []
        for _ in range(20):
            _wait(device)
            begun = time.perf_counter()
            for _ in range(5):
                F.conv2d(image, kernel)
                if tensor is not None:
                    dist.all_reduce(tensor)
            if device.type == "cuda":
                torch.cuda.synchronize()
            each.append((time.perf_counter() - begun) / 5)
        return statistics.median(each)

    seconds(None)
    work = seconds(None)
    sizes = (1, 1024, 16 * 1024, 256 * 1024)
    return [(4 * size, seconds(torch.zeros(size, device=device)) - work) for size in sizes]


def world(ranks: int, batch: int, repeats: int, backend: str, parts: list[int]) -> dict[str, Any]:
    """Run a world of so many ranks."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "found.json"
        line = [__file__, "--as-rank", str(batch), str(repeats), backend, str(out)]
        line += map(str, parts)
        if ranks > 1:
            line = [
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={ranks}",
                *line,
            ]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *line], check=True, env=env)
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def predicted(name: str, ranks: int, alone: dict[str, Any], there: dict[str, Any]) -> float:
    """Seconds by the cost model: R times the arithmetic of SGD on the part, and every wait.

    A part of the small batch is mostly calls, so its time is not that of SGD's part times R: it is
    measured alone.
    """
    sizes, seconds = zip(*there["reducing"], strict=True)

    def waits(who: str) -> float:
        return float(np.interp(there["steps"][who]["sent"], sizes, seconds).sum())

    ratio = alone["steps"][name]["seconds"] / alone["steps"][BASE]["seconds"]
    arithmetic = ratio * (there["steps"][BASE]["seconds"] - waits(BASE))
    if name == SMALL_STEP:
        arithmetic = alone["alone"][str(ranks)]
    exchange = 0.0 if name == BASE else seconds[0]  # of nine numbers before the step
    return arithmetic + waits(name) + exchange


def lines(worlds: dict[int, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The table of docs/benchmarks/scaling.md."""
    for ranks, found in worlds.items():
        base = found["steps"][BASE]
        for name, one in found["steps"].items():
            gain = worlds[1]["steps"][name]["seconds"] / one["seconds"]
            share = predicted(name, ranks, worlds[1], found) / one["seconds"] if ranks > 1 else 1.0
            sent = sum(one["sent"])
            yield {
                "a step": name, "ranks": ranks, "ms": f"{one['seconds'] * 1e3:.1f}",
                "/ DDP": f"{one['seconds'] / base['seconds']:.2f}", "x one rank": f"{gain:.2f}",
                "predicted / measured": f"{share:.2f}", "reductions": len(one["sent"]),
                "bytes": sent, "more than DDP": sent - sum(base["sent"]),
            }  # fmt: skip


def checkpoints(batch: int, repeats: int, cls: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint after every epoch costs, and how long it takes until a run goes on.

    LeNet, one rank with one thread, epochs of CIFAR-10's 98 batches. To resume is to build model
    and optimizer and to load; the first step that follows proves the blocks again, as in any run.
    """
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    numbers = count()

    def fresh() -> tuple[nn.Module, Any]:
        model = nets_models.LeNet()
        return model, cls(model, F.cross_entropy, lr=LR, **options)

    with tempfile.TemporaryDirectory() as folder:
        kept, (model, opt) = Checkpoints(folder), fresh()

        def save() -> Path:
            return kept.save(next(numbers), model=model, opt=opt)

        def resume() -> Any:
            again, found = fresh()
            Checkpoints(folder).load(model=again, opt=found)
            return found

        calls = {"step": lambda: opt.step(x, y), "save": save}
        times = in_turns(calls, repeats, warm=2, one=nets_models.seconds)
        times |= {"resume": [], "next": []}
        size = save().stat().st_size / 1e6
        for _ in range(5):
            took, again = timed(resume, time.perf_counter)
            times["resume"].append(took)
            times["next"].append(nets_models.seconds(partial(again.step, x, y)))
    ms = {key: 1e3 * value for key, value in medians(times).items()}
    return {
        "ms a step": f"{ms['step']:.1f}", "ms a checkpoint": f"{ms['save']:.2f}",
        "% of an epoch": f"{100 * ms['save'] / (98 * ms['step']):.3f}", "MB": f"{size:.2f}",
        "ms to resume": f"{ms['resume']:.1f}", "ms of the next step": f"{ms['next']:.1f}",
    }  # fmt: skip


def main() -> None:
    """Run the worlds and print the table."""
    if sys.argv[1:2] == ["--as-rank"]:
        batch, repeats, backend, out = sys.argv[2:6]
        as_rank(int(batch), int(repeats), backend, Path(out), [int(k) for k in sys.argv[6:]])
        return
    chosen = arguments(
        __doc__, csv=Path, ranks=[1, 2], batch=512, repeats=20, backend="gloo", out=Path,
        checkpoints=False,
    )  # fmt: skip
    if chosen.checkpoints:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        page = {"b": chosen.batch, "b_small": SMALL, "blocks": "layers"}
        runs: Any = {"SCCD": (SCCD, {"blocks": "layers"}), "VRO-CCD": (VROCCD, page)}
        rows = (
            {"run": name} | checkpoints(chosen.batch, chosen.repeats, *run)
            for name, run in runs.items()
        )
        printed(rows, chosen.csv)
        return
    larger = sorted({*chosen.ranks} - {1})
    worlds = {
        ranks: world(
            ranks, chosen.batch, chosen.repeats, chosen.backend, larger if ranks == 1 else []
        )
        for ranks in (1, *larger)
    }
    rows = printed(lines(worlds), chosen.csv)
    for ranks, found in worlds.items():
        for size, seconds in found["reducing"]:
            print(f"all-reduce of {size:>9,} bytes on {ranks} ranks: {seconds * 1e6:.0f} µs")
    if chosen.out is not None:
        about = {"batch": chosen.batch, "backend": chosen.backend, "torch": torch.__version__}
        reducing = {ranks: found["reducing"] for ranks, found in worlds.items()}
        every = {"about": about, "rows": rows, "worlds": worlds, "reducing": reducing}
        chosen.out.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
