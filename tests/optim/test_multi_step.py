"""Several steps in one launch are the steps of the optimizer.

On CUDA bit for bit; on the CPU a step reads its lr as a Python number and several steps read theirs
as tensors, so in float64 to the last digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_nets import ALL, RECURSIVE
from torch import Tensor, nn

from cyclade.optim import PAGE, SCCD, SGD, VROCCD
from cyclade.optim.capture.graphs import Recorder
from cyclade.optim.multi_step import MultiStep

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="CUDA graphs need CUDA"))]  # fmt: skip
DTYPES = {"cpu": torch.float64, "cuda": torch.float32}
CLOSE: dict[str, Any] = {"cpu": {"rtol": 1e-12, "atol": 1e-12}, "cuda": {"rtol": 0, "atol": 0}}
N, B, B_SMALL = 200, 32, 5
STEPS = 120 if torch.cuda.is_available() else 48  # launches are of eight; graphs warm up first


def net(device: str) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 20), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(20, 5)).to(device, DTYPES[device])


def data(device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 3, 8, 8, generator=generator)
    return x.to(device, DTYPES[device]), torch.randint(0, 5, (N,), generator=generator).to(device)


def epoch(cls: Any, seed: int) -> tuple[Tensor, list[int], list[bool], list[float]]:
    """Steps with runs of small batches between large ones, and one of another size at the end."""
    rng = np.random.default_rng(seed)
    refresh = [cls not in RECURSIVE or bool(rng.random() < 0.05) for _ in range(STEPS)]
    sizes = [B if again else B_SMALL for again in refresh]
    if cls not in RECURSIVE:
        sizes[-1] = 7
    indices = np.concatenate([rng.choice(N, size, replace=False) for size in sizes])
    rates = [0.05 * (1 - k / (3 * STEPS)) for k in range(STEPS)]
    return torch.from_numpy(indices), sizes, refresh, rates


def build(cls: Any, device: str, **options: Any) -> tuple[nn.Module, Any]:
    model = net(device)
    if cls in RECURSIVE:
        options |= {"b": B, "b_small": B_SMALL}
    return model, cls(
        model, F.cross_entropy, lr=0.05, weight_decay=1e-3, capture=device == "cuda", **options
    )


def form(opt: Any, x: Tensor, y: Tensor) -> None:
    if opt.recursive:
        opt.step(x[:B], y[:B], refresh=True)


@pytest.fixture(autouse=True)
def deterministic() -> Any:
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    yield
    torch.backends.cudnn.deterministic = before


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"order": "backward"}, {"precondition": "spectral"},
    {"momentum": 0.9, "order": "forward"}, {"order": [0, 2, 1]}], ids=str)  # fmt: skip
@pytest.mark.parametrize("cls", ALL)
def test_several_steps_are_steps(cls: Any, options: dict[str, Any], device: str) -> None:
    if cls in (SGD, PAGE) and options.get("order", "forward") != "forward":
        pytest.skip("one block")
    x, y = data(device)
    model, opt = build(cls, device, **options)
    twin, literal = build(cls, device, **options)
    form(opt, x, y)
    form(literal, x, y)
    several = MultiStep(opt, x, y)
    for number in range(3):
        indices, sizes, refresh, rates = epoch(cls, number)
        losses = several.run(indices, sizes, refresh, rates)
        at, expected = 0, []
        for size, again, rate in zip(sizes, refresh, rates, strict=True):
            for group in literal.param_groups:
                group["lr"] = rate
            chosen = indices[at : at + size].to(device)
            expected.append(literal.step(x[chosen], y[chosen], refresh=again or None))
            at += size
        torch.testing.assert_close(losses, torch.stack(expected), **CLOSE[device])
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, **CLOSE[device])
    assert (opt.cycles, opt.draws) == (literal.cycles, literal.draws)
    assert opt.state_dict()["cyclade"] == literal.state_dict()["cyclade"]


def test_small_steps_go_several_at_a_time() -> None:
    x, y = data("cpu")
    _, opt = build(VROCCD, "cpu")
    form(opt, x, y)
    several = MultiStep(opt, x, y)
    launched: list[int] = []
    make = several._make
    several._make = lambda steps: (launched.append(len(steps)), make(steps))[1]  # type: ignore[method-assign,func-returns-value]
    several.run(*epoch(VROCCD, 0))
    assert sum(launched) == STEPS
    assert set(launched) == {1, 8}
    assert launched[: Recorder.WARMUP] == [1] * Recorder.WARMUP


def test_what_it_cannot_do_is_refused() -> None:
    x, y = data("cpu")
    for options in ({"order": "shuffled"}, {"precondition": "curvature"}):
        _, opt = build(SCCD, "cpu", **options)
        with pytest.raises(ValueError, match="several steps at once need an order that stays"):
            MultiStep(opt, x, y)


@pytest.mark.parametrize("device", DEVICES)
def test_it_follows_a_loaded_state(device: str) -> None:
    x, y = data(device)
    model, opt = build(VROCCD, device)
    form(opt, x, y)
    several = MultiStep(opt, x, y)
    several.run(*epoch(VROCCD, 0))
    kept = {k: v.clone() for k, v in model.state_dict().items()}, opt.state_dict()
    other, again = build(VROCCD, device)
    form(again, x, y)
    resumed = MultiStep(again, x, y)
    resumed.run(*epoch(VROCCD, 5))
    other.load_state_dict(kept[0])
    again.load_state_dict(kept[1])
    expected = several.run(*epoch(VROCCD, 1))
    torch.testing.assert_close(resumed.run(*epoch(VROCCD, 1)), expected, **CLOSE[device])
