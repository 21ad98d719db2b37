"""A loss with a slope gives the trajectories of the same loss without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD, CrossEntropy
from cyclade.optim.net import slope_of, torch_slope


def model() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 4)]
    return nn.Sequential(*layers).double()


def trajectory(method: Any, loss: Any, cycles: int = 40) -> list[torch.Tensor]:
    net, generator = model(), torch.Generator().manual_seed(1)
    recursive = {"b": 20, "b_small": 4} if method in (PAGE, VRCCD, VROCCD) else {}
    optimizer = method(net, loss, lr=0.05, weight_decay=1e-3, **recursive)
    points = []
    for k in range(cycles):
        n = 20 if not recursive or k % 8 == 0 else 4
        x = torch.randn(n, 6, generator=generator, dtype=torch.float64)
        y = torch.randint(0, 4, (n,), generator=generator)
        half = n // 2
        pairs = [(x[:half], y[:half]), (x[half:], y[half:])]  # in micro-batches
        value = optimizer.step(pairs)
        points.append(torch.cat([value[None], *(p.detach().reshape(-1) for p in net.parameters())]))
    return points


@pytest.mark.parametrize(
    "loss",
    [CrossEntropy(), F.cross_entropy, nn.CrossEntropyLoss()],
    ids=["ours", "function", "module"],
)
@pytest.mark.parametrize("method", [SGD, SCCD, PAGE, VROCCD, VRCCD], ids=lambda m: m.__name__)
def test_slopes_change_no_trajectory(method: Any, loss: Any) -> None:
    with_slope = trajectory(method, loss)
    without = trajectory(method, lambda z, y: F.cross_entropy(z, y))
    for one, other in zip(with_slope, without, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_half_precision_goes_back_as_it_came() -> None:
    z, y = torch.randn(4, 3, dtype=torch.bfloat16), torch.tensor([0, 1, 2, 0])
    slope = CrossEntropy().slope(y, z)(z)
    assert slope.dtype == torch.bfloat16
    exact = CrossEntropy().slope(y, z.float())(z.float())
    torch.testing.assert_close(slope.float(), exact, rtol=1e-2, atol=1e-3)


def test_what_it_does_not_take_is_an_error() -> None:
    loss = CrossEntropy()
    with pytest.raises(ValueError, match="whole-number labels"):
        loss(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="classes"):
        loss(torch.zeros(3), torch.tensor(0))
    with pytest.raises((IndexError, RuntimeError)):
        loss(torch.zeros(2, 3), torch.tensor([0, -100]))


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 4, 3), (2, 4, 3, 2)], ids=str)
@pytest.mark.parametrize("labels", ["labels", "some ignored", "probabilities"])
def test_the_slope_of_torch_is_its_gradient(shape: tuple[int, ...], labels: str) -> None:
    torch.manual_seed(0)
    z = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, 4, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if labels == "some ignored" and y.dim():
        y[0] = 1 if y.dim() == 1 else y[0]
        y[-1] = -100
    if labels == "probabilities":
        y = torch.rand(shape, dtype=torch.float64)  # they need not sum to 1
    (expected,) = torch.autograd.grad(F.cross_entropy(z, y), z)
    torch.testing.assert_close(torch_slope(y, z.detach())(z.detach()), expected)
    if labels == "labels" and len(shape) > 1:
        torch.testing.assert_close(CrossEntropy().slope(y, z.detach())(z.detach()), expected)


@pytest.mark.parametrize("options", [
    {"label_smoothing": 0.1}, {"weight": torch.ones(4)}, {"reduction": "sum"},
], ids=str)  # fmt: skip
def test_other_cross_entropies_have_no_slope(options: dict[str, Any]) -> None:
    assert slope_of(nn.CrossEntropyLoss(**options)) is None
    hooked = nn.CrossEntropyLoss()
    hooked.register_forward_hook(lambda *_: None)
    assert slope_of(hooked) is None
    assert slope_of(nn.CrossEntropyLoss(ignore_index=3)) is not None
