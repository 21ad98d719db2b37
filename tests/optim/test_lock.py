"""The watch on a fixed order: cosines of successive gradients, and a warning when they lock."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

from cyclade.optim import SCCD, SGD
from cyclade.optim.blocks.order_lock import EVERY, LOCKED, LOOKS, LockWarning


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).double()


def push(output: torch.Tensor, target: torch.Tensor) -> Any:
    """Its gradient never turns."""
    return (output * target).mean()


def steps(opt: Any, number: int) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(8, 4, generator=generator, dtype=torch.float64) + 1
    y = torch.ones(8, 2, dtype=torch.float64)
    seen = []
    for _ in range(number):
        opt.step(x, y)
        seen.append(list(opt.runner.lock.cosines))
    return seen


@pytest.mark.parametrize("options", [
    {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
    {"precondition": "adam", "betas": (0.9, 0.99)}, {"precondition": "adam", "betas": (0.0, 0.99)},
], ids=str)  # fmt: skip
def test_the_cosine_is_that_of_the_gradients(options: dict[str, Any]) -> None:
    net = model()
    opt = SCCD(net, push, lr=1e-2, blocks="layers", order="forward", **options)
    kept: list[list[torch.Tensor]] = []
    x, y = torch.rand(8, 4).double(), torch.randn(8, 2).double()
    opt.step(x, y)
    inner = opt.runner.steps.at

    def at(j: int, now: Any, gj: Any, reg: Any) -> Any:
        kept[-1].append(gj.clone())
        return inner(j, now, gj, reg)

    opt.runner.steps.at = at
    for _ in range(EVERY + 2):
        kept.append([])
        x, y = torch.rand(8, 4).double(), torch.randn(8, 2).double()
        opt.step(x, y)
    expected = [
        float(torch.nn.functional.cosine_similarity(a, b, dim=0))
        for a, b in zip(kept[EVERY - 1], kept[EVERY], strict=True)
    ]
    assert opt.cycles == EVERY + 3
    assert opt.runner.lock.cosines == pytest.approx(expected, rel=1e-6)


def test_a_locked_order_is_told_once() -> None:
    opt = SCCD(model(), push, lr=1e-7, blocks="layers", momentum=0.9, order="forward")
    with pytest.warns(LockWarning, match="may have locked") as found:
        steps(opt, EVERY * (LOOKS + 2) + 3)
    assert len(found) == 1


def test_no_warning_while_the_loss_falls() -> None:
    def distance(output: torch.Tensor, target: torch.Tensor) -> Any:
        return (output - 40 * target).square().mean()

    opt = SCCD(model(), distance, lr=3e-5, blocks="layers", momentum=0.9, order="forward")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(opt, EVERY * (LOOKS + 1) + 3)
    assert min(opt.runner.lock.cosines) > LOCKED


@pytest.mark.parametrize(("cls", "options"), [
    (SCCD, {"order": "shuffled", "momentum": 0.9, "blocks": "layers"}),
    (SGD, {"momentum": 0.9}), (SCCD, {"blocks": "layers"}),
], ids=str)  # fmt: skip
def test_no_warning_where_nothing_locks(cls: Any, options: dict[str, Any]) -> None:
    opt = cls(model(), push, lr=1e-4, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(opt, EVERY * (LOOKS + 2) + 3)
    assert bool(opt.runner.lock.cosines) == ("momentum" in options)
