"""Training: the optimizer of a config, one epoch at a time, and what is measured around it."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.experiments.config import CURVATURE_DAMPING, RunConfig
from cyclade.experiments.data import Coins, Dataset, Draws, EpochShuffle, Sampling, Split, network
from cyclade.experiments.errors import ConfigError
from cyclade.experiments.folder import Row
from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD, CrossEntropy, NotFiniteError
from cyclade.optim.blocks.costs import cycle_cost, direction, stage_costs
from cyclade.optim.stages import Inputs

OPTIMIZERS: dict[str, Any] = {
    "SGD": SGD, "SCCD": SCCD, "PAGE": PAGE, "VRO-CCD": VROCCD, "VR-CCD": VRCCD,
}  # fmt: skip

SPECTRAL_STEPS: dict[str | None, str | None] = {"step": "spectral-linear", "step-all": "spectral"}

CURVATURE_EVERY, CURVATURE_ITERATIONS = 10, 5
_EVALUATED = 5000  # images at once


def optimizer(config: RunConfig, model: nn.Module, example: Tensor) -> Any:
    """The optimizer of a config for this model; `example` is a batch of images."""
    options: dict[str, Any] = {
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "momentum": config.momentum,
        "precondition": SPECTRAL_STEPS.get(config.spectral, config.precondition),
        "curvature_every": CURVATURE_EVERY,
        "curvature_iterations": CURVATURE_ITERATIONS,
        "compile": config.compile,
        "seed": config.seed,
        "example": example,
    }
    steady = config.order in ("forward", "backward") or isinstance(config.order, tuple)
    options["capture"] = config.capture and steady and example.is_cuda
    if config.precondition == "curvature":
        options["damping"] = CURVATURE_DAMPING
    if config.recursive:
        options |= {"b": config.batch, "b_small": config.b_small}
    options["order"] = list(config.order) if isinstance(config.order, tuple) else config.order
    blocks = list(config.blocks) if isinstance(config.blocks, tuple) else config.blocks
    try:
        return OPTIMIZERS[config.method](
            model, CrossEntropy(), blocks=blocks or "layers", **options
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def sampling(config: RunConfig, n: int) -> Sampling:
    """Where the batches of a config come from, for n training images."""
    try:
        if config.recursive:
            return Coins(n, config.batch, config.b_small, config.p, config.seed)
        return EpochShuffle(n, config.batch, config.seed)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"batch = {config.batch} for {n} training images: {error}") from error


def rate(config: RunConfig, k: int, steps: int) -> float:
    """The learning rate of step k, counted from 0, of a run of so many steps."""
    if config.schedule == "constant":
        return config.lr
    return 0.5 * config.lr * (1.0 + math.cos(math.pi * k / steps))


class Training:
    """A run in memory: a model, its optimizer, and what they have used so far."""

    def __init__(self, config: RunConfig, data: Dataset, device: torch.device) -> None:
        self.config, self.data, self.device = config, data, device
        spectral = config.spectral == "reparam"
        self.model = network(config.dataset, seed=config.seed, spectral=spectral).to(device)
        self.optimizer = optimizer(config, self.model, data.train.images[:1])
        self.sampling = sampling(config, len(data.train))
        self.spent = Spent(config, self.optimizer, data.train.images[:1])
        self.seconds = 0.0
        self.epoch = 0
        self.diverged = False

    def start(self) -> Row:
        """The state before the first step."""
        return self._measure(None)

    def train_epoch(self) -> Row:
        """One epoch more. A loss that is not finite ends the run: see `diverged`."""
        draws = self.sampling.epoch(self.epoch)
        first, total = self.epoch * self.sampling.steps, self.config.epochs * self.sampling.steps
        rates = [rate(self.config, first + k, total) for k in range(self.sampling.steps)]
        self._synchronise()
        began = time.perf_counter()
        if self.epoch == 0:
            self._form()
        losses = self._steps(draws, rates)
        self._synchronise()
        self.seconds += time.perf_counter() - began
        done = len(losses)
        self.spent.pay(draws.sizes[:done], draws.refresh[:done])
        self.epoch += 1
        mean = _weighted_mean(losses, draws.sizes[:done])
        row = self._measure(mean)
        if not math.isfinite(row.train_loss) or not math.isfinite(mean):
            self.diverged = True
        return row

    def _steps(self, draws: Draws, rates: list[float]) -> Tensor:
        """The losses of the steps, up to the first that is not finite."""
        losses: list[Tensor] = []
        try:
            batches = draws.gathered(self.data.train)
            for (images, labels, refresh), lr in zip(batches, rates, strict=True):
                for group in self.optimizer.param_groups:
                    group["lr"] = lr
                losses.append(self.optimizer.step(images, labels, refresh=refresh))
        except NotFiniteError:
            self.diverged = True
        return torch.stack(losses) if losses else torch.empty(0)

    def _form(self) -> None:
        """g_{−1}, for the methods that have one; nothing moves."""
        first = self.sampling.first()
        if first is not None:
            for images, labels, refresh in first.gathered(self.data.train):
                self.optimizer.step(images, labels, refresh=refresh)
            self.spent.pay_formation(first.sizes[0])

    def _measure(self, batch_loss: float | None) -> Row:
        config, steps = self.config, self.sampling.steps
        train_loss, train_accuracy = evaluate(self.model, self.data.train)
        held = None if self.data.held is None else evaluate(self.model, self.data.held)[1]
        return Row(
            epoch=self.epoch,
            cycles=self.optimizer.cycles,
            **self.spent.totals,
            seconds=self.seconds,
            lr=rate(config, self.epoch * steps, config.epochs * steps),
            batch_loss=batch_loss,
            train_loss=train_loss,
            train_accuracy=train_accuracy,
            held_out_accuracy=held,
            test_accuracy=evaluate(self.model, self.data.test)[1],
        )

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def state(self) -> dict[str, Any]:
        """Everything needed to go on: tensors and plain values only."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "spent": dict(self.spent.totals),
            "seconds": self.seconds,
            "epoch": self.epoch,
            "diverged": self.diverged,
            "device": self.device.type,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Stand where `state` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.spent.totals = {key: state["spent"][key] for key in self.spent.totals}
        self.seconds, self.epoch = float(state["seconds"]), int(state["epoch"])
        self.diverged = bool(state["diverged"])


@torch.no_grad()
def evaluate(model: nn.Module, split: Split) -> tuple[float, float]:
    """Mean cross-entropy and accuracy on a whole set, in eval mode."""
    training = model.training
    model.eval()
    loss = torch.zeros((), dtype=torch.float64, device=split.labels.device)
    right = torch.zeros((), dtype=torch.int64, device=split.labels.device)
    for images, labels in zip(
        torch.split(split.images, _EVALUATED), torch.split(split.labels, _EVALUATED), strict=True
    ):
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").double()
        right += (scores.argmax(dim=1) == labels).sum()
    model.train(training)
    return float(loss) / len(split), int(right) / len(split)


def _weighted_mean(losses: Tensor, sizes: list[int]) -> float:
    if not len(losses):
        return math.nan
    weights = torch.tensor(sizes, dtype=torch.float64)
    return float((losses.double().cpu() * weights).sum() / weights.sum())


# ------------------------------------------------------------------------- what a step costs


class Spent:
    """What a run has used so far, at the price of one step of its optimizer.

    A small step of the recursive methods evaluates its b' samples at two points: 2b' samples, where
    the paper counts b'. The multiply-adds of a cycle follow `optim.blocks.costs`. A step of VR-CCD
    draws for one block and moves it; it is priced at the mean over the blocks, which is exact over
    whole cycles. Random orders are priced as shuffled ones; a greedy turn as the gradient of every
    block and its own; a product with the block Hessian as two gradients.
    """

    def __init__(self, config: RunConfig, optimizer: Any, image: Tensor) -> None:
        self.totals: dict[str, Any] = {"samples_paper": 0, "samples": 0, "multiply_adds": 0.0}
        net = optimizer.net
        costs = stage_costs(net.chain, Inputs((image,), {}))
        cycle = cycle_cost(costs, net.starts, direction(config.order))
        self._formation = cycle
        self._step = (net.m + 1) * cycle if config.order == "greedy" else cycle
        if config.method == "VR-CCD":
            alone = [cycle_cost(costs, net.starts, [j]) for j in range(net.m)]  # from the images on
            self._step = sum(alone) / net.m
        self._measuring = 0.0
        if config.precondition == "curvature":
            self._measuring = 2 * CURVATURE_ITERATIONS * cycle / CURVATURE_EVERY

    def pay(self, sizes: list[int], refresh: list[bool]) -> None:
        """For these steps."""
        for size, large in zip(sizes, refresh, strict=True):
            evaluated = size if large else 2 * size
            self._add(size, evaluated, evaluated * self._step + size * self._measuring)

    def pay_formation(self, size: int) -> None:
        """For g_{−1}: the gradient of every block at x_0."""
        self._add(size, size, size * self._formation)

    def _add(self, samples_paper: int, samples: int, multiply_adds: float) -> None:
        self.totals["samples_paper"] += samples_paper
        self.totals["samples"] += samples
        self.totals["multiply_adds"] += multiply_adds
