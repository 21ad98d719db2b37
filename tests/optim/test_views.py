"""How an optimizer shows itself: text, and HTML in notebooks."""

from __future__ import annotations

from small_nets import batch, net
from torch import nn

from cyclade.optim import SCCD, SGD


def test_text_and_html_hold_the_same_cells() -> None:
    opt = SCCD(net(), nn.CrossEntropyLoss(), blocks="layers", lr=0.1)
    assert "known after the first step" in repr(opt)
    opt.step(*batch())
    text, html = repr(opt), opt._repr_html_()
    assert "SCCD: 3 blocks, 3 stages (cut by sequential), order forward" in text
    for words in (*(block.name for block in opt.net.blocks), "multiply-adds of a cycle: 1."):
        assert words in text
        assert words in html
    assert html.count("<tr>") == 1 + opt.net.m
    for _ in range(9):
        assert " ms (" not in repr(opt)
        opt.step(*batch())
    assert " ms (median of the last ten steps)" in repr(opt)
    assert "SGD: 1 block, 3 stages" in repr(SGD(net(), nn.CrossEntropyLoss()))
