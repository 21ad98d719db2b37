"""A block updated in one kernel goes where the operations one after the other lead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_multi_step import RECURSIVE, build, data, epoch, form
from torch import nn

from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD
from cyclade.optim.fused import Step, apply, kernel, launch
from cyclade.optim.multi_step import MultiStep
from cyclade.regularisers import L1


def run(cls: Any, fused: bool, **options: Any) -> tuple[list[torch.Tensor], torch.Tensor, Any]:
    x, y = data("cpu")
    model, opt = build(cls, "cpu", **options)
    form(opt, x, y)
    several = MultiStep(opt, x, y)
    if fused:  # on a CPU there is no such kernel, but the same bookkeeping over `apply`
        opt.runner.fused = lambda: frozenset(range(opt.net.m))
    losses = several.run(*epoch(cls, 0))
    return [p.detach().clone() for p in model.parameters()], losses, opt


@pytest.mark.parametrize("options", [{}, {"order": "backward"}], ids=str)
@pytest.mark.parametrize("cls", [SCCD, SGD, VROCCD, PAGE, VRCCD])
def test_the_same_bits_as_vectors(cls: Any, options: dict[str, Any]) -> None:
    if cls in (SGD, PAGE) and options:
        pytest.skip("one block")
    fused, losses, opt = run(cls, True, **options)
    plain, expected, twin = run(cls, False, **options)
    assert torch.equal(losses, expected)
    for a, b in zip(fused, plain, strict=True):
        assert torch.equal(a, b)
    if cls in RECURSIVE:
        for name in ("g", "lag"):
            for j in range(opt.net.m):
                one, other = (o.runner.slots.get(j, name, list) for o in (opt, twin))
                assert torch.equal(one, other)


def test_only_plain_steps_are_fused() -> None:
    for options, expected in (
        ({}, True), ({"momentum": 0.9}, False), ({"clip_norm": 1.0}, True),
        ({"clip_total_norm": 1.0}, False), ({"adagrad_norm": 0.5}, True),
        ({"precondition": "adam"}, False), ({"no_decay": "biases"}, False),
    ):  # fmt: skip
        x, y = data("cpu")
        _, opt = build(SCCD, "cpu", order="forward", **options)
        MultiStep(opt, x, y).run(*epoch(SCCD, 0))
        found = [opt.runner.steps.in_one_kernel(j) is not None for j in range(opt.net.m)]
        assert found == [expected] * opt.net.m
        assert opt.runner.fused() == frozenset()  # captured steps, but the model is not on CUDA


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
                assert opt.runner.fused() == {0, 1, 2}
                opt.runner.fused = opt.runner.fused if in_place else frozenset
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
        assert opt.runner.fused() == frozenset()


@pytest.mark.skipif(
    not torch.cuda.is_available() or kernel() is None, reason="the kernel needs CUDA and Triton"
)
@pytest.mark.parametrize("kind", ["plain", "clipped", "refresh", "correct"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_kernel_has_the_bits_of_the_operations(dtype: torch.dtype, kind: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator, dtype=dtype).cuda()

    for shapes in ([(6, 3, 5, 5), (6,)], [(7,)], [(40, 31), (2000,), (3, 3)], [(5,)] * 40):
        size = sum(torch.Size(shape).numel() for shape in shapes)
        params, now = ([drawn(*shape) for shape in shapes] for _ in range(2))
        then = [drawn(*shape) for shape in shapes] if kind == "correct" else None
        bare = kind in ("plain", "clipped")
        g, lagged = (None, None) if bare else (drawn(size), drawn(size))
        scale = torch.tensor(0.7, dtype=dtype).cuda() if kind == "clipped" else None
        step = Step(torch.tensor(0.1, dtype=dtype).cuda(), torch.tensor(1.03, dtype=dtype).cuda())
        found = [
            [p.clone() for p in params],
            *(None if a is None else a.clone() for a in (g, lagged)),
        ]
        apply(params, now, then, g, lagged, step, scale)
        launch(found[0], now, then, found[1], found[2], step, scale)
        for a, b in zip([*params, g, lagged], [*found[0], *found[1:]], strict=True):
            assert a is None or torch.equal(a, b)
