"""Captured cycles equal eager ones. They need CUDA; run this file there by itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import ALL, RECURSIVE
from torch import nn

from cyclade.optim import SCCD, VROCCD

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need CUDA")

STEPS = 40


def net(norm: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 20)]
    layers += [nn.BatchNorm1d(20)] if norm else []
    return nn.Sequential(*layers, nn.Tanh(), nn.Linear(20, 5)).double().cuda()


def batch(size: int, seed: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 3, 8, 8, generator=generator, dtype=torch.float64)
    return x.cuda(), torch.randint(0, 5, (size,), generator=generator).cuda()


def train(
    cls: Any, capture: bool, *, norm: bool = False, schedule: bool = True, **options: Any
) -> Any:
    torch.backends.cudnn.deterministic = True
    model = net(norm)
    if cls in RECURSIVE:
        options.update(b=32, b_small=8)
    opt = cls(model, F.cross_entropy, lr=0.05, weight_decay=1e-3, capture=capture, **options)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS)
    losses = []
    for k in range(STEPS):
        size = 32 if k == 0 or cls not in RECURSIVE or k % 4 == 0 else 8
        losses.append(opt.step(*batch(size, k)).clone())
        if schedule:
            scheduler.step()
    return model, torch.stack(losses), opt


@pytest.mark.parametrize("options", [
    {}, {"order": "backward"}, {"momentum": 0.9, "nesterov": True, "clip_norm": 1.0},
    {"precondition": "spectral"}, {"precondition": "adam", "eps": 1.0, "order": "forward"},
    {"precondition": "curvature", "curvature_every": 7}, {"norm": True},
    {"adagrad_norm": 0.1}, {"adagrad_norm": 0.1, "precondition": "spectral", "clip_norm": 0.2},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("cls", ALL)
def test_captured_equals_eager(cls: Any, options: dict[str, Any]) -> None:
    eager, losses, _ = train(cls, False, **options)
    captured, again, opt = train(cls, True, **options)
    assert len(opt.runner.graphs)
    torch.testing.assert_close(again, losses, atol=1e-12, rtol=1e-12)
    for (name, a), b in zip(
        eager.state_dict().items(), captured.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12, msg=name)


def test_a_new_shape_is_captured_anew_and_lr_is_live() -> None:
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=0.05, capture=True)
    for k in range(12):
        opt.step(*batch(32 if k % 2 else 16, k))
    assert len(opt.runner.graphs) == 2
    for group in opt.param_groups:
        group["lr"] = 0.0
    before = copy.deepcopy(model.state_dict())
    opt.step(*batch(32, 99))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_resume_under_capture_and_across_devices() -> None:
    model, _, opt = train(VROCCD, True)
    state = copy.deepcopy(opt.state_dict())
    other = net()
    other.load_state_dict(model.state_dict())
    again = VROCCD(
        other, F.cross_entropy, lr=0.05, weight_decay=1e-3, capture=True, b=32, b_small=8
    )
    again.load_state_dict(state)
    on_cpu = copy.deepcopy(model).cpu()
    slow = VROCCD(on_cpu, F.cross_entropy, lr=0.05, weight_decay=1e-3, b=32, b_small=8)
    slow.load_state_dict(state)
    for k in range(8):
        x, y = batch(8, 100 + k)
        opt.step(x, y)
        again.step(x, y)
        slow.step(x.cpu(), y.cpu())
    for a, b, c in zip(model.parameters(), other.parameters(), on_cpu.parameters(), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a.cpu(), c, atol=1e-12, rtol=1e-12)


def test_moved_parameters_and_dropout_are_refused() -> None:
    model = net()
    opt = SCCD(model, F.cross_entropy, lr=0.05, capture=True)
    for k in range(6):
        opt.step(*batch(16, k))
    model[0].weight.data = model[0].weight.data.clone()
    with pytest.raises(RuntimeError, match=r"the storage or shape of 0\.weight changed"):
        opt.step(*batch(16, 0))
    dropped = nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.Dropout(0.5)).double().cuda()
    with pytest.raises(ValueError, match="cannot repeat random masks"):
        SCCD(dropped, F.cross_entropy, capture=True)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "-o", "addopts="]))
