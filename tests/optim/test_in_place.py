"""A block updated where it lies goes where the operations on vectors lead."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_multi_step import build, data, epoch
from torch import nn

from cyclade.optim import SCCD, VROCCD
from cyclade.optim.multi_step import MultiStep
from cyclade.regularisers import L1


def test_only_plain_eager_steps_are_made_in_place() -> None:
    for options, expected in (
        ({}, True), ({"momentum": 0.9}, False), ({"clip_norm": 1.0}, True),
        ({"clip_total_norm": 1.0}, False), ({"adagrad_norm": 0.5}, True),
        ({"precondition": "adam"}, False), ({"no_decay": "biases"}, False),
    ):  # fmt: skip
        x, y = data("cpu")
        _, opt = build(SCCD, "cpu", order="forward", **options)
        opt.step(x[:8], y[:8])
        assert opt.runner.in_pieces() == (set(range(opt.net.m)) if expected else set())
        MultiStep(opt, x, y).run(*epoch(SCCD, 0))
        assert opt.runner.in_pieces() == set()  # its rates lie on the device


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize(
    "norms", [{}, {"clip_norm": 0.1}, {"clip_norm": 100.0}, {"adagrad_norm": 0.2},
              {"adagrad_norm": 0.2, "clip_norm": 0.1}], ids=str,
)  # fmt: skip
@pytest.mark.parametrize("order", ["forward", "shuffled", "greedy"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_eager_steps_in_place_have_the_bits_of_vectors(
    dtype: torch.dtype, order: str, decay: float, norms: dict[str, float]
) -> None:
    found = []
    for in_place in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Linear(4, 3)).to(
            dtype
        )
        x, y = torch.randn(20, 6, dtype=dtype), torch.randint(0, 3, (20,))
        opt = SCCD(
            model, F.cross_entropy, lr=0.3, weight_decay=decay, blocks="layers", order=order,
            **norms,
        )  # fmt: skip
        for k in range(4):
            if k == 1:
                assert opt.runner.in_pieces() == {0, 1, 2}
                opt.runner.in_pieces = opt.runner.in_pieces if in_place else frozenset
            opt.step(x, y)
        found.append([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_eager_steps_that_need_vectors() -> None:
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))
    for cls, options in (
        (VROCCD, {"b": 8}), (SCCD, {"momentum": 0.9}), (SCCD, {"reg": L1(0.1)}),
        (SCCD, {"no_decay": "biases", "weight_decay": 0.1}), (SCCD, {"lr": torch.tensor(0.1)}),
    ):  # fmt: skip
        opt = cls(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)), F.cross_entropy, **options)
        opt.step(x, y)
        assert opt.runner.in_pieces() == frozenset()
