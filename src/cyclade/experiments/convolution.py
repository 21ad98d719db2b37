"""A convolution whose gradients are convolutions, where that is what a GPU does best."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 128
"""Images in a batch. For fewer, the gradients of cuDNN take no longer."""


class Convolution(nn.Conv2d):
    """`nn.Conv2d` with stride 1 and no padding; for large batches on CUDA its gradients are

        ∂/∂x = (∂/∂y, padded) ∗ flipped W   and   ∂/∂W = x ∗ (∂/∂y), over images for channels.

    Of cuDNN's kernels for gradients, the one that repeats its bits and that it picks for LeNet's
    second layer takes twice the time of these two.
    """

    draws_random_numbers = False  # so that a cycle can be captured

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__(inputs, outputs, size)

    def forward(self, input: Tensor) -> Tensor:
        """The convolution."""
        if input.is_cuda and len(input) >= LARGE and torch.is_grad_enabled():
            found: Tensor = ByConvolutions.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return found
        return super().forward(input)


class ByConvolutions(torch.autograd.Function):
    """x, W, b ↦ x ∗ W + b. The backward pass can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """The convolution."""
        ctx.save_for_backward(x, W)
        return F.conv2d(x, W, b)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients that are wanted."""
        x, W = ctx.saved_tensors
        dx = dW = db = None
        if ctx.needs_input_grad[0]:
            dx = _convolve(dy, W.flip(2, 3).transpose(0, 1), W.shape[-1] - 1)
        if ctx.needs_input_grad[1]:
            dW = F.conv2d(x.transpose(0, 1), dy.transpose(0, 1)).transpose(0, 1)
        if ctx.needs_input_grad[2]:
            db = dy.sum((0, 2, 3))
        return dx, dW, db


def _convolve(x: Tensor, W: Tensor, padding: int) -> Tensor:
    """x ∗ W, in TF32 if products of matrices are."""
    cudnn, tf32 = torch.backends.cudnn, torch.backends.cuda.matmul.allow_tf32
    found: Tensor = torch._convolution(
        x, W, None, [1, 1], [padding, padding], [1, 1], False, [0, 0], 1,
        cudnn.benchmark, cudnn.deterministic, cudnn.enabled, tf32,
    )  # fmt: skip
    return found
