"""Steps divided by √(1 + Σ‖g^j‖²/c²), against the formula written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import batch, close, net

from cyclade.optim import PAGE, SCCD, VROCCD
from cyclade.regularisers import L1

LR, C = 0.5, 0.3


@pytest.mark.parametrize(
    "options",
    [{}, {"order": "backward"}, {"weight_decay": 0.1}, {"clip_norm": 0.05}, {"maximize": True},
     {"reg": L1(0.01)}, {"precondition": "spectral"}, {"momentum": 0.9, "order": "forward"},
     {"no_decay": "biases", "weight_decay": 0.1}],
    ids=str,
)  # fmt: skip
def test_the_formula(options: dict[str, Any]) -> None:
    ours, theirs = net(), net()
    opt = SCCD(ours, F.cross_entropy, lr=LR, adagrad_norm=C, blocks="layers", **options)
    layers: list[Any] = [theirs[i] for i in (0, 2, 4)]
    seen, moments = [0.0] * 3, [0.0] * 3
    turns = (2, 1, 0) if options.get("order") == "backward" else (0, 1, 2)
    for k in range(6):
        opt.step(*batch(seed=k))
        x, y = batch(seed=k)
        for j in turns:
            layer = layers[j]
            block = [layer.weight, layer.bias]
            loss = F.cross_entropy(theirs(x), y) * (-1 if options.get("maximize") else 1)
            g = torch.cat([a.flatten() for a in torch.autograd.grad(loss, block)])
            g = g * min(1.0, options.get("clip_norm", math.inf) / float(g.norm()))
            seen[j] += float(g.norm()) ** 2
            t = LR / math.sqrt(1 + seen[j] / C**2)
            if "precondition" in options:
                t /= float(opt.runner.block_state.of(j)["sigma"][0])  # of the cycle just made
            moments[j] = options.get("momentum", 0.0) * moments[j] + g
            _move(block, t, moments[j], options)
        close(ours, theirs, 1e-14)


@torch.no_grad()
def _move(block: list[Any], t: float, d: Any, options: dict[str, Any]) -> None:
    weight, bias = block
    parts = torch.split(d, [weight.numel(), bias.numel()])
    for p, part in zip(block, parts, strict=True):
        decay = options.get("weight_decay", 0.0)
        if "no_decay" in options and p is bias:
            decay = 0.0
        u = (p - t * part.view_as(p)) / (1 + t * decay)
        if "reg" in options and p is weight:
            u = u.sign() * (u.abs() - t * 0.01).clamp(min=0)
        p.copy_(u)


@pytest.mark.parametrize("cls", [VROCCD, PAGE])
def test_recursive_methods_sum_the_norms_of_their_estimates(cls: Any) -> None:
    model = net()
    opt = cls(model, F.cross_entropy, lr=0.1, adagrad_norm=C, b=16, b_small=4)
    opt.step(*batch(seed=0))
    total = [0.0] * opt.net.m
    for k in range(1, 6):
        opt.step(*batch(16 if k == 3 else 4, k))
        for j in range(opt.net.m):
            total[j] += float(opt.runner.block_state.of(j)["g"].norm()) ** 2
            assert float(opt.runner.block_state.of(j)["grad_squares"]) == pytest.approx(total[j])


def test_a_state_from_before_there_was_one_loads() -> None:
    opt = SCCD(net(), F.cross_entropy, lr=LR)
    opt.step(*batch(seed=0))
    state = opt.state_dict()
    for group in state["param_groups"]:
        del group["adagrad_norm"]
    other = SCCD(net(), F.cross_entropy, lr=LR)
    other.load_state_dict(state)
    other.step(*batch(seed=1))


def test_bfloat16_sums_in_float32() -> None:
    model = net().bfloat16()
    opt = SCCD(model, F.cross_entropy, lr=LR, adagrad_norm=C)
    x, y = batch(seed=0)
    for _ in range(3):
        opt.step(x.bfloat16(), y)
    assert opt.runner.block_state.of(0)["grad_squares"].dtype == torch.float32
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
