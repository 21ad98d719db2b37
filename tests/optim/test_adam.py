"""precondition="adam": AdamW, bit for bit with one block."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import batch, close, net, written
from torch import Tensor, nn

from cyclade import L1
from cyclade.optim import SCCD, SGD, VROCCD


def small(k: int) -> tuple[Tensor, Tensor]:
    return batch(seed=k, dtype=torch.float32)


def torch_step(peer: Any, model: nn.Module, x: Any, y: Tensor) -> None:
    peer.zero_grad()
    F.cross_entropy(model(*x) if isinstance(x, tuple) else model(x), y).backward()
    peer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.9)])
@pytest.mark.parametrize("decay", [0.0, 0.03])
def test_one_block_is_adamw_bit_for_bit(decay: float, betas: Any, dtype: Any) -> None:
    """Also along a schedule, and when the run is taken up in the middle."""
    ours, theirs = net(dtype=dtype), net(dtype=dtype)
    options: dict[str, Any] = {"lr": 3e-3, "betas": betas, "weight_decay": decay, "eps": 1e-7}
    opt = SGD(ours, F.cross_entropy, precondition="adam", **options)
    peer = torch.optim.AdamW(theirs.parameters(), **options)
    one, two = (torch.optim.lr_scheduler.ExponentialLR(o, 0.98) for o in (opt, peer))
    for k in range(25):
        x, y = batch(seed=k, dtype=dtype)
        opt.step(x, y)
        torch_step(peer, theirs, x, y)
        one.step()
        two.step()
        if k == 12:
            state = opt.state_dict()
            opt = one.optimizer = SGD(ours, F.cross_entropy, precondition="adam")
            opt.load_state_dict(state)
    close(ours, theirs)


def test_no_decay_of_biases() -> None:
    ours, theirs = net(dtype=torch.float32), net(dtype=torch.float32)
    opt = SGD(ours, F.cross_entropy, precondition="adam", weight_decay=0.1, no_decay="biases")
    assert opt.param_groups[0]["lr"] == 1e-3
    weights = [p for p in theirs.parameters() if p.dim() > 1]
    biases = [p for p in theirs.parameters() if p.dim() <= 1]
    groups = [{"params": weights}, {"params": biases, "weight_decay": 0.0}]
    peer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)
    for k in range(10):
        opt.step(*small(k))
        torch_step(peer, theirs, *small(k))
    close(ours, theirs, 1e-7, rtol=1e-6)
    plain, named = net(), net()
    for model, spared in ((plain, "biases"), (named, ["0.bias", "2.bias", "4"])):
        opt = SCCD(model, F.cross_entropy, lr=0.1, weight_decay=5.0, no_decay=spared)
        opt.step(*batch())
    torch.testing.assert_close(plain[2].bias, named[2].bias)
    assert float(plain[4].weight.norm().detach()) < float(named[4].weight.norm().detach())


@pytest.mark.parametrize("cls", [SGD, SCCD])
def test_clipping_by_the_norm_of_all_blocks(cls: Any) -> None:
    ours, theirs = net(), net()
    opt = cls(ours, F.cross_entropy, lr=0.5, clip_total_norm=0.1)
    peer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for k in range(5):
        before = [p.detach().clone() for p in ours.parameters()]
        x, y = batch(seed=k)
        opt.step(x, y)
        peer.zero_grad()
        F.cross_entropy(theirs(x), y).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        peer.step()
        moved = [(p - q).square().sum() for p, q in zip(ours.parameters(), before, strict=True)]
        if k:  # in the very first cycle the later blocks have not been seen yet
            assert float(sum(moved).detach().sqrt()) <= 0.5 * 0.1 * (1.2 if cls is SCCD else 1.0)
    if cls is SGD:
        close(ours, theirs, 1e-13)


def test_cyclic_adam_with_a_regulariser_and_variance_reduction() -> None:
    model = net(dtype=torch.float32)
    opt = SCCD(model, F.cross_entropy, precondition="adam", lr=0.01, reg=L1(0.05))
    for k in range(100):
        opt.step(*small(k))
    assert float((model[0].weight.detach() == 0).double().mean()) > 0.3
    model = net(dtype=torch.float32)
    opt = VROCCD(model, F.cross_entropy, precondition="adam", b=16, b_small=4)
    first = float(opt.step(*small(0)))
    for k in range(60):
        x, y = small(0)
        last = float(opt.step(x, y) if k % 4 == 0 else opt.step(x[:4], y[:4]))
        assert torch.isfinite(torch.tensor(last))
    assert float(F.cross_entropy(model(x), y).detach()) < first


@pytest.mark.filterwarnings("ignore::cyclade.optim.CutWarning")
def test_parameters_without_a_gradient_neither_move_nor_decay() -> None:
    torch.manual_seed(0)
    branches = written(
        lambda self, x, which: self.a(x) if which else self.b(x),
        a=nn.Linear(6, 3), b=nn.Linear(6, 3), never=nn.Linear(6, 3),
    )  # fmt: skip
    for options in ({}, {"momentum": 0.9}, {"precondition": "adam"}):
        model, twin = copy.deepcopy(branches), copy.deepcopy(branches)
        never = model.never.weight.detach().clone()
        opt = SGD(model, F.cross_entropy, lr=0.01, weight_decay=0.5, **options)
        peer = (
            torch.optim.AdamW(twin.parameters(), lr=0.01, weight_decay=0.5)
            if "precondition" in options
            else torch.optim.SGD(twin.parameters(), lr=0.01, **options)
        )
        for k in range(6):
            x, y = small(k)
            before = {n: p.detach().clone() for n, p in model.named_parameters()}
            opt.step((x, k % 2 == 0), y)
            idle = "b" if k % 2 == 0 else "a"
            assert torch.equal(
                before[f"{idle}.weight"], dict(model.named_parameters())[f"{idle}.weight"]
            )
            torch_step(peer, twin, (x, k % 2 == 0), y)
        assert torch.equal(never, model.never.weight.detach())
        assert torch.equal(never, twin.never.weight.detach())
