"""Default learning rates of `cyclade.optim` against torch's Adam with its own, after equal epochs.

    python benchmarks/net_defaults.py                     # digits, which come with scikit-learn
    python benchmarks/net_defaults.py --mnist FILE.npz    # and 10,000 images of MNIST, LeNet
    python benchmarks/net_defaults.py --cifar10 FOLDER    # and 10,000 images of CIFAR-10, LeNet

FILE.npz holds x_train, y_train, x_test and y_test; FOLDER holds data_batch_1.bin and
test_batch.bin, the official files. Prints test accuracies: mean and worst of the
seeds. On the CPU; no clock is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from cyclade.optim import SCCD, SGD

Data = tuple[Tensor, Tensor, Tensor, Tensor]

METHODS: dict[str, Callable[[nn.Module], Any]] = {
    "torch Adam": lambda model: torch.optim.Adam(model.parameters()),
    "SCCD": lambda model: SCCD(model, F.cross_entropy),
    "SCCD spectral": lambda model: SCCD(model, F.cross_entropy, precondition="spectral"),
    "SCCD adam": lambda model: SCCD(model, F.cross_entropy, precondition="adam"),
    "SGD": lambda model: SGD(model, F.cross_entropy),
}


def digits() -> Data:
    """1,400 images to train on, 397 to test."""
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    x = torch.tensor(bunch.data[order] / 16.0, dtype=torch.float32)
    y = torch.tensor(bunch.target[order])
    return x[:1400], y[:1400], x[1400:], y[1400:]


def mlp() -> nn.Module:
    """Three layers."""
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    )


def mnist(path: str) -> Data:
    """The first 10,000 images to train on, 10,000 to test."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    train, test = (
        torch.tensor(arrays[name][:10000] / 255.0, dtype=torch.float32)[:, None]
        for name in ("x_train", "x_test")
    )
    labels = [torch.tensor(arrays[name][:10000]).long() for name in ("y_train", "y_test")]
    return train, labels[0], test, labels[1]


def cifar10(folder: Path) -> Data:
    """The first 10,000 images to train on, 10,000 to test."""
    parts: list[Tensor] = []
    for name in ("data_batch_1.bin", "test_batch.bin"):
        rows = np.fromfile(folder / name, np.uint8).reshape(-1, 3073)
        images = torch.tensor(rows[:, 1:] / 255.0, dtype=torch.float32).reshape(-1, 3, 32, 32)
        parts += [(images - 0.5) / 0.25, torch.tensor(rows[:, 0]).long()]
    return parts[0], parts[1], parts[2], parts[3]


def lenet(channels: int = 1) -> nn.Module:
    """LeNet for 28 x 28 images in grey, or 32 x 32 ones in colour."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2 if channels == 1 else 0), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def accuracy(
    make: Callable[[], nn.Module], data: Data, method: str, epochs: int, batch: int, seed: int
) -> float:
    """Test accuracy of one run."""
    x, y, x_test, y_test = data
    torch.manual_seed(seed)
    model = make()
    opt = METHODS[method](model)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for i in torch.randperm(len(x), generator=generator).split(batch):
            if isinstance(opt, torch.optim.Adam):
                opt.zero_grad()
                F.cross_entropy(model(x[i]), y[i]).backward()
                opt.step()
            else:
                opt.step(x[i], y[i])
    with torch.no_grad():
        return float((model(x_test).argmax(1) == y_test).float().mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", metavar="FILE.npz")
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, nargs=2, default=(15, 4), help="digits, LeNet")
    given = parser.parse_args()
    tasks: dict[str, Any] = {"digits": (mlp, digits(), given.epochs[0], 32)}
    if given.mnist:
        tasks["MNIST"] = (lenet, mnist(given.mnist), given.epochs[1], 64)
    if given.cifar10:
        tasks["CIFAR-10"] = (lambda: lenet(3), cifar10(given.cifar10), given.epochs[1], 64)
    for name, (make, data, epochs, batch) in tasks.items():
        print(f"{name}, {epochs} epochs of {len(data[0]):,} images, batches of {batch}")
        for method in METHODS:
            runs = [accuracy(make, data, method, epochs, batch, s) for s in range(given.seeds)]
            print(f"  {method:<14} {np.mean(runs):.3f}  (worst {min(runs):.3f})", flush=True)


if __name__ == "__main__":
    main()
