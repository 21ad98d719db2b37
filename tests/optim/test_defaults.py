"""Learning rates that train in the first try."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from cyclade import L1
from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD, PageBatchSampler

EPOCHS, BATCH, TRAIN = 15, 32, 1400


def digits() -> tuple[Tensor, Tensor]:
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    x = torch.tensor(bunch.data[order] / 16.0, dtype=torch.float32)
    return x, torch.tensor(bunch.target[order])


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    )


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((model(x[TRAIN:]).argmax(1) == y[TRAIN:]).float().mean())


def shuffled(epoch: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(epoch)
    return list(torch.randperm(TRAIN, generator=generator).split(BATCH))


@pytest.fixture(scope="module")
def torch_adam() -> float:
    x, y = digits()
    model = net()
    opt = torch.optim.Adam(model.parameters())
    for epoch in range(EPOCHS):
        for i in shuffled(epoch):
            opt.zero_grad()
            F.cross_entropy(model(x[i]), y[i]).backward()
            opt.step()
    return accuracy(model, x, y)


@pytest.mark.parametrize(
    ("cls", "options"),
    [(SCCD, {}), (SCCD, {"adagrad_norm": 1.0}), (SCCD, {"precondition": "spectral"}),
     (SCCD, {"momentum": 0.9}), (SGD, {})],
    ids=str,
)  # fmt: skip
def test_within_two_points_of_adam(cls: Any, options: Any, torch_adam: float) -> None:
    x, y = digits()
    model = net()
    opt = cls(model, F.cross_entropy, **options)
    for epoch in range(EPOCHS):
        for i in shuffled(epoch):
            opt.step(x[i], y[i])
    assert accuracy(model, x, y) > torch_adam - 0.02


@pytest.mark.parametrize("cls", [VROCCD, VRCCD, PAGE])
def test_variance_reduction_trains_with_its_defaults(cls: Any) -> None:
    x, y = digits()
    model = net()
    opt, sampler = cls(model, F.cross_entropy), PageBatchSampler(TRAIN)
    assert (opt.b, opt.b_small) == (sampler.b, sampler.b_small) == (64, 16)
    for _ in range(4):
        for i in sampler:
            opt.step(x[i], y[i])
    assert accuracy(model, x, y) > 0.7  # guessing is right in 0.1


def test_the_default_order() -> None:
    def order(cls: Any, **options: Any) -> str:
        return type(cls(net(), F.cross_entropy, **options).order).__name__

    assert order(SCCD) == order(SCCD, precondition="adam") == "Shuffled"
    assert order(SCCD, momentum=0.9) == "Shuffled"
    assert order(SCCD, precondition="spectral") == order(SCCD, lr=0.1) == "Forward"
    assert order(SCCD, momentum=0.9, order="forward") == "Forward"
    assert {order(SGD, precondition=p) for p in (None, "spectral", "adam")} == {"Forward"}
    assert order(SGD, momentum=0.9) == order(VROCCD, momentum=0.9, b=8) == "Forward"


def test_an_order_is_given_by_names_of_blocks() -> None:
    turns = [
        SCCD(net(), F.cross_entropy, blocks="layers", order=given).order.sequence
        for given in (["4", "0", "2"], [2, 0, 1])
    ]
    assert turns == [(2, 0, 1), (2, 0, 1)]
    with pytest.raises(ValueError, match=r"each of the blocks \['0', '2', '4'\] once"):
        SCCD(net(), F.cross_entropy, blocks="layers", order=["0", "1"])


def first_group(cls: Any, model: nn.Module | None = None, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = cls(model or net(), F.cross_entropy, **options).param_groups[0]
    return found


def test_the_default_rates() -> None:
    def rate(cls: Any, **options: Any) -> float:
        return float(first_group(cls, **options)["lr"])

    assert [rate(SCCD, precondition=p) for p in (None, "spectral", "adam")] == [1e-3, 0.8, 1e-3]
    assert rate(SCCD, adagrad_norm=1.0) == 0.8
    assert rate(SCCD, momentum=0.9) == rate(SGD, momentum=0.9) == 0.02
    assert rate(VROCCD) == rate(VRCCD) == rate(PAGE, precondition="adam") == 1e-3
    assert rate(VROCCD, adagrad_norm=math.inf) == 0.005  # what the paper's LeNet trains with


def test_where_nothing_is_said_of_the_steps_they_are_adams() -> None:
    def steps(cls: Any, model: nn.Module | None = None, **options: Any) -> str | None:
        found: str | None = first_group(cls, model, **options)["precondition"]
        return found

    silent = [{}, {"weight_decay": 0.1}, {"clip_norm": 1.0}, {"reg": L1(1e-4)}]
    assert {steps(cls, **o) for cls in (SCCD, VROCCD, VRCCD, PAGE) for o in silent} == {"adam"}
    said = [{"lr": 0.1}, {"momentum": 0.9}, {"adagrad_norm": 1.0}, {"adagrad_norm": math.inf}]
    assert {steps(cls, **o) for cls in (SCCD, VROCCD) for o in said} == {None}
    assert steps(SGD) is None
    assert steps(SCCD, nn.Sequential(nn.Linear(4, 2, dtype=torch.complex64))) is None


def norms(cls: Any, **options: Any) -> tuple[float | None, float | None]:
    opt = cls(net(), F.cross_entropy, **options)
    clip, c = (opt.param_groups[0][name] for name in ("clip_norm", "adagrad_norm"))
    assert ("is clipped at norm" in repr(opt)) == (clip is not None)
    assert ("over its cycles, c = " in repr(opt)) == (c is not None)
    return clip, c


def test_default_steps_are_bounded_and_say_so() -> None:
    assert norms(SCCD, adagrad_norm=1.0) == norms(SCCD, precondition="spectral") == (0.5, 1.0)
    assert norms(SCCD, momentum=0.9) == (0.5, None)
    assert norms(SGD) == norms(SGD, momentum=0.9) == (1.0, None)
    assert norms(SCCD, clip_norm=3.0, adagrad_norm=2.0) == (3.0, 2.0)
    assert norms(SCCD, adagrad_norm=1.0, clip_norm=math.inf) == (None, 1.0)
    assert norms(SCCD, adagrad_norm=1.0, clip_total_norm=1.0) == (None, 1.0)
    assert norms(SCCD, adagrad_norm=math.inf) == (0.5, None)
    for options in ({}, {"lr": 0.1}, {"precondition": "adam"}, {"precondition": "curvature"}):
        assert norms(SCCD, **options) == (None, None)
    assert norms(SCCD, clip_norm=3.0) == (3.0, None)
    assert norms(VROCCD) == norms(SGD, lr=0.1) == (None, None)
