"""A setting of the optimizer, and one run of it: validation loss, diagnostics, milliseconds."""

from __future__ import annotations

import math
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.optim import SCCD, SGD, VRCCD, NotFiniteError
from cyclade.optim.blocks.order_lock import LockWarning
from studies.deep.tasks import Task

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "adam 0": {"precondition": "adam", "betas": (0.0, 0.99)},
    "adam 0.5": {"precondition": "adam", "betas": (0.5, 0.99)},
    "adam 0.9": {"precondition": "adam", "betas": (0.9, 0.99)},
}
"""The steps of a block; the number behind Adam is β1."""

TOGETHER = "together"
"""The order of the simultaneous step: one block."""

_WARM = 20  # steps over which the learning rate rises
_LOOKS = 6  # validations in a run
_TIMED = 16  # steps that are timed, on one batch


@dataclass(frozen=True)
class Setting:
    """How the blocks are moved."""

    task: str
    optimizer: str
    blocks: int = 1
    order: str = TOGETHER
    fresh: bool = False  # a batch for each block, instead of one for the cycle

    def build(self, model: nn.Module, lr: float, seed: int, *, capture: bool) -> Any:
        """The optimizer."""
        options = {**OPTIMIZERS[self.optimizer], "lr": lr, "capture": capture}
        if self.blocks == 1:
            return SGD(model, F.cross_entropy, **options)
        options |= {"blocks": self.blocks, "order": self.order, "seed": seed}
        if self.fresh:
            return VRCCD(model, F.cross_entropy, b=1, **options)
        return SCCD(model, F.cross_entropy, **options)


def run(setting: Setting, task: Task, lr: float, seed: int, device: torch.device) -> dict[str, Any]:
    """Train once; the record of it."""
    torch.manual_seed(seed)
    model = task.model().to(device)
    start = [p.detach().clone() for p in model.parameters()]
    opt = setting.build(model, lr, seed, capture=device.type == "cuda")
    batches = setting.blocks if setting.fresh else 1
    curve: list[tuple[int, float | None]] = []
    cosines: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LockWarning)
        if setting.fresh:
            _step(opt, setting, task.batch(seed, task.steps * batches))  # forms g, moves nothing
        for k in range(task.steps):
            for group in opt.param_groups:
                group["lr"] = lr * min(1.0, (k + 1) / _WARM)
            for i in range(batches):
                _step(opt, setting, task.batch(seed, k * batches + i))
            seen = opt.runner.lock.cosines
            if seen:
                cosines.append(sum(seen) / len(seen))
                seen.clear()
            if (k + 1) % max(1, task.steps // _LOOKS) == 0:
                curve.append((k + 1, validated(model, task)))
                if curve[-1][1] is None:
                    break
        pairs = zip(model.parameters(), start, strict=True)
        moved = math.sqrt(sum(float((p.detach() - p0).square().sum()) for p, p0 in pairs))
        ms = _timed(opt, setting, task.batch(seed, 0))
    return {
        **asdict(setting), "lr": lr, "seed": seed, "steps": task.steps, "val": curve,
        "cosines": [round(c, 4) for c in cosines], "moved": moved if math.isfinite(moved) else None,
        "ms": None if ms is None else ms * batches, "cost": opt.predicted_overhead,
    }  # fmt: skip


def _step(opt: Any, setting: Setting, batch: tuple[Tensor, Tensor]) -> None:
    with autocast(batch[0].device):
        opt.step(*batch, refresh=True) if setting.fresh else opt.step(*batch)


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 on CUDA.

    It is left after each step and each validation: a context keeps the weights that it has cast,
    and within one that spans several steps a validation would see those of the first.
    """
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


@torch.no_grad()
def validated(model: nn.Module, task: Task) -> float | None:
    """The validation loss; None where it is not finite."""
    model.eval()
    with autocast(next(model.parameters()).device):
        found = task.validate(model)
    model.train()
    return found if math.isfinite(found) else None


def _timed(opt: Any, setting: Setting, batch: tuple[Tensor, Tensor]) -> float | None:
    """Milliseconds of a step; None for a run that has diverged, which is refused."""

    def wait() -> None:
        if batch[0].is_cuda:
            torch.cuda.synchronize()

    try:
        wait()
        begun = time.perf_counter()
        for _ in range(_TIMED):
            _step(opt, setting, batch)
        wait()
    except NotFiniteError:
        return None
    return 1e3 * (time.perf_counter() - begun) / _TIMED
