"""A cycle in pieces, one for every turn, is the cycle, in whatever order."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import close, written
from torch import nn

from cyclade.optim import PAGE, SCCD, VROCCD
from cyclade.optim.capture.graphs import Recorder
from cyclade.optim.capture.turn_graphs import TurnGraphs
from cyclade.optim.stages import CutWarning

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="CUDA graphs need CUDA"))]  # fmt: skip
STEPS = 12


def net(device: str) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 20)]
    return nn.Sequential(*layers, nn.Tanh(), nn.Linear(20, 5)).to(device, torch.float64)


def skips(device: str) -> nn.Module:
    """A value that passes over several blocks."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        kept = torch.tanh(self.a(x))
        return self.head(self.c(torch.tanh(self.b(kept))) + kept + x)

    torch.manual_seed(0)
    a, b, c = (nn.Linear(6, 6) for _ in range(3))
    model = written(forward, a=a, b=b, c=c, head=nn.Linear(6, 5))
    return model.to(device, torch.float64)


def batch(model: nn.Module, k: int, device: str) -> Any:
    generator = torch.Generator().manual_seed(k)
    shape = (16, 3, 8, 8) if isinstance(model, nn.Sequential) else (16, 6)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)
    return x, torch.randint(0, 5, (16,), generator=generator).to(device)


def build(model: nn.Module, capture: bool, **options: Any) -> SCCD:
    options |= {"lr": 0.05, "weight_decay": 1e-3, "blocks": "layers"}
    return SCCD(model, F.cross_entropy, capture=capture, **options)


def train(make: Any, device: str, pieces: bool, halves: bool, **options: Any) -> Any:
    torch.backends.cudnn.deterministic = True
    model = make(device)
    captured = pieces and device == "cuda"
    opt = build(model, captured, **options)
    losses = []
    for k in range(STEPS):
        if pieces and device == "cpu" and k == 1:  # from the second step on, without graphs
            opt.runner.graphs = TurnGraphs(opt.runner, None)
        x, y = batch(model, k, device)
        losses.append(opt.step([(x[:8], y[:8]), (x[8:], y[8:])]) if halves else opt.step(x, y))
    return model, torch.stack(losses), opt


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("make", "order", "halves", "options"), [
    (net, "shuffled", False, {}), (net, "shuffled", False, {"momentum": 0.9}),
    (net, "rotated", False, {"precondition": "adam", "eps": 1.0}), (skips, "shuffled", False, {}),
    (skips, "random", False, {"precondition": "spectral"}), (net, "shuffled", True, {}),
    (skips, "reflected", False, {"momentum": 0.9}),
], ids=lambda v: getattr(v, "__name__", str(v)))  # fmt: skip
def test_pieces_are_the_cycle(
    order: str, halves: bool, options: Any, make: Any, device: str
) -> None:
    model, losses, opt = train(make, device, True, halves, order=order, **options)
    twin, expected, _ = train(make, device, False, halves, order=order, **options)
    if device == "cuda":
        assert len(opt.runner.graphs) > opt.net.m
    torch.testing.assert_close(losses, expected, atol=1e-12, rtol=1e-12)
    for (name, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12, msg=name)


def test_a_loss_keeps_its_value() -> None:
    """Graphs share their memory: a loss that lay there would be written over by later turns."""
    model = skips("cpu")
    opt = SCCD(model, F.cross_entropy, blocks="layers", order="shuffled")
    opt.step(*batch(model, 0, "cpu"))
    opt.runner.graphs = TurnGraphs(opt.runner, None)
    first = opt.step(*batch(model, 0, "cpu"))
    value = first.clone()
    assert not torch.equal(opt.step(*batch(model, 1, "cpu")), first)
    assert torch.equal(first, value)


def test_a_state_is_taken_up_in_pieces() -> None:
    model, _, opt = train(net, "cpu", True, False, order="shuffled", momentum=0.9)
    other = net("cpu")
    other.load_state_dict(model.state_dict())
    again = build(other, False, order="shuffled", momentum=0.9)
    again.load_state_dict(copy.deepcopy(opt.state_dict()))
    for k in range(5):
        opt.step(*batch(model, k, "cpu"))
        again.step(*batch(model, k, "cpu"))
    close(model, other, 1e-12, rtol=1e-12)


class Counts(nn.Module):
    """Its output depends on a buffer that it moves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


@pytest.mark.skipif(not torch.cuda.is_available(), reason="capture=True needs CUDA")
def test_captured_adam_takes_new_orders_by_default() -> None:
    for options in ({"precondition": "adam"}, {"momentum": 0.9}):
        opt = SCCD(net("cuda"), F.cross_entropy, capture=True, **options)
        assert type(opt.order).__name__ == "Shuffled"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="capture=True needs CUDA")
def test_what_pieces_cannot_do_is_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 5)).cuda()
    for cls in (VROCCD, PAGE):
        with pytest.raises(ValueError, match="needs an order that stays"):
            cls(model, F.cross_entropy, b=8, order="shuffled", capture=True)
    counts = nn.Sequential(nn.Linear(6, 6), Counts(), nn.Linear(6, 5)).cuda()
    x, y = torch.randn(4, 6).cuda(), torch.zeros(4, dtype=torch.int64).cuda()
    with (
        pytest.warns(CutWarning),
        pytest.raises(ValueError, match=r"buffers that they move|random masks"),
    ):
        SCCD(counts, F.cross_entropy, order="shuffled", capture=True).step(x, y)


def test_only_such_models_repeat() -> None:
    opt = SCCD(nn.Sequential(nn.Linear(6, 6), Counts(), nn.Linear(6, 5)), F.cross_entropy)
    assert not opt.net.chain.repeatable
    assert SCCD(net("cpu"), F.cross_entropy).net.chain.repeatable
    assert Recorder.WARMUP > 0


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "-o", "addopts="]))
