"""What a cycle costs on neural nets, beside SGD: one run, ratios.

For each model: an eager `torch.optim.SGD` step (what users run today), one step of our engine with
one block (SGD), an exact cycle (SCCD), and a cycle by full passes (one whole forward and backward
per block). For LeNet also PAGE and VRO-CCD on small batches. "/ours" compares with our own engine
moving one block, in the same mode: SGD, or PAGE for VRO-CCD. Next to the times: the
ratio that the multiply-add count predicts, the calls of Python functions (which have no noise), and
peak memory. On CUDA also captured, and captured with compiled stages.

Times are medians over repeats that visit the contestants in turn; only ratios mean anything on a
shared CPU.

    python benchmarks/nets.py                 # LeNet on the CPU
    python benchmarks/nets.py --device cuda --models lenet resnet gpt --out nets.json
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import nets_models
from cyclade.optim import PAGE, SCCD, SGD, VROCCD
from measuring import arguments, in_turns, medians
from tables import printed

Step = Callable[[], Any]
LR = 1e-3


def main() -> None:
    """Run the benchmark and print its table."""
    given = arguments(
        __doc__, device="cpu", models=["lenet"], repeats=int, batch=int, out=Path, tf32=False
    )
    if given.tf32:
        torch.set_float32_matmul_precision("high")
    find_kernels()
    every = (measure(m, given.device, given.repeats, given.batch) for m in given.models)
    rows = printed(row for rows in every for row in rows)
    if given.out is not None:
        device = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
        about = {"torch": torch.__version__, "device": device, "tf32": given.tf32}
        given.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


def find_kernels() -> None:
    """Let cuDNN find the fastest kernels, for every contestant.

    It tries them when a convolution first runs. On a device that has just woken it may pick one for
    LeNet's first layer that takes twice the time of the best. TF32 does not pay in convolutions of
    so few channels.
    """
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    if torch.cuda.is_available():
        a = torch.randn(4096, 4096, device="cuda")
        for _ in range(200):
            a = (a @ a).clamp_(-1, 1)
        torch.cuda.synchronize()


def measure(name: str, device: str, repeats: int | None, size: int | None) -> list[dict[str, Any]]:
    """All contestants on one model."""
    make, data, blocks, default = CASES[name]
    size = size or default
    repeats = repeats or (30 if device == "cuda" else 7)
    x, y = data(size, device)
    predicted: dict[str, float] = {}
    steps: dict[str, Step] = {}

    def fresh() -> nn.Module:
        torch.manual_seed(0)
        return make().to(device)

    def add(label: str, opt: Any, inputs: Any, target: Any) -> None:
        steps[label] = lambda: opt.step(inputs, target)
        opt.step(inputs, target)
        predicted[label] = opt.predicted_overhead

    model = fresh()
    peer = torch.optim.SGD(model.parameters(), lr=LR)
    steps["torch SGD"] = lambda: torch_step(model, peer, x, y)
    predicted["torch SGD"] = 1.0
    kw: dict[str, Any] = {"lr": LR, "weight_decay": 5e-4}
    cyclic = {**kw, "blocks": blocks or "layers", "example": x}
    modes: dict[str, dict[str, bool]] = {"": {}}
    if device == "cuda":
        modes |= {", captured": {"capture": True}}
        if name == "lenet":  # deep nets have many stages, each compiled for each role it plays
            modes |= {", captured + compiled": {"capture": True, "compile": True}}
    for suffix, mode in modes.items():
        add(f"SGD{suffix}", SGD(fresh(), F.cross_entropy, **mode, **kw), x, y)
        for order in ("forward", "backward", "shuffled"):
            if order == "shuffled" and mode.get("compile"):
                continue
            opt = SCCD(fresh(), F.cross_entropy, order=order, **mode, **cyclic)
            add(f"SCCD {order}{suffix}", opt, x, y)
    full = SCCD(fresh(), F.cross_entropy, **cyclic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps["full pass per block"] = lambda: full.step(lambda: backward(full.net.model, x, y))
        steps["full pass per block"]()
    predicted["full pass per block"] = float(full.net.m)
    if name == "lenet":
        small = 22
        for suffix, mode in modes.items():
            for cls, label in ((PAGE, "PAGE"), (VROCCD, "VRO-CCD")):
                opt = cls(fresh(), F.cross_entropy, b=size, b_small=small, **mode, **cyclic)
                opt.step(x, y)
                add(f"{label} b'={small}{suffix}", opt, x[:small], y[:small])
    times, memory = timed(steps, repeats, device)
    rows = []
    for label in steps:
        peer_label = "PAGE b'=22" if "b'=" in label else "SGD"
        same = peer_label + ("," + label.partition(",")[2] if "," in label else "")
        rows.append({
            "model": name, "batch": size, "step": label, "ms": 1e3 * times[label],
            "vs torch SGD": times[label] / times["torch SGD"],
            "vs ours": times[label] / times[same],
            "multiply-adds": predicted[label], "python calls": calls(steps[label]),
            "memory vs torch SGD": memory.get(label),
        })  # fmt: skip
    return rows


def torch_step(model: nn.Module, opt: torch.optim.Optimizer, x: Any, y: Any) -> None:
    """The step users run today."""
    opt.zero_grad(set_to_none=True)
    F.cross_entropy(model(x), y).backward()
    opt.step()


def backward(model: nn.Module, x: Any, y: Any) -> Any:
    """The closure users write: a forward and a backward through the whole model."""
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss


def timed(
    steps: dict[str, Step], repeats: int, device: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of each step, visited in turn; and peak memory over torch SGD's on CUDA."""
    inner = 20 if device == "cuda" else 1
    read = partial(nets_models.seconds, each=inner)
    found = medians(in_turns(steps, repeats, warm=6, one=read))  # past warm-up and capture
    peaks: dict[str, float] = {}
    if device == "cuda":
        for label, step in steps.items():
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            step()
            torch.cuda.synchronize()
            peaks[label] = torch.cuda.max_memory_allocated() - before
    base = peaks.get("torch SGD", 1.0)
    # A captured step allocates in its graph's own pool, where this does not see it.
    memory = {k: v / base for k, v in peaks.items() if "captured" not in k}
    return found, memory


def calls(step: Step) -> int:
    """How many Python functions a step calls, torch's own among them."""
    found = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return found


def images(size: int, device: str) -> tuple[Any, Any]:
    """Random CIFAR-10 images."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, 3, 32, 32, generator=generator)
    return x.to(device), torch.randint(0, 10, (size,), generator=generator).to(device)


def tokens(size: int, device: str) -> tuple[Any, Any]:
    """Random token sequences with the class of each as target."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 5000, (size, 256), generator=generator)
    return x.to(device), torch.randint(0, 5000, (size,), generator=generator).to(device)


CASES: dict[str, tuple[Any, Any, int | None, int]] = {
    "lenet": (nets_models.LeNet, images, None, 512),
    "resnet": (nets_models.ResNet18, images, 4, 512),
    "gpt": (nets_models.GPT, tokens, 4, 32),
}


if __name__ == "__main__":
    main()
