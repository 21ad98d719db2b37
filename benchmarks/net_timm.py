"""A few models of timm on a CUDA device: SCCD eager and captured, beside torch's eager SGD step.

    python benchmarks/net_timm.py --csv net-timm.csv

Batches of 16 images of 224 x 224, default blocks, lr 1e-3; milliseconds of a step, the mean of five
after five. The last column is how far the losses of the eager and the captured run are apart.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm  # type: ignore[import-not-found,unused-ignore]
import torch
import torch.nn.functional as F

from cyclade.optim import SCCD

MODELS = ("resnet26", "efficientnet_lite0", "deit_tiny_patch16_224", "mixer_s32_224")


def main() -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(16, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (16,), device="cuda")
    rows = [measured(name, x, y) for name in MODELS]
    for row in rows:
        print(*(f"{key}: {value}" for key, value in row.items()), sep="  ")
    if given.csv:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def measured(name: str, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """One line of the table."""
    row: dict[str, Any] = {"model": name}
    model = timm.create_model(name).cuda()
    peer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def simultaneous() -> torch.Tensor:
        peer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        peer.step()
        return loss.detach()

    row["torch SGD, ms"] = f"{timed(simultaneous)[0]:.1f}"
    losses = []
    for word, capture in (("eager", False), ("captured", True)):
        torch.manual_seed(0)
        opt = SCCD(timm.create_model(name).cuda(), F.cross_entropy, lr=1e-3, capture=capture)
        ms, loss = timed(lambda opt=opt: opt.step(x, y))  # type: ignore[misc]
        row[f"SCCD {word}, ms"] = f"{ms:.1f}"
        losses.append(loss)
    row["blocks"], row["predicted"] = opt.net.m, f"{opt.predicted_overhead:.2f}"
    row["losses apart"] = f"{abs(losses[0] - losses[1]):.1e}"
    return row


def timed(step: Callable[[], torch.Tensor]) -> tuple[float, float]:
    """Milliseconds of a step, and the loss of the last."""
    for _ in range(5):
        loss = float(step())
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(5):
        loss = float(step())
    torch.cuda.synchronize()
    return 200 * (time.perf_counter() - begun), loss


if __name__ == "__main__":
    main()
