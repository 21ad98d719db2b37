"""precondition="adam": AdamW, bit for bit with one block."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade import L1
from cyclade.optim import SCCD, SGD, VROCCD


def net(dtype: Any = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 3))
    return layers.to(dtype)


def batch(k: int, dtype: Any = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(k)
    x = torch.randn(16, 6, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(0, 3, (16,), generator=generator)


def torch_steps(peer: Any, model: nn.Module, steps: int, dtype: Any = torch.float32) -> None:
    for k in range(steps):
        x, y = batch(k, dtype)
        peer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        peer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.9)])
@pytest.mark.parametrize("decay", [0.0, 0.03])
def test_one_block_is_adamw_bit_for_bit(decay: float, betas: Any, dtype: Any) -> None:
    ours, theirs = net(dtype), net(dtype)
    options: dict[str, Any] = {"lr": 3e-3, "betas": betas, "weight_decay": decay, "eps": 1e-7}
    opt = SGD(ours, F.cross_entropy, precondition="adam", **options)
    peer = torch.optim.AdamW(theirs.parameters(), **options)
    for k in range(25):
        opt.step(*batch(k, dtype))
    torch_steps(peer, theirs, 25, dtype)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p, q)


def test_the_moments_resume_and_schedulers_change_the_step() -> None:
    ours, theirs = net(), net()
    opt = SGD(ours, F.cross_entropy, precondition="adam", weight_decay=0.01)
    peer = torch.optim.AdamW(theirs.parameters(), lr=1e-3, weight_decay=0.01)
    assert opt.param_groups[0]["lr"] == 1e-3
    one, two = (torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (opt, peer))
    for k in range(6):
        x, y = batch(k)
        opt.step(x, y)
        peer.zero_grad()
        F.cross_entropy(theirs(x), y).backward()
        peer.step()
        one.step()
        two.step()
        if k == 2:
            state = opt.state_dict()
            opt = SGD(ours, F.cross_entropy, precondition="adam", weight_decay=0.01)
            opt.load_state_dict(state)
            one.optimizer = opt
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p, q)


def test_no_decay_of_biases() -> None:
    ours, theirs = net(), net()
    opt = SGD(ours, F.cross_entropy, precondition="adam", weight_decay=0.1, no_decay="biases")
    weights = [p for p in theirs.parameters() if p.dim() > 1]
    biases = [p for p in theirs.parameters() if p.dim() <= 1]
    groups = [{"params": weights}, {"params": biases, "weight_decay": 0.0}]
    peer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)
    for k in range(10):
        opt.step(*batch(k))
    torch_steps(peer, theirs, 10)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)
    plain, named = net(torch.float64), net(torch.float64)
    SCCD(plain, F.cross_entropy, lr=0.1, weight_decay=5.0, no_decay="biases").step(
        *batch(0, torch.float64)
    )
    SCCD(named, F.cross_entropy, lr=0.1, weight_decay=5.0, no_decay=["0.bias", "2.bias", "4"]).step(
        *batch(0, torch.float64)
    )
    torch.testing.assert_close(plain[2].bias, named[2].bias)
    assert float(plain[4].weight.norm().detach()) < float(named[4].weight.norm().detach())


@pytest.mark.parametrize("cls", [SGD, SCCD])
def test_clipping_by_the_norm_of_all_blocks(cls: Any) -> None:
    ours, theirs = net(torch.float64), net(torch.float64)
    opt = cls(ours, F.cross_entropy, lr=0.5, clip_total_norm=0.1)
    peer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for k in range(5):
        before = [p.detach().clone() for p in ours.parameters()]
        x, y = batch(k, torch.float64)
        opt.step(x, y)
        peer.zero_grad()
        F.cross_entropy(theirs(x), y).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        peer.step()
        moved = [(p - q).square().sum() for p, q in zip(ours.parameters(), before, strict=True)]
        if k:  # in the very first cycle the later blocks have not been seen yet
            assert float(sum(moved).detach().sqrt()) <= 0.5 * 0.1 * (1.2 if cls is SCCD else 1.0)
    if cls is SGD:
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-13)


def test_cyclic_adam_with_a_regulariser_and_variance_reduction() -> None:
    model = net()
    opt = SCCD(model, F.cross_entropy, precondition="adam", lr=0.01, reg=L1(0.05))
    for k in range(100):
        opt.step(*batch(k))
    assert float((model[0].weight.detach() == 0).double().mean()) > 0.3
    model = net()
    opt = VROCCD(model, F.cross_entropy, precondition="adam", b=16, b_small=4)
    first = float(opt.step(*batch(0)))
    for k in range(60):
        x, y = batch(0)
        last = float(opt.step(x, y) if k % 4 == 0 else opt.step(x[:4], y[:4]))
        assert torch.isfinite(torch.tensor(last))
    assert float(F.cross_entropy(model(x), y).detach()) < first


@pytest.mark.filterwarnings("ignore::cyclade.optim.CutWarning")
def test_parameters_without_a_gradient_neither_move_nor_decay() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b, self.never = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, x: Tensor, which: bool) -> Tensor:
            return self.a(x) if which else self.b(x)

    for options in ({}, {"momentum": 0.9}, {"precondition": "adam"}):
        model, twin = Branches(), Branches()
        never = model.never.weight.detach().clone()
        opt = SGD(model, F.cross_entropy, lr=0.01, weight_decay=0.5, **options)
        peer = (
            torch.optim.AdamW(twin.parameters(), lr=0.01, weight_decay=0.5)
            if "precondition" in options
            else torch.optim.SGD(twin.parameters(), lr=0.01, **options)
        )
        for k in range(6):
            x, y = batch(k)
            before = {n: p.detach().clone() for n, p in model.named_parameters()}
            opt.step((x, k % 2 == 0), y)
            idle = "b" if k % 2 == 0 else "a"
            assert torch.equal(
                before[f"{idle}.weight"], dict(model.named_parameters())[f"{idle}.weight"]
            )
            peer.zero_grad()
            F.cross_entropy(twin(x, k % 2 == 0), y).backward()
            peer.step()
        assert torch.equal(never, model.never.weight.detach())
        assert torch.equal(never, twin.never.weight.detach())
