"""Stages on an accelerator: captured in CUDA graphs, and with the device's own generator."""

from __future__ import annotations

import copy

import models
import pytest
import torch
from torch import Tensor, nn

from cyclade.optim.stages import Chain, Env, Inputs, Replay, cut
from cyclade.optim.stages.verifying import verify

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

MAKE = {
    "lenet": (models.LeNet, 32),
    "resnet": (lambda: models.ResNet18(8), 16),
    "vit": (models.ViT, 16),
}


def sweep(chain: Chain, inputs: Inputs, plain: dict[str, Tensor]) -> list[Tensor]:
    """Gradients of every stage's parameters, in forward order."""
    replay = Replay()
    env: Env = chain.start(inputs)
    found: list[Tensor] = []
    for i, stage in enumerate(chain.stages):
        wanted = {name: plain[name].detach().requires_grad_() for name in stage.params}
        at = env
        for k in range(i, len(chain.stages)):
            at = replay.run(k, at, {**plain, **wanted})
        loss = torch.sin(chain.output(at)).sum()
        found += torch.autograd.grad(loss, list(wanted.values()))
        with torch.no_grad():
            env = replay.run(i, env, plain)
    return found


@pytest.mark.parametrize("case", MAKE)
def test_a_cycle_can_be_captured(case: str) -> None:
    make, size = MAKE[case]
    torch.manual_seed(0)
    model = make().cuda()
    x = torch.randn(4, 3, size, size, device="cuda")
    chain = cut(model)
    verify(chain, Inputs((x,)))
    assert not chain.random
    twin = copy.deepcopy(model)
    plain = {name: p.detach() for name, p in model.named_parameters()}
    expected = [g.clone() for g in sweep(chain, Inputs((x,)), plain)]
    moved = {name: b.clone() for name, b in model.named_buffers()}
    model.load_state_dict(twin.state_dict())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        sweep(chain, Inputs((x,)), plain)
    torch.cuda.current_stream().wait_stream(stream)
    model.load_state_dict(twin.state_dict())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = sweep(chain, Inputs((x,)), plain)
    model.load_state_dict(twin.state_dict())
    graph.replay()
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, moved[name])


def test_masks_repeat_on_the_device() -> None:
    model = models.Dropped().cuda()
    x = torch.randn(5, 6, device="cuda")
    chain = cut(model)
    verify(chain, Inputs((x,)))
    before = torch.cuda.get_rng_state()
    with torch.no_grad():
        expected = model(x)
    after = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(before)
    replay = Replay()
    own = dict(model.named_parameters())
    with torch.no_grad():
        for _ in range(3):
            env = chain.start(Inputs((x,)))
            for i in range(len(chain.stages)):
                env = replay.run(i, env, own)
            assert torch.equal(chain.output(env), expected)
            assert torch.equal(torch.cuda.get_rng_state(), after)


def test_moving_to_the_device_after_cutting() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    chain = cut(model)
    model.cuda()
    verify(chain, Inputs((torch.randn(4, 6, device="cuda"),)))
    raw = models.RawAttention()
    chain = cut(raw)
    raw.cuda()
    verify(chain, Inputs((torch.randn(2, 7, 8, device="cuda"),)))
