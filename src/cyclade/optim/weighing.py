"""How much each micro-batch counts, so that together they are one batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

_IGNORED = -100  # PyTorch's default label of what does not count
_FUNCTIONS = (F.cross_entropy, F.nll_loss)


def micro_batch_weights(
    loss_fn: Any, pairs: Sequence[tuple[Any, Any]], sizes: Sequence[int], given: Any = None
) -> list[float]:
    """The factor of each micro-batch's loss, where together they are the batch."""
    if given is None and len(pairs) == 1:
        return [1.0]
    counts = micro_batch_counts(loss_fn, pairs, sizes, given)
    return [1.0] * len(pairs) if counts is None else _shares(counts)


def micro_batch_counts(
    loss_fn: Any, pairs: Sequence[tuple[Any, Any]], sizes: Sequence[int], given: Any = None
) -> list[float] | None:
    """What each micro-batch counts in a mean; None for losses that simply add up.

    A mean over samples counts by their number; PyTorch's losses of labels divide by the labels that
    are not ignored, or by the sum of their class weights; sums simply add up. What a loss of the
    user's does with ignored labels cannot be known: then the weights must be `given`.
    """
    if given is not None:
        return _checked(given, len(pairs))
    targets = [_labels(x, y) for x, y in pairs]
    if getattr(loss_fn, "reduction", "mean") == "sum":
        return None
    ignored = _IGNORED if loss_fn in _FUNCTIONS else getattr(loss_fn, "ignore_index", None)
    if ignored is not None and all(t is not None for t in targets):
        classes = getattr(loss_fn, "weight", None)
        return [_counted(t, ignored, classes) for t in targets if t is not None]
    if any(t is not None and bool((t == _IGNORED).any()) for t in targets):
        raise ValueError(
            f"micro-batches with labels {_IGNORED}: how many of them the loss ignores cannot be "
            "seen from outside. Give step(..., weights=[…]), the number of labels that count in "
            "each micro-batch"
        )
    return [float(size) for size in sizes]


def _labels(x: Any, y: Any) -> Tensor | None:
    """The whole-number labels of a micro-batch: its target, or the `labels` of its inputs."""
    found = x.get("labels") if y is None and isinstance(x, Mapping) else y
    if isinstance(found, Tensor) and not found.is_floating_point() and not found.is_complex():
        return found
    return None


def _counted(target: Tensor, ignored: int, classes: Tensor | None) -> float:
    kept = target[target != ignored]
    return float(kept.numel() if classes is None else classes[kept].sum())


def _checked(given: Any, count: int) -> list[float]:
    weights = [float(w) for w in given]
    if len(weights) != count:
        raise ValueError(f"weights must be one number for each of {count} micro-batches")
    if not all(math.isfinite(w) and w >= 0 for w in weights):
        raise ValueError(f"weights must be finite and at least 0, got {weights}")
    return weights


def _shares(counts: list[float]) -> list[float]:
    total = sum(counts)
    if not total > 0:
        raise ValueError("no label of this batch counts: all are ignored, or weigh nothing")
    return [count / total for count in counts]
