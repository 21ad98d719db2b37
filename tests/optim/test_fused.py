"""A block updated in one kernel goes where the operations one after the other lead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_multi_step import RECURSIVE, build, data, epoch, form

from cyclade.optim import PAGE, SCCD, SGD, VRCCD, VROCCD
from cyclade.optim.fused import Step, apply, kernel, launch
from cyclade.optim.multi_step import MultiStep


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
        ({}, True), ({"momentum": 0.9}, False), ({"clip_norm": 1.0}, False),
        ({"precondition": "adam"}, False), ({"no_decay": "biases"}, False),
    ):  # fmt: skip
        x, y = data("cpu")
        _, opt = build(SCCD, "cpu", order="forward", **options)
        MultiStep(opt, x, y).run(*epoch(SCCD, 0))
        found = [opt.runner.steps.in_one_kernel(j) is not None for j in range(opt.net.m)]
        assert found == [expected] * opt.net.m
        assert opt.runner.fused() == frozenset()  # the model is not on CUDA


@pytest.mark.skipif(
    not torch.cuda.is_available() or kernel() is None, reason="the kernel needs CUDA and Triton"
)
@pytest.mark.parametrize("kind", ["plain", "refresh", "correct"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_kernel_has_the_bits_of_the_operations(dtype: torch.dtype, kind: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator, dtype=dtype).cuda()

    for shapes in ([(6, 3, 5, 5), (6,)], [(7,)], [(40, 31), (2000,), (3, 3)], [(5,)] * 40):
        size = sum(torch.Size(shape).numel() for shape in shapes)
        params, now = ([drawn(*shape) for shape in shapes] for _ in range(2))
        then = [drawn(*shape) for shape in shapes] if kind == "correct" else None
        g, lagged = (None, None) if kind == "plain" else (drawn(size), drawn(size))
        step = Step(torch.tensor(0.1, dtype=dtype).cuda(), torch.tensor(1.03, dtype=dtype).cuda())
        found = [
            [p.clone() for p in params],
            *(None if a is None else a.clone() for a in (g, lagged)),
        ]
        apply(params, now, then, g, lagged, step)
        launch(found[0], now, then, found[1], found[2], step)
        for a, b in zip([*params, g, lagged], [*found[0], *found[1:]], strict=True):
            assert a is None or torch.equal(a, b)
