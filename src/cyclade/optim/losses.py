"""Losses that know their slope."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cyclade.optim.stages.structure import hooked

_NO_LABEL = -(2**31)


def slope_of(loss_fn: Any) -> Any:
    """The `slope` of a loss, if it belongs to its value.

    A subclass that overrides the value but not the slope has none: it would be that of its parent.
    PyTorch's cross-entropy, as a function or as a module with plain options, has `torch_slope`.
    """
    if loss_fn is F.cross_entropy:
        return torch_slope
    if type(loss_fn) is nn.CrossEntropyLoss:
        plain = loss_fn.weight is None and loss_fn.reduction == "mean"
        if not plain or loss_fn.label_smoothing or hooked(loss_fn):
            return None
        return partial(torch_slope, ignored=loss_fn.ignore_index)
    if loss_fn is None or "slope" in getattr(loss_fn, "__dict__", {}):
        return getattr(loss_fn, "slope", None)
    for cls in type(loss_fn).__mro__:
        if "slope" in vars(cls):
            return loss_fn.slope
        if "__call__" in vars(cls) or "forward" in vars(cls):
            return None
    return None


def torch_slope(target: Tensor, output: Tensor, ignored: int = -100) -> Callable[[Tensor], Tensor]:
    """The derivative of `F.cross_entropy` in the output, for labels or probabilities of classes.

    With w_i = 1 / #(labels that are not ignored), and 0 for the ignored ones, it is
    w_i (softmax(z_i)_c − [c = y_i]); for probabilities t_i, (softmax(z_i)_c Σ_c t_ic − t_ic) / n.
    """
    classes = 0 if output.dim() == 1 else 1
    exact = torch.promote_types(output.dtype, torch.float32)  # as autocast has it
    if target.is_floating_point():
        n = output.numel() // output.shape[classes]
        hot = target.to(exact) / -n
        share = -hot.sum(classes, keepdim=True)
    else:
        labels = target.unsqueeze(classes)
        counts = labels != ignored
        share = counts / counts.sum(dtype=exact)
        hot = torch.zeros_like(output, dtype=exact)
        hot.scatter_(classes, labels.where(counts, 0), -share)

    def at(z: Tensor) -> Tensor:
        return torch.addcmul(hot, torch.softmax(z, classes, dtype=exact), share).to(z.dtype)

    return at


class CrossEntropy:
    """The mean cross-entropy of class labels, as `torch.nn.functional.cross_entropy`, but quicker.

    A cycle differentiates the loss once for every block and needs its value once. For the rest this
    loss gives its slope at the output z directly,

        ∂/∂z_ic (1/n) Σ_i −log softmax(z_i)_{y_i} = (softmax(z_i)_c − [c = y_i]) / n,

    which is two small kernels instead of five. No label is ignored: −100 is an error here.

    Any loss may do the same: ``slope(target, output)`` is called once for a batch, may keep what
    depends on the target alone, and returns the function from output to derivative.

    Example
    -------
    >>> import torch
    >>> loss, z = CrossEntropy(), torch.zeros(2, 4)
    >>> y = torch.tensor([0, 3])
    >>> loss(z, y)
    tensor(1.3863)
    >>> loss.slope(y, z)(z)
    tensor([[-0.3750,  0.1250,  0.1250,  0.1250],
            [ 0.1250,  0.1250,  0.1250, -0.3750]])
    """

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        if output.dim() < 2 or target.is_floating_point():
            raise ValueError(
                "CrossEntropy takes an output of shape (n, classes, ...) and whole-number labels, "
                f"got {tuple(output.shape)} and labels of {target.dtype}"
            )
        return F.cross_entropy(output, target, ignore_index=_NO_LABEL)

    def slope(self, target: Tensor, output: Tensor) -> Callable[[Tensor], Tensor]:
        """The derivative of the loss in the output, for these labels."""
        share = 1.0 / target.numel()
        exact = torch.promote_types(output.dtype, torch.float32)  # as autocast has it
        hot = torch.zeros_like(output, dtype=exact).scatter_(1, target.unsqueeze(1), -share)

        def at(z: Tensor) -> Tensor:
            return torch.add(hot, torch.softmax(z, 1, dtype=exact), alpha=share).to(z.dtype)

        return at

    def __repr__(self) -> str:
        return "CrossEntropy()"
