"""Blocks that a cycle can pay for, chosen once costs are known, and what it costs is said."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models import LeNet, ResNet18
from small_nets import close, written
from torch import nn

from cyclade.optim import SCCD, VROCCD, CostWarning, CutWarning
from cyclade.optim.blocks.costs import overhead
from cyclade.optim.blocks.partitioning import TWO_BLOCKS


def deep(depth: int = 12) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(16, 16), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(16, 3))


def batch(seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 16, generator=generator)
    return x, torch.randint(0, 3, (8,), generator=generator)


def test_the_default_is_the_finest_partition_under_two_sgd_steps() -> None:
    opt = SCCD(deep(), F.cross_entropy, lr=0.1)
    assert len(opt.param_groups) == 13
    text = repr(opt)
    assert "known after the first step" in text
    assert "merged into the finest blocks whose cycle costs at most 2 SGD steps" in text
    opt.step(*batch())
    assert 1 < opt.net.m < 13
    assert 1.5 < opt.predicted_overhead <= 2.0
    assert f"multiply-adds of a cycle: {opt.predicted_overhead:.2f}x an SGD step" in repr(opt)
    known = SCCD(deep(), F.cross_entropy, lr=0.1, example=batch()[0])
    assert [b.params for b in known.net.blocks] == [b.params for b in opt.net.blocks]
    x = torch.randn(4, 3, 32, 32)
    lenet = SCCD(LeNet(), F.cross_entropy, lr=0.1, example=x)
    assert lenet.net.m == 5  # the paper's blocks are affordable there


@pytest.mark.parametrize("make", [deep, LeNet, lambda: ResNet18(width=4, depth=1)])
@pytest.mark.parametrize("budget", [1.3, 1.0])
def test_every_budget_can_be_kept(make: Any, budget: float) -> None:
    model = make()
    x = batch()[0] if isinstance(model, nn.Sequential) else torch.randn(2, 3, 32, 32)
    opt = SCCD(model, F.cross_entropy, lr=0.1, max_overhead=budget)
    told = pytest.warns(CostWarning, match="leaves one block") if budget > 1 else nullcontext()
    with told:  # a budget that two blocks cannot keep is the simultaneous step
        opt.step(x, torch.zeros(len(x), dtype=torch.long))
    assert opt.net.m == 1
    assert opt.predicted_overhead <= budget


def test_two_blocks_cost_at_least_four_thirds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        costs = rng.exponential(size=6).tolist()
        for start in range(1, 6):
            for order in ("forward", "backward"):
                assert overhead(costs, [0, start], order) >= TWO_BLOCKS


def test_layers_that_share_a_stage_are_not_taken_for_free() -> None:
    def switch(self: Any, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x) if x.detach().sum() > 0 else -layer(x)
        return self.head(x)

    for budget, blocks in [(None, 2), (3.0, 3), (1.0, 1)]:
        layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(5))
        model = written(switch, layers=layers, head=nn.Linear(16, 3))
        opt = SCCD(model, F.cross_entropy, lr=0.1, max_overhead=budget)
        with pytest.warns(CutWarning, match="every block pays for a full pass"):
            opt.step(*batch())
        assert opt.net.m == blocks
        assert opt.predicted_overhead == pytest.approx(blocks)


def test_one_block_a_layer_is_one_word_away_and_its_price_is_said() -> None:
    opt = SCCD(deep(), F.cross_entropy, lr=0.1, blocks="layers")
    assert opt.net.m == 13
    with pytest.warns(CostWarning, match=r"these 13 blocks costs \d+\.\d SGD steps: fewer blocks"):
        opt.step(*batch())
    opt.step(*batch())  # once is enough
    with pytest.raises(ValueError, match="an order of block numbers needs blocks"):
        SCCD(deep(), F.cross_entropy, order=list(range(13)), max_overhead=2.0)
    four = SCCD(deep(), F.cross_entropy, lr=0.1, blocks=4, order=[3, 1, 0, 2])
    four.step(*batch())
    assert four.net.m == 4
    names = [block.name for block in opt.net.blocks]
    for order in (list(range(12, -1, -1)), range(12, -1, -1), np.arange(13), names[::-1]):
        listed = SCCD(deep(), F.cross_entropy, lr=0.1, order=order)
        with pytest.warns(CostWarning):
            listed.step(*batch())
        assert listed.net.m == 13  # numbers and names speak of layers
    with pytest.raises(TypeError, match="order must give block numbers, got '24'"):
        SCCD(deep(), F.cross_entropy, lr=0.1, blocks=4, order=names[::-1])  # merged: no names yet


def test_groups_stay_for_schedulers_and_may_differ_within_a_block() -> None:
    """A block of several layers with their own lr and decay is what its layers would do."""
    model, twin = deep(3).double(), deep(3).double()
    opt = SCCD(model, F.cross_entropy, lr=[0.1, 0.2, 0.0, 0.3], blocks=2)
    assert len(opt.param_groups) == 4
    opt.param_groups[1]["weight_decay"] = 0.5
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    for k in range(4):
        x, y = batch(k)
        x = x.double()
        opt.step(x, y)
        params = dict(twin.named_parameters())
        for block in opt.net.blocks:
            twin.zero_grad()
            F.cross_entropy(twin(x), y).backward()
            with torch.no_grad():
                for name in block.params:
                    layer = int(name.split(".")[0]) // 2
                    lr = [0.1, 0.2, 0.0, 0.3][layer] * 0.5**k
                    decay = 0.5 if layer == 1 else 0.0
                    p = params[name]
                    p.copy_((p - lr * p.grad) / (1 + lr * decay))
        schedule.step()
    assert opt.net.m == 2
    assert "several" in repr(opt)
    close(model, twin, 1e-14)
    opt.param_groups[0]["momentum"] = 0.5
    with pytest.raises(ValueError, match=r"are one block .* but have different momentum"):
        opt.step(x, y)


@pytest.mark.parametrize("cls", [SCCD, VROCCD])
def test_a_resumed_run_takes_the_blocks_it_was_saved_with(cls: Any) -> None:
    options: dict[str, Any] = {"b": 8, "b_small": 2} if cls is VROCCD else {}

    def build(model: nn.Module) -> Any:
        return cls(model, F.cross_entropy, lr=0.1, momentum=0.9, **options)

    model, other = deep(), deep()
    opt = build(model)
    fresh = opt.state_dict()
    for k in range(4):
        opt.step(*batch(k))
    again = build(other)
    again.load_state_dict(fresh)  # from before the first batch: nothing is known yet
    assert again.draws == 0
    other.load_state_dict(model.state_dict())
    again.load_state_dict(opt.state_dict())
    assert [b.params for b in again.net.blocks] == [b.params for b in opt.net.blocks]
    for k in range(4, 8):
        opt.step(*batch(k))
        again.step(*batch(k))
    close(model, other)
    state = opt.state_dict()
    state["cyclade"]["blocks"][-1] = ["24.weight"]
    with pytest.raises(ValueError, match="not made of layers or blocks of this optimizer"):
        again.load_state_dict(state)
