"""A block updated in pieces, a tensor for each parameter, goes where one vector leads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cyclade.optim import SCCD


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize(
    "norms", [{}, {"clip_norm": 0.1}, {"clip_norm": 100.0}, {"adagrad_norm": 0.2},
              {"adagrad_norm": 0.2, "clip_norm": 0.1}], ids=str,
)  # fmt: skip
@pytest.mark.parametrize("order", ["forward", "shuffled", "greedy"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_eager_steps_in_pieces_have_the_bits_of_vectors(
    dtype: torch.dtype, order: str, decay: float, norms: dict[str, float]
) -> None:
    found = []
    for in_pieces in (True, False):
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
                opt.runner.in_pieces = opt.runner.in_pieces if in_pieces else frozenset
            opt.step(x, y)
        found.append([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
