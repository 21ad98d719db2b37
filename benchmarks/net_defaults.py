"""Default rates of the steps of `cyclade.optim` beside torch's Adam, after equal epochs.

    python benchmarks/net_defaults.py                     # digits, which come with scikit-learn
    python benchmarks/net_defaults.py --mnist FILE.npz --cifar10 FOLDER --csv net-defaults.csv
    python benchmarks/net_defaults.py --tasks digits mnist --mnist FILE.npz --csv net-peers.csv \\
        --methods "torch Adam" "SCCD adagrad" "SCCD adam" "schedule_free AdamW" BAdam
    python benchmarks/net_defaults.py --tasks cifar10-whole --cifar10 FOLDER --device cuda \\
        --rates "torch SGD" "SCCD adagrad" --csv net-rates.csv

FILE.npz holds x_train, y_train, x_test and y_test; FOLDER the official binary files of CIFAR-10.
Prints test accuracies, means of the seeds, at the epochs that a task names. With --rates methods
also run at the rates of a grid (unclipped), and the table says what the default leaves to be
gained; the rules for Λ_j that the defaults are from ("adagrad c=1") were compared
so. No clock is read. The tasks called held-… were run once, after all defaults were chosen.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.optim import PAGE, SCCD, SGD, VROCCD, PageBatchSampler
from measuring import command_line
from tables import read_csv, write_csv

Data = tuple[Tensor, Tensor, Tensor, Tensor]


# ----------------------------------------------------------------------------------------- methods


@dataclass(frozen=True)
class Method:
    """How to build an optimizer, and the rates of its grid."""

    build: Callable[..., Any]
    rates: tuple[float, ...]
    recursive: bool = False
    torch: bool = False


def _on_parameters(optimizer: Callable[..., Any], model: nn.Module, **options: Any) -> Any:
    return optimizer(model.parameters(), **options)


def _schedule_free(model: nn.Module, **options: Any) -> Any:
    """AdamW without a schedule, at its default rate; needs `schedulefree`."""
    from schedulefree import AdamWScheduleFree

    opt = AdamWScheduleFree(model.parameters(), **options)
    opt.train()
    return opt


def _badam(model: nn.Module, **options: Any) -> Any:
    """BAdam: torch's AdamW on one layer at a time, a new one every 10 steps; needs `badam`.

    Its default of 50 steps is meant for long runs: the ones here see few such blocks.
    """
    from badam import BlockOptimizer

    layers = list(dict.fromkeys(name.rpartition(".")[0] for name, _ in model.named_parameters()))
    return BlockOptimizer(
        torch.optim.AdamW(model.parameters(), **options), list(model.named_parameters()),
        [[f"{layer}."] for layer in layers], switch_block_every=10, switch_mode="ascending",
        verbose=0,
    )  # fmt: skip


_PLAIN = (0.0125, 0.025, 0.05, 0.1, 0.2)
_ADAM = (0.0005, 0.001, 0.002, 0.004)
_RECURSIVE = (0.0025, 0.005, 0.01, 0.02)
METHODS = {
    "torch Adam": Method(partial(_on_parameters, torch.optim.Adam), (), torch=True),
    "torch SGD": Method(partial(_on_parameters, torch.optim.SGD), _PLAIN, torch=True),
    "schedule_free AdamW": Method(_schedule_free, (), torch=True),
    "BAdam": Method(_badam, (), torch=True),
    "SCCD adagrad": Method(partial(SCCD, adagrad_norm=1.0), _PLAIN),
    "SCCD momentum": Method(partial(SCCD, momentum=0.9), (0.00125, 0.0025, 0.005, 0.01, 0.02)),
    "SCCD spectral": Method(partial(SCCD, precondition="spectral"), _PLAIN),
    "SCCD curvature": Method(partial(SCCD, precondition="curvature"), (0.25, 0.5, 1.0, 2.0)),
    "SCCD adam": Method(partial(SCCD, precondition="adam"), _ADAM),
    "SGD": Method(SGD, _PLAIN),
    "PAGE": Method(PAGE, _RECURSIVE, recursive=True),
    "VRO-CCD": Method(VROCCD, _RECURSIVE, recursive=True),
}
# Rules for Λ_j, by η and c: clip_norm=c; adagrad_norm=c; the second, clipped at c/2. Of clipping,
# what the default was before.
RULES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "clip": ((0.3,), (0.25,)),
    "adagrad": ((0.1, 0.2, 0.4, 0.8, 1.6), (0.5, 1.0, 2.0, 4.0)),
    "both": ((0.8,), (1.0,)),
    "spectral clip": ((0.2,), (0.5,)),
    "spectral adagrad": ((0.1, 0.2, 0.4, 0.8), (0.5, 1.0, 2.0, 4.0)),
    "spectral both": ((0.8,), (1.0,)),
}


def _rule(kind: str, c: float) -> Callable[..., Any]:
    options: dict[str, Any] = {"precondition": "spectral"} if kind.startswith("spectral") else {}
    options["clip_norm"] = {"clip": c, "both": c / 2}.get(kind.split()[-1], math.inf)
    return partial(SCCD, adagrad_norm=math.inf if kind.endswith("clip") else c, **options)


GRIDDED = tuple(METHODS)
METHODS |= {
    f"{kind} c={c:g}": Method(_rule(kind, c), rates)
    for kind, (rates, norms) in RULES.items()
    for c in norms
}
SHOWN = ("torch Adam", "SCCD adagrad", "SCCD momentum", "SCCD spectral", "SCCD adam", "SGD")


# ------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Task:
    """A net, its data, the batch size, and the epochs after which to look."""

    label: str
    model: Callable[[], nn.Module]
    data: Callable[[argparse.Namespace], Data]
    batch: int
    epochs: tuple[int, ...]


def digits(_: Any = None) -> Data:
    """1,400 images to train on, 397 to test."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    x = torch.tensor(bunch.data[order] / 16.0, dtype=torch.float32)
    y = torch.tensor(bunch.target[order])
    return x[:1400], y[:1400], x[1400:], y[1400:]


@cache
def _mnist(path: str) -> Data:
    with np.load(path) as file:
        arrays = {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    train, test = (
        torch.tensor(arrays[name] / 255.0, dtype=torch.float32)[:, None]
        for name in ("x_train", "x_test")
    )
    labels = [torch.tensor(arrays[name]).long() for name in ("y_train", "y_test")]
    return train, labels[0], test, labels[1]


@cache
def _cifar10(folder: Path, batches: int) -> Data:
    def read(names: list[str]) -> tuple[Tensor, Tensor]:
        files = [np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names]
        rows = np.concatenate(files)
        images = torch.tensor(rows[:, 1:]).float().div_(255).reshape(-1, 3, 32, 32)
        return images.sub_(0.5).div_(0.25), torch.tensor(rows[:, 0]).long()

    x, y = read([f"data_batch_{k + 1}.bin" for k in range(batches)])
    return (x, y, *read(["test_batch.bin"]))


def mnist(given: Any, images: int = 10000, first: int = 0) -> Data:
    """Some images to train on, 10,000 to test."""
    if not given.mnist:
        raise SystemExit("give --mnist FILE.npz")
    x, y, x_test, y_test = _mnist(given.mnist)
    return x[first : first + images], y[first : first + images], x_test, y_test


def cifar10(given: Any, images: int = 10000, first: int = 0) -> Data:
    """Some images to train on, 10,000 to test."""
    if not given.cifar10:
        raise SystemExit("give --cifar10 FOLDER")
    x, y, x_test, y_test = _cifar10(given.cifar10, -(-(first + images) // 10000))
    return x[first : first + images], y[first : first + images], x_test, y_test


def mlp() -> nn.Module:
    """Three layers."""
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    )


def wide_mlp(inputs: int = 3072) -> nn.Module:
    """Three layers on pixels."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip


def lenet(channels: int = 1) -> nn.Module:
    """LeNet for 28 x 28 images in grey, or 32 x 32 ones in colour."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2 if channels == 1 else 0), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def three_by_three() -> nn.Module:
    """Convolutions of 3 x 3, which no default was chosen on."""
    layers: list[nn.Module] = []
    for before, after in ((3, 12), (12, 24), (24, 48)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 10))


def normed(channels: int = 3) -> nn.Module:
    """A small net with batch norm."""
    layers: list[nn.Module] = []
    for before, after in ((channels, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.MaxPool2d(2),
        ]  # fmt: skip
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


colour = partial(lenet, 3)
TASKS = {
    "digits": Task("digits, MLP", mlp, digits, 32, (15,)),
    "mnist": Task("MNIST (10,000 images), LeNet", lenet, mnist, 64, (4,)),
    "cifar10": Task("CIFAR-10 (10,000 images), LeNet", colour, cifar10, 64, (4, 10)),
    "mnist-whole": Task("MNIST, LeNet", lenet, partial(mnist, images=60000), 128, (1, 3)),
    "mnist-mlp": Task("MNIST, MLP", partial(wide_mlp, 784), mnist, 64, (4,)),
    "cifar10-mlp": Task("CIFAR-10 (10,000 images), MLP", wide_mlp, cifar10, 64, (4, 10)),
    "cifar10-32": Task("CIFAR-10 (10,000 images), LeNet", colour, cifar10, 32, (4, 10)),
    "cifar10-128": Task("CIFAR-10 (10,000 images), LeNet", colour, cifar10, 128, (4, 10)),
    "cifar10-512": Task("CIFAR-10 (10,000 images), LeNet", colour, cifar10, 512, (4, 10)),
    "cifar10-normed": Task(
        "CIFAR-10 (10,000 images), batch norm", normed, cifar10, 64, (4, 10)
    ),
    "cifar10-whole": Task(
        "CIFAR-10, LeNet", colour, partial(cifar10, images=50000), 64, (4, 10, 20)
    ),
    # Held out: no default was chosen on these images, nets, batch sizes or seeds.
    "held-cifar10": Task(
        "held out: CIFAR-10 (the second 10,000), 3 x 3 convolutions", three_by_three,
        partial(cifar10, first=10000), 96, (6,),
    ),
    "held-mnist": Task(
        "held out: MNIST (10,000 from 30,000 on), MLP", partial(wide_mlp, 784),
        partial(mnist, first=30000), 48, (3,),
    ),
}  # fmt: skip


# -------------------------------------------------------------------------------------------- runs


def accuracies(
    task: Task, data: Data, method: Method, lr: float | None, seed: int
) -> tuple[float, ...]:
    """Test accuracies of one run after the epochs of its task; NaN once the loss is not finite."""
    x, y, x_test, y_test = data
    torch.manual_seed(seed)
    model = task.model().to(x.device)
    step = _step(method, model, lr, x.is_cuda)
    found: list[float] = []
    try:
        for epoch in range(1, task.epochs[-1] + 1):
            for i in _batches(len(x), task.batch, method.recursive, 1000 * seed + epoch, x.device):
                loss = step(x[i], y[i])
            if epoch in task.epochs:
                if not math.isfinite(float(loss)):
                    break
                with _averaged(step):
                    found.append(_accuracy(model, x_test, y_test))
    except ArithmeticError:  # the loss is not finite, and the step was not made
        pass
    return (*found, *[math.nan] * (len(task.epochs) - len(found)))


def _batches(
    n: int, batch: int, recursive: bool, seed: int, device: torch.device
) -> Iterator[Tensor]:
    """The batches of an epoch."""
    if recursive:
        sampler = PageBatchSampler(n, b=512, seed=seed)
        yield from (torch.tensor(i, device=device) for i in sampler)
    else:
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(n, generator=generator).to(device)
        yield from torch.split(order, batch)


def _step(method: Method, model: nn.Module, lr: float | None, capture: bool) -> Any:
    options: dict[str, Any] = {} if lr is None else {"lr": lr}
    if method.torch:
        model_step = _TorchStep(model, method.build(model, **options))
        return _Captured(model_step) if capture else model_step
    if method.recursive:
        options["b"] = 512
    return method.build(model, F.cross_entropy, capture=capture, **options).step


class _TorchStep:
    """The step users run today."""

    def __init__(self, model: nn.Module, opt: torch.optim.Optimizer) -> None:
        self._model, self.opt = model, opt
        for group in opt.param_groups:
            if "capturable" in group:
                group["capturable"] = next(model.parameters()).is_cuda

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self._model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.opt.step()
        return loss.detach()


@contextmanager
def _averaged(step: Any) -> Iterator[None]:
    """The point that an optimizer is judged at: an average, where it has `eval` and `train`."""
    opt = getattr(step, "opt", None)
    if not hasattr(opt, "eval"):
        yield
        return
    opt.eval()
    yield
    opt.train()


class _Captured:
    """The same as a CUDA graph, one for each batch size."""

    def __init__(self, step: _TorchStep) -> None:
        self._step, self._seen = step, dict[int, int]()
        self._ready: dict[int, Any] = {}

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        from cyclade.optim.capture.graphs import Recorder

        if not self._ready:
            self._recorder = Recorder()
        if len(x) not in self._ready:
            self._ready[len(x)] = (x.clone(), y.clone())
        static = self._ready[len(x)]
        torch._foreach_copy_(list(static), [x, y])
        if not self._recorder.warm(len(x)):
            return self._recorder.eagerly(len(x), lambda: self._step(*static))  # type: ignore[no-any-return]
        return self._recorder.replay(len(x), lambda: self._step(*static))  # type: ignore[no-any-return]


@torch.no_grad()
def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    right = 0
    for a, b in zip(torch.split(x, 2000), torch.split(y, 2000), strict=True):
        right += int((model(a).argmax(1) == b).sum())
    model.train()
    return right / len(x)


Asked = tuple[str, float | None, int]  # a method, its rate (None: the default), the seed


def _one(name: str, given: argparse.Namespace, asked: Asked) -> tuple[float, ...]:
    """One run, in a process of its own where several run at a time."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method, lr, seed = asked
        task = _task(name, given)
        data = _on_device(name, given)
        return accuracies(task, data, METHODS[method], lr, seed)


_HELD: dict[str, Data] = {}


def _on_device(name: str, given: argparse.Namespace) -> Data:
    if name not in _HELD:
        _HELD.clear()
        x, y, x_test, y_test = (t.to(given.device) for t in TASKS[name].data(given))
        _HELD[name] = (x, y, x_test, y_test)
    return _HELD[name]


def _task(name: str, given: argparse.Namespace) -> Task:
    task = TASKS[name]
    return replace(task, epochs=tuple(given.epochs)) if given.epochs else task


# ------------------------------------------------------------------------------------------ tables


def main() -> None:
    """Print the table, and write it if asked."""
    parser = command_line(__doc__)
    parser.add_argument("--mnist", metavar="FILE.npz")
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument(
        "--rates", nargs="*", choices=list(METHODS),
        help="a grid of rates for these methods (none named: all), not only defaults",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, nargs="+", help="look after these instead")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    given = parser.parse_args()
    names = given.tasks or [
        "digits",
        *["mnist"] * bool(given.mnist),
        *["cifar10"] * bool(given.cifar10),
    ]
    given.grid = given.rates is not None
    methods = given.methods or list(GRIDDED if given.grid else SHOWN)
    given.rates = given.rates or (methods if given.grid else [])
    rows: list[dict[str, Any]] = []
    for name in names:
        task = _task(name, given)
        found = _runs(name, methods, given)
        rows += (_rate_rows if given.grid else _default_rows)(task, found)
        if given.csv:
            _write(given.csv, rows)


Found = dict[tuple[str, float | None], list[tuple[float, ...]]]


def _runs(task: str, methods: list[str], given: argparse.Namespace) -> Found:
    """The accuracies of all runs of a task, by method and rate (None: the default)."""
    asked: list[Asked] = [
        (name, lr, seed)
        for name in methods
        for lr in (None, *(METHODS[name].rates if name in given.rates else ()))
        for seed in range(given.first_seed, given.first_seed + given.seeds)
        if not (name == "torch SGD" and lr is None)
    ]
    found: Found = {}
    about = _task(task, given)
    print(f"{about.label}, batches of {about.batch}, after {about.epochs} epochs", flush=True)
    work = partial(_one, task, given)
    with ExitStack() as stack:
        results: Any
        if given.processes == 1:
            results = map(work, asked)
        else:
            spawn = torch.multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(given.processes, spawn))
            results = pool.map(work, asked)
        for (name, lr, seed), result in zip(asked, results, strict=True):
            found.setdefault((name, lr), []).append(result)
            shown = "  ".join(f"{a:.3f}" for a in result)
            rate = "default" if lr is None else f"{lr:g}"
            print(f"  {name:<15} {rate:>8} seed {seed}  {shown}", flush=True)
    return found


def _mean(found: Found, name: str, lr: float | None, k: int) -> float:
    runs = [run[k] for run in found[name, lr]]
    return float(np.mean([0.1 if math.isnan(a) else a for a in runs]))  # 0.1: it guesses


def _default_rows(task: Task, found: Found) -> list[dict[str, Any]]:
    return [
        {
            "test accuracy": f"{task.label}, {epochs} epochs",
            **{name: f"{_mean(found, name, None, k):.3f}" for name, _ in found},
        }
        for k, epochs in enumerate(task.epochs)
    ]


def _rate_rows(task: Task, found: Found) -> list[dict[str, Any]]:
    """One row for each number of epochs and method: the default, and the best rate of the grid."""
    rows = []
    for k, epochs in enumerate(task.epochs):
        for name in dict.fromkeys(name for name, _ in found):
            means = {lr: _mean(found, name, lr, k) for n, lr in found if n == name}
            tried = {lr: a for lr, a in means.items() if lr is not None}
            best = max(tried, key=tried.__getitem__, default=None)
            rows.append({
                "task": task.label, "batch": task.batch, "epochs": epochs, "method": name,
                "default": f"{means[None]:.3f}" if None in means else "",
                "best": "" if best is None else f"{tried[best]:.3f}",
                "at lr": "" if best is None else f"{best:g}",
                **{f"lr {i + 1}": f"{a:.3f}" for i, a in enumerate(tried.values())},
            })  # fmt: skip
    return rows


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the table; what an older one says of other methods, or in other rows, stays."""
    if "test accuracy" in rows[0]:
        table: dict[str, dict[str, Any]] = {row["test accuracy"]: row for row in read_csv(path)}
        for row in rows:
            table[row["test accuracy"]] = {**table.get(row["test accuracy"], {}), **row}
        rows = list(table.values())
    write_csv(path, rows)


if __name__ == "__main__":
    main()
