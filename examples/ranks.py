"""A small net on several processes, resumed where it was killed.

    torchrun --nproc-per-node 2 examples/ranks.py --folder out/ranks
    torchrun --nproc-per-node 2 --max-restarts 3 examples/ranks.py --folder out/ranks

Every rank reads its part of each batch; the parameters go the way of one process with all of it.
The same script runs by itself, without torchrun.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from cyclade.optim import VROCCD, Checkpoints, PageBatchSampler


def data(n: int = 600) -> TensorDataset:
    """Three noisy classes in the plane."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (n,), generator=generator)
    angle = y * 2.1
    centre = torch.stack([angle.cos(), angle.sin()], 1)
    return TensorDataset(centre + 0.5 * torch.randn(n, 2, generator=generator), y)


def train(folder: Path, epochs: int = 4, batches: int | None = None) -> tuple[nn.Module, Tensor]:
    """Train, from the last checkpoint on."""
    torch.manual_seed(0)  # the ranks would agree without it: the first one's weights are taken
    model = nn.Sequential(
        nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
    )
    train_set = data()
    sampler = PageBatchSampler(
        len(train_set), b=128, seed=1, batches=batches
    )  # each rank gets its part
    opt = VROCCD(
        model, nn.functional.cross_entropy, lr=0.1, b=128, blocks="layers", order="shuffled"
    )
    kept = Checkpoints(folder)
    found = kept.load(model=model, opt=opt)
    sampler.position = opt.draws
    loss = torch.tensor(float("nan"))
    for epoch in range(0 if found is None else found["step"], epochs):
        for x, y in DataLoader(train_set, batch_sampler=sampler):
            loss = opt.step(x, y)
        kept.save(epoch + 1, model=model, opt=opt)
    return model, loss


def main() -> None:
    """Train as one rank of torchrun's, or alone."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("out/ranks"))
    parser.add_argument("--epochs", type=int, default=4)
    chosen = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    model, loss = train(chosen.folder, chosen.epochs)
    inputs, labels = data().tensors
    right = (model(inputs).argmax(1) == labels).double().mean()
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"accuracy {float(right):.3f}, last loss {float(loss):.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
