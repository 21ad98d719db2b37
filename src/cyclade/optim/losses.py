"""A loss of class labels."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

_NO_LABEL = -(2**31)


class CrossEntropy:
    """The mean cross-entropy of class labels, as `torch.nn.functional.cross_entropy`.

    No label is ignored: −100 is an error here. So no step counts the labels of a batch.

    Example
    -------
    >>> import torch
    >>> CrossEntropy()(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        if output.dim() < 2 or target.is_floating_point():
            raise ValueError(
                "CrossEntropy takes an output of shape (n, classes, ...) and whole-number labels, "
                f"got {tuple(output.shape)} and labels of {target.dtype}"
            )
        return F.cross_entropy(output, target, ignore_index=_NO_LABEL)

    def __repr__(self) -> str:
        return "CrossEntropy()"
