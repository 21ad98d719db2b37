"""Which kernels a captured step of LeNet runs, how often, and for how long.

One line a kernel: how often a step runs it, and its microseconds in all, by the CUDA profiler over
replays of the captured step. The last lines are the sum (kernels on two streams overlap, so it may
exceed the step) and the milliseconds of a step by the clock.

    python benchmarks/nets_kernels.py --tf32 --out kernels.json
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import nets_models
from cyclade.optim import PAGE, SCCD, SGD, VROCCD
from nets import device_name, find_kernels, images

METHODS = {"SGD": SGD, "SCCD": SCCD, "PAGE": PAGE, "VRO-CCD": VROCCD}
LARGE, SMALL = 512, 22
REPLAYS = 50


def main() -> None:
    """Profile the steps and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--compile", action="store_true", help="compiled stages")
    parser.add_argument("--tf32", action="store_true", help="TensorFloat-32 matrix products")
    parser.add_argument("--top", type=int, default=25, help="lines of a printed table")
    parser.add_argument("--out", type=Path, default=None, help="write all lines as JSON")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("a captured step needs a CUDA device")
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    find_kernels()
    found = []
    for name in options.methods:
        step = captured(name, compile=options.compile)
        rows, ms = profiled(step), clocked(step)
        found.append({"step": name, "ms": ms, "kernels": rows})
        show(name, rows, ms, options.top)
    if options.out is not None:
        about = {
            "torch": torch.__version__, "device": device_name("cuda"), "tf32": options.tf32,
            "compile": options.compile,
        }  # fmt: skip
        options.out.write_text(json.dumps({"about": about, "steps": found}, indent=1) + "\n")


def captured(name: str, *, compile: bool) -> Callable[[], Any]:
    """A step on LeNet that has been captured: b = 512 samples, or b' = 22 of a recursive method."""
    x, y = images(LARGE, "cuda")
    torch.manual_seed(0)
    options: dict[str, Any] = {} if name in ("SGD", "PAGE") else {"blocks": "layers"}
    recursive = name in ("PAGE", "VRO-CCD")
    if recursive:
        options |= {"b": LARGE, "b_small": SMALL}
    opt = METHODS[name](
        nets_models.LeNet().cuda(), F.cross_entropy, lr=1e-3, weight_decay=5e-4, capture=True,
        compile=compile, **options,
    )  # fmt: skip
    if recursive:
        opt.step(x, y)
        x, y = x[:SMALL], y[:SMALL]
    for _ in range(8):
        opt.step(x, y)
    return lambda: opt.step(x, y)


def clocked(step: Callable[[], Any]) -> float:
    """Milliseconds of a step, the median over runs of twenty."""
    times = []
    for _ in range(15):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(20):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / 20)
    return 1e3 * statistics.median(times)


def profiled(step: Callable[[], Any]) -> list[dict[str, Any]]:
    """The kernels of a step: name, how often, microseconds in all; the longest first."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(REPLAYS):
            step()
        torch.cuda.synchronize()
    total: dict[str, list[float]] = {}
    for event in profile.events() or []:
        if event.device_type == torch.autograd.DeviceType.CUDA:
            total.setdefault(short(event.name), []).append(event.device_time_total)
    rows = [
        {"kernel": name, "count": len(times) / REPLAYS, "us": sum(times) / REPLAYS}
        for name, times in total.items()
    ]
    return sorted(rows, key=lambda row: -float(row["us"]))


def short(name: str) -> str:
    """A kernel's name without return type, template arguments of arguments, and arguments."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::|at::native::|at_cuda_detail::", "", name)
    name = name.split("(")[0] if not name.startswith("(") else name
    return name if len(name) <= 90 else f"{name[:87]}..."


def show(name: str, rows: list[dict[str, Any]], ms: float, top: int) -> None:
    """A plain table."""
    print(f"\n{name}: {ms:.3f} ms a step, {sum(r['count'] for r in rows):.0f} kernels")
    print(f"{'us':>9} {'count':>6}  kernel")
    for row in rows[:top]:
        print(f"{row['us']:>9.1f} {row['count']:>6.1f}  {row['kernel']}")
    rest = rows[top:]
    if rest:
        print(f"{sum(r['us'] for r in rest):>9.1f} {sum(r['count'] for r in rest):>6.1f}  others")
    print(f"{sum(r['us'] for r in rows):>9.1f} {sum(r['count'] for r in rows):>6.1f}  all")


if __name__ == "__main__":
    main()
