"""What a user may pass to `step`, turned into micro-batches that count as one batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from cyclade.optim._trees import pytree
from cyclade.optim.net import Batch
from cyclade.optim.stages import Inputs

_IGNORED = -100  # PyTorch's default label of what does not count
_FUNCTIONS = (F.cross_entropy, F.nll_loss)


def as_batches(
    inputs: Any, target: Any, loss_fn: Any, weights: Any = None, count: Count | None = None
) -> list[Batch]:
    """Micro-batches from ``(inputs, target)``, or from a list of such pairs.

    A model that returns its own loss (`loss_fn` is None) takes no target: then the list is of
    inputs. Micro-batches whose labels are all ignored are left out.
    """
    batches, size = as_part(inputs, target, loss_fn, weights, count, alone=True)
    if size == 0:
        raise ValueError("step got an empty batch")
    total = sum(batch.weight for batch in batches)
    if total == 0:
        raise ValueError("no label of this batch counts: all are ignored, or weigh nothing")
    return shares(batches, total)


def as_part(
    inputs: Any,
    target: Any,
    loss_fn: Any,
    weights: Any = None,
    count: Count | None = None,
    alone: bool = False,
) -> tuple[list[Batch], int]:
    """The same for one rank's part of a batch, which may be empty, and its samples.

    The weights are what each micro-batch counts (NaN where losses simply add up): `shares` of the
    whole batch they become once the other ranks have counted theirs. Where all samples are here
    (`alone`) a single micro-batch is not looked at.
    """
    own_loss = loss_fn is None
    if own_loss and target is not None:
        raise ValueError(
            "step got a target, but the optimizer was built without a loss: give it one, "
            "SCCD(model, loss_fn). Without one the model returns its own loss, and all that it "
            "takes is given as inputs"
        )
    pairs = [(inputs, target)]
    if isinstance(inputs, list) and target is None:
        if not inputs:
            raise ValueError("step got an empty list of micro-batches")
        pairs = [(entry, None) if own_loss else _pair(entry) for entry in inputs]
    if not own_loss and any(y is None for _, y in pairs):
        raise ValueError("loss_fn needs a target: step(x, y), or a list of pairs (x, y)")
    sizes = [batch_size(x) if count is None else count(x, y) for x, y in pairs]
    plain = alone and weights is None and len(pairs) == 1
    counts = [1.0] if plain else _counts(loss_fn, pairs, sizes, weights, count)
    found = [
        Batch(as_inputs(x), y, counted, size)
        for (x, y), size, counted in zip(pairs, sizes, counts, strict=True)
        if counted != 0.0
    ]
    return found, sum(sizes)


def shares(batches: list[Batch], total: float) -> list[Batch]:
    """The batches with their shares of what counts in all; 1 each where losses add up (NaN)."""
    return [
        replace(batch, weight=1.0 if math.isnan(total) else batch.weight / total)
        for batch in batches
    ]


def _pair(entry: Any) -> tuple[Any, Any]:
    if isinstance(entry, tuple | list) and len(entry) == 2:
        return entry[0], entry[1]
    return entry, None


def as_inputs(x: Any) -> Inputs:
    """How the model is called: a tuple is spread out, a dict gives keyword arguments."""
    if isinstance(x, Inputs):
        return x
    if isinstance(x, Mapping):
        return Inputs((), dict(x))
    return Inputs(tuple(x) if isinstance(x, tuple) else (x,), {})


def batch_size(x: Any) -> int:
    """The length of the first dimension of the first tensor in `x`."""
    call = as_inputs(x)
    leaves = pytree.tree_leaves((call.args, dict(call.kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if not tensors or tensors[0].dim() == 0:
        raise ValueError("step needs a batch with at least one tensor that has a batch dimension")
    return len(tensors[0])


@dataclass(frozen=True)
class Count:
    """The samples of a (micro-)batch: what a function of the user's says, or the first tensor."""

    given: Callable[[Any], int] | None
    matters: bool  # whether the size of a batch alone decides what is done with it

    def __call__(self, x: Any, y: Any) -> int:
        """The samples of inputs x with target y."""
        if self.given is None:
            if self.matters:
                refuse_odd_sizes(x, y)
            return batch_size(x)
        found = self.given(x)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise ValueError(f"batch_size must return a whole number of samples, got {found!r}")
        return found


def refuse_odd_sizes(x: Any, y: Any) -> None:
    """Refuse a batch whose samples cannot be counted by the first tensor's first dimension."""
    size, inputs = batch_size(x), as_inputs(x)
    for value in pytree.tree_leaves((inputs.args, dict(inputs.kwargs), y)):
        if isinstance(value, Tensor) and value.dim() and size and value.shape[0] % size:
            raise ValueError(
                f"how many samples this batch has cannot be seen: its tensors begin with {size} "
                f"and {value.shape[0]} rows (nodes and graphs, perhaps). Give the optimizer "
                "batch_size=, a function of the inputs, or the step weights= (refresh= for "
                "recursive methods)"
            )


def first_samples(batch: Batch, size: int) -> Batch | None:
    """The first samples of a batch whose tensors all begin with its samples; None for others."""
    leaves, spec = pytree.tree_flatten((batch.inputs.args, dict(batch.inputs.kwargs), batch.target))
    found = []
    for value in leaves:
        if isinstance(value, Tensor) and value.dim():
            if value.shape[0] != batch.size or value.requires_grad:
                return None
            value = value[:size]
        elif value is not None and not isinstance(value, Tensor | bool | float | str):
            return None  # a number may be that of the samples, an object hold them
        found.append(value)
    args, kwargs, target = pytree.tree_unflatten(found, spec)
    return replace(batch, inputs=Inputs(args, kwargs), target=target, size=size)


def _counts(
    loss_fn: Any, pairs: Sequence[tuple[Any, Any]], sizes: Sequence[int], given: Any,
    count: Count | None,
) -> list[float]:  # fmt: skip
    """What each micro-batch counts in a mean; NaN for losses that simply add up.

    A mean over samples counts by their number; PyTorch's losses of labels divide by the labels that
    are not ignored, or by the sum of their class weights. What a loss of the user's does with
    ignored labels cannot be known: then the weights must be `given`.
    """
    if given is not None:
        weights = [float(w) for w in given]
        if len(weights) != len(pairs):
            raise ValueError(f"weights must be one number for each of {len(pairs)} micro-batches")
        if not all(math.isfinite(w) and w >= 0 for w in weights):
            raise ValueError(f"weights must be finite and at least 0, got {weights}")
        return weights
    targets = [_labels(x, y) for x, y in pairs]
    if getattr(loss_fn, "reduction", "mean") == "sum":
        return [math.nan if size else 0.0 for size in sizes]
    ignored = _IGNORED if loss_fn in _FUNCTIONS else getattr(loss_fn, "ignore_index", None)
    if ignored is not None and all(t is not None for t in targets):
        classes = getattr(loss_fn, "weight", None)
        kept = [t[t != ignored] for t in targets if t is not None]
        return [float(t.numel() if classes is None else classes[t].sum()) for t in kept]
    if any(t is not None and bool((t == _IGNORED).any()) for t in targets):
        raise ValueError(
            f"micro-batches with labels {_IGNORED}: how many of them the loss ignores cannot be "
            "seen from outside. Give step(..., weights=[…]), the number of labels that count in "
            "each micro-batch"
        )
    if count is None or count.given is None:
        for x, y in pairs:
            refuse_odd_sizes(x, y)
    return [float(size) for size in sizes]


def _labels(x: Any, y: Any) -> Tensor | None:
    """The whole-number labels of a micro-batch: its target, or the `labels` of its inputs."""
    found = x.get("labels") if y is None and isinstance(x, Mapping) else y
    if isinstance(found, Tensor) and not found.is_floating_point() and not found.is_complex():
        return found
    return None
