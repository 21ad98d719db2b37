"""What a cycle costs on neural nets, beside SGD: one run, ratios.

For each model: an eager `torch.optim.SGD` step (what users run today), one step of our engine with
one block (SGD), an exact cycle (SCCD), and a cycle by full passes (one whole forward and backward
per block). For LeNet also PAGE and VRO-CCD on small batches. For LeNet and a small MLP a bare loop
by hand too: it makes the same calls of torch as an exact cycle and nothing else. What it takes over
SGD is the price of so many calls; what SCCD takes over the loop is our own. "/ours" compares with
our own engine moving one block, in the same mode: SGD, or PAGE for VRO-CCD. Next to the times: the
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
from torch import Tensor, nn

import nets_models
from cyclade.optim import PAGE, SCCD, SGD, VROCCD
from measuring import command_line, in_turns, medians
from tables import printed

Step = Callable[[], Any]
Stage = tuple[Callable[[Tensor, Tensor, Tensor], Tensor], Any]
LR = 1e-3


def main() -> None:
    """Run the benchmark and print its table."""
    parser = command_line(__doc__, csv="")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--models", nargs="+", default=["lenet"], choices=list(CASES))
    parser.add_argument("--repeats", type=int, default=None)
    parser.add_argument("--batch", type=int, default=None, help="batch size (default 512; gpt 32)")
    parser.add_argument("--out", type=Path, default=None, help="write the rows as JSON")
    parser.add_argument("--tf32", action="store_true", help="TensorFloat-32 matrix products")
    options = parser.parse_args()
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    find_kernels()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no CUDA device is available")
    every = (measure(m, options.device, options.repeats, options.batch) for m in options.models)
    rows = printed(row for rows in every for row in rows)
    if options.out is not None:
        about = {
            "torch": torch.__version__, "device": device_name(options.device),
            "tf32": options.tf32,
        }  # fmt: skip
        options.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


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
    if name in ("lenet", "mlp"):
        stages = by_layers(fresh())
        steps["by hand"], predicted["by hand"] = (
            lambda: cycle(stages, x, y),
            full.predicted_overhead,
        )
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


def cycle(stages: list[Stage], x: Tensor, y: Tensor) -> Tensor:
    """Every layer once, in forward order; the loss at the start."""
    before, m = x, len(stages)
    hot = F.one_hot(y, stages[-1][1].weight.shape[0]).float() / len(y)
    loss = x.new_zeros(())
    for j, (apply, layer) in enumerate(stages):
        leaves = [p.detach().requires_grad_() for p in (layer.weight, layer.bias)]
        z = apply(before, *leaves)
        for later, above in stages[j + 1 :]:
            z = later(z, above.weight.detach(), above.bias.detach())
        with torch.no_grad():
            if j == 0:
                loss = F.cross_entropy(z, y)
            slope = torch.softmax(z, 1) / len(y) - hot
        grads = torch.autograd.grad(z, leaves, slope)
        with torch.no_grad():
            torch._foreach_add_([layer.weight, layer.bias], grads, alpha=-LR)
            if j < m - 1:
                before = apply(before, layer.weight, layer.bias)
    return loss


def by_layers(model: nn.Module) -> list[Stage]:
    """The layers of the MLP or of LeNet, each with what comes before it."""
    layers = [c for c in model.modules() if isinstance(c, nn.Conv2d | nn.Linear)]
    if len(layers) == 3:
        before: list[Any] = [None, F.relu, F.relu]
    else:
        before = [None, _pooled, lambda x: _pooled(x).flatten(1), F.relu, F.relu]
    return [(_stage(layer, first), layer) for layer, first in zip(layers, before, strict=True)]


def _pooled(x: Tensor) -> Tensor:
    return F.max_pool2d(F.relu(x), 2)


def _stage(layer: nn.Module, first: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    call: Any = F.conv2d if isinstance(layer, nn.Conv2d) else F.linear
    if first is None:
        return lambda x, w, b: call(x, w, b)
    return lambda x, w, b: call(first(x), w, b)


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


def device_name(device: str) -> str:
    """What the times were measured on."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def images(size: int, device: str) -> tuple[Any, Any]:
    """Random CIFAR-10 images."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, 3, 32, 32, generator=generator)
    return x.to(device), torch.randint(0, 10, (size,), generator=generator).to(device)


def points(size: int, device: str) -> tuple[Any, Any]:
    """Random points of three classes."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, 20, generator=generator)
    return x.to(device), torch.randint(0, 3, (size,), generator=generator).to(device)


def tokens(size: int, device: str) -> tuple[Any, Any]:
    """Random token sequences with the class of each as target."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 5000, (size, 256), generator=generator)
    return x.to(device), torch.randint(0, 5000, (size,), generator=generator).to(device)


def mlp() -> nn.Module:
    """Three small layers."""
    layers = (nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    return nn.Sequential(*layers)


CASES: dict[str, tuple[Any, Any, int | None, int]] = {
    "mlp": (mlp, points, None, 64),
    "lenet": (nets_models.LeNet, images, None, 512),
    "resnet": (nets_models.ResNet18, images, 4, 512),
    "gpt": (nets_models.GPT, tokens, 4, 32),
}


if __name__ == "__main__":
    main()
