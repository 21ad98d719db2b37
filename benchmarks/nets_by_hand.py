"""What an eager cycle costs at least: a bare loop by hand, beside torch's SGD step and SCCD.

The loop makes the same calls of torch as an exact cycle (cached activations, one replay and one
gradient a block, the slope of the cross-entropy) and nothing else: no blocks, checks or stages.
What it takes over SGD is the price of so many calls; what SCCD takes over the loop is our own.

    python benchmarks/nets_by_hand.py                    # an MLP and LeNet, small batches, one core
    python benchmarks/nets_by_hand.py --device cuda --batch 512 --out nets-by-hand.json
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nets_models
from cyclade.optim import SCCD
from measuring import command_line, in_turns

LR = 1e-3
Stage = tuple[Callable[[Tensor, Tensor, Tensor], Tensor], Any]


def main() -> None:
    """Time the three on both nets and print the ratios."""
    parser = command_line(__doc__, csv="")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=8, help="images for LeNet (default 8)")
    parser.add_argument("--repeats", type=int, default=40, help="times ten steps (default 40)")
    parser.add_argument("--out", type=Path, help="a JSON file; readings of other devices stay")
    parser.add_argument("--name", help="of this reading in the file (default: the device)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    for name, make, x, classes in (
        ("MLP", mlp, torch.randn(64, 20), 3),
        ("LeNet", nets_models.LeNet, torch.randn(options.batch, 3, 32, 32), 10),
    ):
        y = torch.randint(0, classes, (len(x),), device=options.device)
        times = found[name] = measured(make, x.to(options.device), y, options.repeats)
        base = times["torch SGD"]
        print(
            name, *(f"{k}: {1e6 * t:.0f} µs ({t / base:.2f})" for k, t in times.items()), sep="  "
        )
    if options.out is not None:
        every = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
        every[options.name or options.device] = {
            "torch": torch.__version__, "batch of LeNet": options.batch, "seconds": found
        }  # fmt: skip
        options.out.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


def measured(make: Callable[[], nn.Module], x: Tensor, y: Tensor, repeats: int) -> dict[str, float]:
    """Seconds of a step of each, the first decile over runs that take turns."""
    model, other, third = (make().to(x.device) for _ in range(3))
    peer = torch.optim.SGD(model.parameters(), lr=LR)
    stages = by_layers(other)
    opt = SCCD(third, F.cross_entropy, lr=LR, blocks="layers")

    def simultaneous() -> None:
        peer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        peer.step()

    steps: dict[str, Callable[[], Any]] = {
        "torch SGD": simultaneous, "by hand": lambda: cycle(stages, x, y),
        "SCCD": lambda: opt.step(x, y),
    }  # fmt: skip
    # On a shared core a long reading is sure to be interrupted, so there it is one step.
    each = 10 if x.is_cuda else 1
    read = partial(nets_models.seconds, each=each)
    found = in_turns(steps, max(2, repeats * 10 // each), warm=20, one=read)
    return {name: statistics.quantiles(times, n=10)[0] for name, times in found.items()}


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


def mlp() -> nn.Module:
    """Three small layers."""
    layers = (nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    return nn.Sequential(*layers)


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


if __name__ == "__main__":
    main()
