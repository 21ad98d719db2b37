"""How an optimizer shows itself: text, HTML in notebooks, a picture."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cyclade.optim import SCCD

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def small() -> SCCD:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return SCCD(model, nn.CrossEntropyLoss(), blocks="layers")


def test_text_and_html_hold_the_same_cells() -> None:
    opt = small()
    opt.step(torch.randn(5, 4), torch.randint(0, 3, (5,)))
    text, html = repr(opt), opt._repr_html_()
    for block in opt.net.blocks:
        assert block.name in text
        assert block.name in html
    assert "multiply-adds of a cycle: 1." in text
    assert "multiply-adds of a cycle: 1." in html
    assert html.count("<tr>") == 1 + opt.net.m


def test_plot_has_costs_once_they_are_known() -> None:
    from matplotlib import pyplot as plt

    opt = small()
    assert len(opt.plot().containers) == 1
    opt.step(torch.randn(5, 4), torch.randint(0, 3, (5,)))
    ax = plt.subplots()[1]
    assert opt.plot(ax) is ax
    shares = [[bar.get_width() for bar in bars] for bars in ax.containers]
    assert len(shares) == 2
    assert all(abs(sum(share) - 1) < 1e-6 for share in shares)
    plt.close("all")
