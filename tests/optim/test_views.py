"""How an optimizer shows itself: text, and HTML in notebooks."""

from __future__ import annotations

from typing import Any

import pytest
from small_nets import RECURSIVE, batch, net, written
from torch import nn

from cyclade.optim import SCCD, SGD, VROCCD, CutWarning


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "steps: adam, lr 0.001, weight_decay 0\n"),
        ({"lr": 0.1, "weight_decay": 5e-4}, "steps: plain, lr 0.1, weight_decay 0.0005\n"),
        ({"lr": 0.1, "momentum": 0.9}, "steps: plain, lr 0.1, weight_decay 0, momentum 0.9\n"),
    ],
)
def test_the_steps_are_shown(options: dict[str, Any], words: str) -> None:
    assert words in repr(SCCD(net(), nn.CrossEntropyLoss(), **options))


def test_blocks_of_a_model_that_runs_whole_cost_alike() -> None:
    def forward(self: Any, x: Any) -> Any:
        return self.b(self.a(x) * (2.0 if x.sum() > 0 else 1.0))

    model = written(forward, a=nn.Linear(6, 8).double(), b=nn.Linear(8, 3).double())
    opt = SCCD(model, nn.CrossEntropyLoss(), blocks="layers")
    with pytest.warns(CutWarning):
        opt.step(*batch())
    assert "1 stage (not cut)" in repr(opt)
    assert repr(opt).count("50.0%") == 2


@pytest.mark.parametrize("cls", RECURSIVE)
def test_batches_that_all_refresh_are_warned_about_once(cls: Any) -> None:
    opt = cls(net(), nn.CrossEntropyLoss(), b=16)
    for _ in range(19):
        opt.step(*batch())
    with pytest.warns(UserWarning, match=r"no variance: give the DataLoader .*PageBatchSampler"):
        opt.step(*batch())
    opt.step(*batch())
    opt.step(*batch(4))
    words = "large batches b = 16, small ones b' = 4; refreshes so far 21, corrections 1"
    assert words in repr(opt)


@pytest.mark.parametrize("meant", [{"refresh": True}, {"b_small": 16}], ids=str)
def test_batches_that_are_meant_to_refresh_are_not_warned_about(meant: dict[str, Any]) -> None:
    refresh = meant.pop("refresh", None)
    opt = VROCCD(net(), nn.CrossEntropyLoss(), b=16, **meant)
    for _ in range(25):
        opt.step(*batch(), refresh=refresh)
