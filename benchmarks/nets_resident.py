"""Memory, milliseconds and loss of `resident="block"`, beside AdamW, on a GPT of 300 M parameters.

    python benchmarks/nets_resident.py --device cuda --csv docs/benchmarks/nets-resident.csv
    python benchmarks/nets_resident.py                    # a small one on the CPU

Needs torch and NumPy alone. The GPT reads bytes. First each contestant makes steps on random bytes:
its peak memory (on CUDA, `torch.cuda.max_memory_allocated`) and its mean milliseconds. Then the
model is trained by AdamW on Python's own source, and each contestant moves it from there to English
(the text of Python's `help`) in a quarter of these seconds. The loss is that of held-out text, in
nats a byte, the best of three rates.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import pydoc_data.topics
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nets_models
from cyclade.optim import SCCD
from measuring import arguments
from tables import printed

Step = Callable[[Tensor, Tensor], Any]
RATES = (3e-5, 1e-4, 3e-4)
SIZES = {"cuda": (1024, 24, 512, 16), "cpu": (64, 4, 32, 4)}  # width, layers, bytes, sequences


# ------------------------------------------------------------------------------------------- model


class Embedding(nn.Module):
    """Bytes and their positions as vectors."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        nn.init.normal_(self.bytes.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors."""
        out: Tensor = self.bytes(x) + self.positions
        return out


def gpt(width: int, depth: int, length: int) -> nn.Sequential:
    """A GPT on bytes, with GPT-2's initial weights."""
    layers = [nets_models.Layer(width, width // 64) for _ in range(depth)]
    top = (nn.LayerNorm(width), nn.Linear(width, 256, bias=False))
    model = nn.Sequential(Embedding(width, length), *layers, *top)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            scale = (2 * depth) ** -0.5 if name.endswith(("out", "down")) else 1.0
            nn.init.normal_(module.weight, std=0.02 * scale)
    return model


def loss_of(scores: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy in nats a byte."""
    return F.cross_entropy(scores.flatten(0, 1).float(), target.flatten())


# ------------------------------------------------------------------------------------- contestants


def adamw(model: nn.Module, lr: float) -> Step:
    """All of the model at once, with a warm-up and clipped gradients."""
    fused = next(model.parameters()).is_cuda
    opt = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), fused=fused)
    warm_up = torch.optim.lr_scheduler.LinearLR(opt, 0.02, total_iters=WARM_UP)

    def step(x: Tensor, y: Tensor) -> Tensor:
        opt.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        warm_up.step()
        return loss.detach()

    return step


def resident(model: nn.Module, lr: float) -> Step:
    """One of eight blocks at a time."""
    return SCCD(model, loss_of, lr=lr, resident="block", visit_steps=VISIT).step


VISIT, WARM_UP = 20, 50
CONTESTANTS: dict[str, tuple[Callable[[nn.Module, float], Step], torch.dtype]] = {
    "AdamW": (adamw, torch.float32),
    "resident block": (resident, torch.float32),
    "resident block, parameters in bfloat16": (resident, torch.bfloat16),
}
WORDS = {torch.float32: "float32, bfloat16 autocast", torch.bfloat16: "bfloat16"}


def precision(dtype: torch.dtype, device: str) -> contextlib.AbstractContextManager[Any]:
    """Autocast for float32 parameters."""
    return torch.autocast(device, torch.bfloat16, enabled=dtype == torch.float32)


def made(name: str, model: nn.Module, lr: float, device: str) -> Step:
    """A step of this contestant. Autocast ends with each: it keeps its casts of the weights."""
    make, dtype = CONTESTANTS[name]
    step = make(model, lr)

    def under_precision(x: Tensor, y: Tensor) -> Any:
        with precision(dtype, device):
            return step(x, y)

    return under_precision


# ------------------------------------------------------------------------------------------ memory


def peak(steps: Callable[[], Any], device: str) -> float | None:
    """The peak memory of what is done, in GiB; known on CUDA alone."""
    if device == "cpu":
        steps()
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    steps()
    torch.cuda.synchronize()
    return round(torch.cuda.max_memory_allocated() / 2**30, 4)


def measured(name: str, device: str) -> dict[str, Any]:
    """Peak memory and milliseconds of this contestant's steps on random bytes."""
    dtype = CONTESTANTS[name][1]
    width, depth, length, n = SIZES[device]
    gc.collect()  # of the contestant before
    model, shape = gpt(width, depth, length).to(device, dtype), (n, length)
    step = made(name, model, 1e-4, device)
    batches = [torch.randint(0, 256, shape, device=device) for _ in range(2)]
    once, all_blocks = partial(step, *batches), 8 * VISIT
    first = peak(once, device)  # a cyclic optimizer proves its stages here
    later = peak(lambda: [once() for _ in range(all_blocks - 1)], device)
    ms = 1e3 * nets_models.seconds(once, all_blocks)
    return {
        "optimizer": name, "parameters": WORDS[dtype],
        "peak GiB": later, "peak GiB of the first step": first, "ms a step": round(ms, 2),
    }  # fmt: skip


# -------------------------------------------------------------------------------------------- text


def source() -> Tensor:
    """Some megabytes of Python's own source."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return as_bytes(b"\n".join(file.read_bytes() for file in files))


def english() -> Tensor:
    """The text of Python's `help`."""
    topics = pydoc_data.topics.topics
    return as_bytes("\n".join(topics[name] for name in sorted(topics)).encode())


def as_bytes(text: bytes) -> Tensor:
    """As a tensor."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def draws(text: Tensor, shape: tuple[int, int], device: str, seed: int) -> Iterator[list[Tensor]]:
    """Random pieces of a text, without end: bytes, and those that come next."""
    generator = torch.Generator().manual_seed(seed)
    n, length = shape
    while True:
        starts = torch.randint(0, len(text) - length - 1, (n,), generator=generator)
        rows = text[starts[:, None] + torch.arange(length + 1)].to(device)
        yield [rows[:, :-1], rows[:, 1:]]


def train(step: Step, batches: Iterator[list[Tensor]], seconds: float) -> int:
    """As many steps as fit; how many they were. The first is not timed."""
    step(*next(batches))
    count, begun = 1, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        float(step(*next(batches)))
        count += 1
    return count


@torch.no_grad()
def held_out(model: nn.Module, batches: list[list[Tensor]], device: str) -> float:
    """The mean loss."""
    with precision(next(model.parameters()).dtype, device):
        return statistics.fmean(float(loss_of(model(x), y)) for x, y in batches)


def moved(
    name: str, before: nn.Module, device: str, shape: tuple[int, int], seconds: float
) -> dict[str, Any]:
    """From source to English: the loss on held-out text at the best rate."""
    text = english()
    cut = len(text) * 9 // 10
    test = draws(text[cut:], shape, device, 1)
    tests = [next(test) for _ in range(8)]
    found = []
    for lr in RATES:
        model = copy.deepcopy(before).to(CONTESTANTS[name][1])
        step = made(name, model, lr, device)
        steps = train(step, draws(text[:cut], shape, device, 2), seconds)
        found.append((held_out(model, tests, device), steps, lr))
        del model, step
    loss, steps, lr = min(found)
    return {"loss": round(loss, 3), "steps": steps, "lr": lr}


def main() -> None:
    """Print the figures, and write them if asked."""
    given = arguments(__doc__, device="cpu", seconds=40.0, csv=Path)
    device, seconds = given.device, given.seconds
    width, depth, length, n = SIZES[device]
    rows = []
    for name in CONTESTANTS:
        rows.append(measured(name, device))
        print(rows[-1], flush=True)
    torch.manual_seed(0)
    model = gpt(width, depth, length).to(device)
    train(made("AdamW", model, 3e-4, device), draws(source(), (n, length), device, 0), seconds)
    test = draws(english(), (n, length), device, 1)
    print("loss before:", held_out(model, [next(test) for _ in range(8)], device), flush=True)
    for row in rows:
        row |= moved(row["optimizer"], model, device, (n, length), seconds / 4)
    printed(rows, given.csv)


if __name__ == "__main__":
    main()
