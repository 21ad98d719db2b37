"""A loss that knows its slope."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from cyclade.optim.net import torch_slope

_NO_LABEL = -(2**31)


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
        return torch_slope(target, output, _NO_LABEL)

    def __repr__(self) -> str:
        return "CrossEntropy()"
