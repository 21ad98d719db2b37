"""resident="block": one block at a time has Adam's state, for some steps in a row."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_nets import batch as small_batch
from small_nets import close
from small_nets import net as small_net
from torch import Tensor, nn

from cyclade.optim import SCCD, SGD

STEPS = 3


net = partial(small_net, 6, 9, 7, 3)


def loss_fn(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, differentiated by autograd alone, as the twin does."""
    return F.cross_entropy(scores, labels)


def batch(k: int, dtype: Any = torch.float64) -> tuple[Tensor, Tensor]:
    return small_batch(16, k, dtype)


def by_adamw(model: nn.Module, turns: list[list[str]], dtype: Any, **options: Any) -> None:
    """The literal twin: a new AdamW for every visit, on a float32 copy where that is wider."""
    named, k = dict(model.named_parameters()), 0
    wide = torch.promote_types(dtype, torch.float32)
    for names in turns:
        masters = [named[name].detach().to(wide, copy=True) for name in names]
        peer = torch.optim.AdamW(masters, lr=0.01, **options)
        for _ in range(STEPS):
            x, y = batch(k, dtype)
            loss = loss_fn(model(x), y)
            found = torch.autograd.grad(loss, [named[name] for name in names])
            for master, g in zip(masters, found, strict=True):
                master.grad = g.to(wide)
            peer.step()
            with torch.no_grad():
                for name, master in zip(names, masters, strict=True):
                    named[name].copy_(master)
            k += 1


def visits(order: Any, m: int, passes: int) -> list[int]:
    generator = np.random.default_rng(0)
    return [j for _ in range(passes) for j in order.turns(m, generator, list)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", ["shuffled", "forward", "backward"])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "betas": (0.5, 0.9)}], ids=str)
def test_visits_are_a_new_adamw_each(order: str, dtype: Any, options: Any) -> None:
    ours, theirs = net(dtype=dtype), net(dtype=dtype)
    opt = SCCD(
        ours, loss_fn, 0.01, resident="block", visit_steps=STEPS, blocks="layers",
        order=order, **{"weight_decay": 0.0, **options},
    )  # fmt: skip
    turns = visits(opt.order, 3, passes=2)
    for k in range(len(turns) * STEPS):
        opt.step(*batch(k, dtype))
    names = [list(block.params) for block in opt.net.blocks]
    by_adamw(theirs, [names[j] for j in turns], dtype, **{"weight_decay": 0.0, **options})
    close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_block_alone_has_state_and_none_has_gradients(dtype: Any) -> None:
    model = net(dtype=dtype)
    opt = SCCD(model, F.cross_entropy, resident="block", visit_steps=STEPS, blocks="layers")
    sizes = [sum(p.numel() for p in opt.net.block_parameters(j)) for j in range(3)]
    copies = 2 if dtype == torch.float32 else 3
    for k in range(20):
        opt.step(*batch(k, dtype))
        held = [t for state in opt.state.values() for t in state.values()]
        wanted = {0} if (k + 1) % STEPS == 0 else {copies * n + 1 for n in sizes}
        assert sum(t.numel() for t in held) in wanted
        assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_run_resumes_inside_a_visit(at: int, dtype: Any) -> None:
    def build() -> tuple[nn.Module, SCCD]:
        model = net(dtype=dtype)
        loss, options = F.cross_entropy, {"visit_steps": STEPS, "blocks": "layers"}
        return model, SCCD(model, loss, resident="block", **options)

    (model, opt), (other, again) = build(), build()
    for k in range(at):
        opt.step(*batch(k, dtype))
    other.load_state_dict(model.state_dict())
    again.load_state_dict(opt.state_dict())
    for k in range(at, at + 12):
        assert torch.equal(opt.step(*batch(k, dtype)), again.step(*batch(k, dtype)))
    close(model, other)


def test_parameters_that_are_changed_within_a_visit_stay_changed() -> None:
    model = net(dtype=torch.bfloat16)
    opt = SCCD(model, F.cross_entropy, 1e-4, resident="block", visit_steps=50, blocks=1)
    opt.step(*batch(0, torch.bfloat16))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    opt.step(*batch(1, torch.bfloat16))
    assert all(float((p - 0.5).abs().max()) < 0.01 for p in model.state_dict().values())


def test_it_says_what_a_step_costs() -> None:
    opt = SCCD(net(), F.cross_entropy, resident="block", example=batch(0)[0])
    assert opt.net.m == 3
    assert type(opt.order).__name__ == "Shuffled"
    assert "one block a step, 50 steps in a row\nmultiply-adds of a step: 0." in repr(opt)


def test_other_optimizers_and_other_visits_refuse_by_name() -> None:
    with pytest.raises(ValueError, match="resident='block' is for SCCD, not for SGD"):
        SGD(net(), F.cross_entropy, resident="block")
    state = SCCD(net(), F.cross_entropy, resident="block", visit_steps=4).state_dict()
    for options in ({"resident": "block"}, {}):
        other = SCCD(net(), F.cross_entropy, **options)
        with pytest.raises(ValueError, match="visit_steps=4"):
            other.load_state_dict(state)
