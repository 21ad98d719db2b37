"""Micro-batches are one batch, whatever the loss counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_nets import close, net
from torch import Tensor, nn

from cyclade.optim import SCCD, CrossEntropy


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x, y = torch.randn(12, 6, dtype=torch.float64), torch.randint(0, 3, (12,))
    y[[0, 1, 2, 7]] = -100
    return x, y


LOSSES: dict[str, Any] = {
    "functional": F.cross_entropy,
    "module": nn.CrossEntropyLoss(),
    "class weights": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2]).double()),
    "sum": nn.CrossEntropyLoss(reduction="sum"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_ignored_labels_do_not_count(name: str) -> None:
    x, y = data()
    whole, parts = net(), net()
    a, b = (SCCD(model, LOSSES[name], lr=0.01) for model in (whole, parts))
    for _ in range(3):
        first = a.step(x, y)
        second = b.step([(x[:3], y[:3]), (x[3:5], y[3:5]), (x[5:], y[5:])])
        torch.testing.assert_close(first, second, rtol=0, atol=1e-13)
    close(whole, parts, 1e-13)


def test_other_losses_ask_for_the_weights() -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out, y)

    x, y = data()
    parts = [(x[:5], y[:5]), (x[5:], y[5:])]
    with pytest.raises(ValueError, match=r"Give step\(\.\.\., weights="):
        SCCD(net(), loss, lr=0.1).step(parts)
    whole, given = net(), net()
    SCCD(whole, loss, lr=0.1).step(x, y)
    SCCD(given, loss, lr=0.1).step(parts, weights=[2, 6])
    close(whole, given, 1e-13)
    for weights, message in [([1.0], "one number for each of 2"), ([1.0, -1.0], "at least 0"),
                             ([0.0, 0.0], "no label of this batch counts")]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            SCCD(net(), loss, lr=0.1).step(parts, weights=weights)
    with pytest.raises(ValueError, match="no label of this batch counts"):
        SCCD(net(), F.cross_entropy, lr=0.1).step([(x[:1], y[:1]), (x[1:3], y[1:3])])


def test_our_cross_entropy_ignores_no_label() -> None:
    loss, z = CrossEntropy(), torch.randn(4, 3)
    labels = torch.tensor([0, 1, 2, 0])
    assert torch.equal(loss(z, labels), F.cross_entropy(z, labels))
    with pytest.raises(ValueError, match="whole-number labels"):
        loss(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="classes"):
        loss(torch.zeros(3), torch.tensor(0))
    with pytest.raises((IndexError, RuntimeError)):
        loss(torch.zeros(2, 3), torch.tensor([0, -100]))
