"""Nets trained on the first try: optimizers with all defaults, after equal epochs, equal seconds.

    python benchmarks/net_first_try.py --mnist FILE.npz --cifar10 FOLDER --a9a FILE.npz \\
        --csv docs/benchmarks/net-first-try.csv

FILE.npz of a9a holds a sparse matrix (data, indices, indptr, shape) and y. Scores are test
accuracies; of the autoencoder the share of the variance that it explains. "Equal seconds" are those
that Adam took for all its epochs, of the processor and without the looks at the test set. An epoch
of a recursive method is as many samples as one of the others. `torch SGD` has the best rate of a
grid, chosen on another seed; it is what a default is held against. The defaults of VRO-CCD and
VR-CCD were chosen on the tasks that are marked so. `schedule_free` needs `schedulefree`.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nets_resident
from cyclade.optim import SCCD, VRCCD, VROCCD, PageBatchSampler
from linear_peers.problems import npz
from measuring import arguments
from tables import printed

Data = tuple[Tensor, Tensor, Tensor, Tensor]
LOOKS = 3  # in an epoch
TESTED = 2000
RATES = (0.05, 0.1, 0.2, 0.4)  # of SGD, times that of the task


@dataclass(frozen=True)
class Task:
    """A net, its data, its loss and score, batch size and epochs."""

    label: str
    chosen: bool  # whether the defaults were chosen on it
    model: Callable[[], nn.Module]
    data: Callable[[argparse.Namespace], Data]
    epochs: int
    batch: int = 64
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
    rate: float = 1.0  # of SGD's rates


def mnist(given: argparse.Namespace) -> Data:
    """10,000 images to train on, 10,000 to test."""
    with np.load(given.mnist) as file:
        images = [torch.tensor(file[key] / 255.0, dtype=torch.float32)[:, None]
                  for key in ("x_train", "x_test")]  # fmt: skip
        labels = [torch.tensor(file[key]).long() for key in ("y_train", "y_test")]
    return images[0][:10000], labels[0][:10000], images[1], labels[1]


def cifar10(given: argparse.Namespace, images: int = 5000) -> Data:
    """Some images to train on, 10,000 to test."""

    def read(name: str) -> tuple[Tensor, Tensor]:
        rows = torch.tensor(np.fromfile(given.cifar10 / name, np.uint8).reshape(-1, 3073))
        pixels = rows[:, 1:].float().div_(255).reshape(-1, 3, 32, 32)
        return pixels.sub_(0.5).div_(0.25), rows[:, 0].long()

    x, y = read("data_batch_1.bin")
    return x[:images], y[:images], *read("test_batch.bin")


def lenet(channels: int = 1) -> nn.Module:
    """LeNet for 28 x 28 images in grey, or 32 x 32 ones in colour."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2 if channels == 1 else 0), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def tabular(given: argparse.Namespace) -> Data:
    """a9a: 12,000 rows to train on, others to test."""
    table, y = npz(Path(given.a9a))
    table, labels = table.toarray().astype(np.float32), (y > 0).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = torch.tensor(table[order]), torch.tensor(labels[order])
    return x[:12000], y[:12000], x[12000:20000], y[12000:20000]


def pixels(given: argparse.Namespace) -> Data:
    """MNIST, each image as its own target."""
    x, _, x_test, _ = mnist(given)
    return x.flatten(1), x.flatten(1), x_test.flatten(1)[:3000], x_test.flatten(1)[:3000]


def characters(_: Any, length: int = 32, pieces: int = 4000) -> Data:
    """The text of Python's `help` in pieces, and the bytes that come next."""
    text = nets_resident.english()
    rows = text[: len(text) // (length + 1) * (length + 1)].reshape(-1, length + 1)
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    train, test = rows[:pieces], rows[pieces : pieces + 1000]
    return train[:, :-1], train[:, 1:], test[:, :-1], test[:, 1:]


def mlp(*widths: int, top: tuple[nn.Module, ...] = ()) -> nn.Module:
    """Linear maps of these widths."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *top)


def next_byte(scores: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of sequences."""
    return F.cross_entropy(scores.flatten(0, 1), target.flatten())


TASKS = {
    "mnist": Task("MNIST (10,000), LeNet", True, lenet, mnist, 1),
    "tabular": Task("a9a (12,000), MLP", True, partial(mlp, 123, 128, 64, 2), tabular, 1),
    "autoencoder": Task(
        "MNIST (10,000), autoencoder", True,
        partial(mlp, 784, 128, 32, 128, 784, top=(nn.Sigmoid(),)), pixels, 2,
        loss=F.mse_loss, rate=64.0,
    ),
    "cifar10": Task(
        "CIFAR-10 (5,000), LeNet", False, partial(lenet, 3), cifar10, 3
    ),
    "characters": Task(
        "characters (4,000 x 32), transformer", False, partial(nets_resident.gpt, 64, 2, 32),
        characters, 1, batch=32, loss=next_byte,
    ),
}  # fmt: skip


def score(task: Task, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Accuracy, or explained variance."""
    model.eval()
    with torch.no_grad():
        out = torch.cat([model(part) for part in torch.split(x[:TESTED], 500)])
    model.train()
    y = y[:TESTED]
    if task.loss is F.mse_loss:
        return 1.0 - float((out - y).square().mean() / (y - y.mean(0)).square().mean())
    return float((out.argmax(-1) == y).float().mean())


def torch_step(model: nn.Module, loss_fn: Any, opt: Any) -> Callable[[Tensor, Tensor], Any]:
    """The step that users write."""

    def step(x: Tensor, y: Tensor) -> None:
        opt.zero_grad()
        loss_fn(model(x), y).backward()
        opt.step()

    step.opt = opt  # type: ignore[attr-defined]
    return step


def schedule_free(model: nn.Module) -> Any:
    """AdamW without a schedule, at its default rate."""
    from schedulefree import AdamWScheduleFree

    opt = AdamWScheduleFree(model.parameters())
    opt.train()
    return opt


@contextmanager
def averaged(step: Any) -> Iterator[None]:
    """The point that an optimizer is judged at: an average, where it has `eval` and `train`."""
    opt = getattr(step, "opt", None)
    if not hasattr(opt, "eval"):
        yield
        return
    opt.eval()
    yield
    opt.train()


METHODS: dict[str, Callable[..., Any]] = {
    "Adam": lambda m, loss, lr: torch_step(m, loss, torch.optim.Adam(m.parameters())),
    "AdamW": lambda m, loss, lr: torch_step(m, loss, torch.optim.AdamW(m.parameters())),
    "SGD, best rate": lambda m, loss, lr: torch_step(
        m, loss, torch.optim.SGD(m.parameters(), lr=lr)
    ),
    "schedule_free": lambda m, loss, lr: torch_step(m, loss, schedule_free(m)),
    "SCCD": lambda m, loss, lr: SCCD(m, loss).step,
    "VRO-CCD": lambda m, loss, lr: VROCCD(m, loss).step,
    "VR-CCD": lambda m, loss, lr: VRCCD(m, loss).step,
}
if find_spec("schedulefree") is None:
    del METHODS["schedule_free"]


def run(task: Task, data: Data, name: str, seed: int, lr: float = 0.0) -> list[tuple[float, float]]:
    """(seconds, score) at every look."""
    x, y, x_test, y_test = data
    torch.manual_seed(seed)
    model = task.model()
    step = METHODS[name](model, task.loss, lr)
    found, spent = [], 0.0
    for indices in parts(len(x), task, seed, recursive=name.startswith("VR")):
        begun = time.process_time()
        for i in indices:
            step(x[i], y[i])
        spent += time.process_time() - begun
        with averaged(step):
            found.append((spent, score(task, model, x_test, y_test)))
    return found


def parts(n: int, task: Task, seed: int, *, recursive: bool) -> Iterator[list[Any]]:
    """The batches between two looks."""
    sampler = PageBatchSampler(n, seed=seed)
    for epoch in range(task.epochs):
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        shuffled = torch.split(torch.randperm(n, generator=generator), task.batch)
        batches = [torch.tensor(i) for i in sampler] if recursive else list(shuffled)
        size = -(-len(batches) // LOOKS)
        for at in range(0, len(batches), size):
            yield batches[at : at + size]


def counted(epochs: int) -> str:
    """In words."""
    return f"{epochs} epoch" if epochs == 1 else f"{epochs} epochs"


def rows_of(key: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """One row after equal epochs, and one after equal seconds."""
    task = TASKS[key]
    x, y, x_test, y_test = task.data(given)
    data = x[: given.rows], y[: given.rows], x_test[: given.rows], y_test[: given.rows]
    rates = {lr * task.rate: run(task, data, "SGD, best rate", 100, lr * task.rate) for lr in RATES}
    best = max(rates, key=lambda lr: rates[lr][-1][1])
    print(key, {lr: round(found[-1][1], 3) for lr, found in rates.items()}, flush=True)
    runs: dict[str, list[list[tuple[float, float]]]] = {}
    for name in METHODS:
        runs[name] = [run(task, data, name, seed, best) for seed in range(given.seeds)]
        shown = [[(round(t, 1), round(a, 3)) for t, a in one] for one in runs[name]]
        print(key, name, shown, flush=True)
    limit = statistics.fmean(one[-1][0] for one in runs["Adam"])
    known = "chosen on it" if task.chosen else "not seen it"
    epochs = {"task": task.label, "defaults were": known, "after": counted(task.epochs)}
    seconds = {**epochs, "after": "Adam's seconds"}
    for name, found in runs.items():
        epochs[name] = f"{statistics.fmean(one[-1][1] for one in found):.3f}"
        in_time = [[a for t, a in one if t <= 1.05 * limit][-1:] for one in found]
        looked = all(in_time)  # else the first look comes later
        seconds[name] = f"{statistics.fmean(one[0] for one in in_time):.3f}" if looked else "–"
    return [epochs, seconds]


def main() -> None:
    """Print the table, and write it if asked."""
    given = arguments(
        __doc__, mnist=str, cifar10=Path, a9a=str, tasks=tuple(TASKS), seeds=3, rows=int, csv=Path
    )
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    printed((row for key in given.tasks for row in rows_of(key, given)), given.csv)


if __name__ == "__main__":
    main()
