"""Gradients that are convolutions are those of `nn.Conv2d`."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cyclade.experiments.convolution import ByConvolutions


def parts() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 2, 7, 7), (4, 2, 3, 3), (4,))
    made = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    return tuple(t.requires_grad_() for t in made)


def test_value_and_gradients_are_those_of_conv2d() -> None:
    x, W, b = parts()
    ours, theirs = ByConvolutions.apply(x, W, b), F.conv2d(x, W, b)
    torch.testing.assert_close(ours, theirs)
    weights = torch.arange(ours.numel(), dtype=torch.float64).view_as(ours).sin()
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), (x, W, b)),
        torch.autograd.grad((theirs * weights).sum(), (x, W, b)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_gradients_can_be_differentiated_again() -> None:
    assert torch.autograd.gradgradcheck(ByConvolutions.apply, parts())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="large batches go another way on CUDA")
def test_large_batches_on_cuda_have_the_gradients_of_small_ones() -> None:
    from cyclade.experiments.networks import network

    model = network("cifar10").cuda().double()
    x = torch.randn(256, 3, 32, 32, device="cuda", dtype=torch.float64)
    y = torch.randint(0, 10, (256,), device="cuda")
    large = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    halves = [
        torch.autograd.grad(F.cross_entropy(model(a), b), list(model.parameters()))
        for a, b in zip(x.split(64), y.split(64), strict=True)
    ]
    for whole, *pieces in zip(large, *halves, strict=True):
        torch.testing.assert_close(whole, sum(pieces) / 4)
