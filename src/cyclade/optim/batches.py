"""What a user may pass to `step`, turned into micro-batches; and the PAGE batch sampler."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Sampler

from cyclade.optim.net import Batch
from cyclade.optim.stages import Inputs
from cyclade.optim.weighing import micro_batch_counts, micro_batch_weights
from cyclade.ranks import Ranks, initialised
from cyclade.samplers import FiniteSum, Page, coin


def as_batches(inputs: Any, target: Any, loss_fn: Any, weights: Any = None) -> list[Batch]:
    """Micro-batches from ``(inputs, target)``, or from a list of such pairs.

    A model that returns its own loss (`loss_fn` is None) takes no target: then the list is of
    inputs. Micro-batches whose labels are all ignored are left out.
    """
    pairs, sizes = _pairs(inputs, target, loss_fn)
    if sum(sizes) == 0:
        raise ValueError("step got an empty batch")
    return _weighed(pairs, sizes, micro_batch_weights(loss_fn, pairs, sizes, weights))


def as_part(inputs: Any, target: Any, loss_fn: Any, weights: Any = None) -> tuple[list[Batch], int]:
    """The same for one rank's part of a batch, which may be empty, and its samples.

    The weights are what each micro-batch counts (NaN where losses simply add up): shares of the
    whole batch they become once the other ranks have counted theirs.
    """
    pairs, sizes = _pairs(inputs, target, loss_fn)
    counts = micro_batch_counts(loss_fn, pairs, sizes, weights)
    if counts is None:
        counts = [math.nan if size else 0.0 for size in sizes]
    return _weighed(pairs, sizes, counts), sum(sizes)


def _pairs(inputs: Any, target: Any, loss_fn: Any) -> tuple[list[tuple[Any, Any]], list[int]]:
    """Inputs and target of each micro-batch, and their samples."""
    own_loss = loss_fn is None
    if own_loss and target is not None:
        raise ValueError(
            "step got a target, but the optimizer was built without a loss: give it one, "
            "SCCD(model, loss_fn). Without one the model returns its own loss, and all that it "
            "takes is given as inputs"
        )
    if isinstance(inputs, list) and target is None:
        if not inputs:
            raise ValueError("step got an empty list of micro-batches")
        pairs = [(entry, None) if own_loss else _pair(entry) for entry in inputs]
    else:
        pairs = [(inputs, target)]
    if not own_loss and any(y is None for _, y in pairs):
        raise ValueError("loss_fn needs a target: step(x, y), or a list of pairs (x, y)")
    return pairs, [batch_size(x) for x, _ in pairs]


def _weighed(pairs: list[tuple[Any, Any]], sizes: list[int], weights: list[float]) -> list[Batch]:
    return [
        Batch(as_inputs(x), y, weight, size)
        for (x, y), size, weight in zip(pairs, sizes, weights, strict=True)
        if weight != 0.0
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
    first = first_tensor(x)
    if first is None or first.dim() == 0:
        raise ValueError("step needs a batch with at least one tensor that has a batch dimension")
    return int(first.shape[0])


def first_tensor(x: Any) -> Tensor | None:
    """The first tensor in a nest of tuples, lists and dicts."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Inputs):
        return first_tensor([x.args, x.kwargs])
    values = x.values() if isinstance(x, Mapping) else x if isinstance(x, tuple | list) else ()
    for value in values:
        found = first_tensor(value)
        if found is not None:
            return found
    return None


class PageBatchSampler(Sampler[list[int]]):
    """Batches for PAGE, VRO-CCD and VR-CCD: b fresh indices with probability p, else b'.

    The first batch ever drawn is a large one, for g_{−1}. Draw k is a function of (seed, k) alone,
    so a run resumes exactly: set `position` to the number of batches used so far (the optimizer's
    `draws`), whatever a `DataLoader` with workers had fetched ahead. One pass (`len`) is as many
    batches as cost n samples on average, counted as the paper counts: a small batch is b' samples.

    Under torch.distributed every rank of `process_group` (None: the initialised one; False: none)
    gets its part of each batch, which is drawn with the first rank's seed.

    Example
    -------
    >>> sampler = PageBatchSampler(1000, b=100, seed=0)
    >>> sampler
    PageBatchSampler(n=1000, b=100, b_small=10, p=0.0909, seed=0)
    >>> [len(batch) for batch in sampler][:4]  # the first is for g_{−1}
    [100, 10, 100, 10]
    """

    def __init__(
        self,
        n: int,
        b: int,
        b_small: int | None = None,
        p: float | None = None,
        *,
        seed: int = 0,
        batches: int | None = None,
        process_group: Any = None,
    ) -> None:
        page = Page(n, b, b_small, p)
        self.n, self.b, self.b_small, self.p = n, page.b, page.b_small, page.p
        self._rank, self._ranks, self.seed = _shared_seed(process_group, seed)
        if self.b_small < self._ranks:
            raise ValueError(
                f"b_small = {self.b_small} has not a part for each of {self._ranks} ranks: give a "
                "larger b_small"
            )
        self.position = 0
        cost = self.p * self.b + (1 - self.p) * self.b_small
        self.batches = max(1, round(n / cost)) if batches is None else batches

    def __repr__(self) -> str:
        return (
            f"PageBatchSampler(n={self.n}, b={self.b}, b_small={self.b_small}, p={self.p:.3g}, "
            f"seed={self.seed})"
        )

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.batches):
            k = self.position
            self.position += 1
            yield self.draw(k)[self._rank :: self._ranks]

    def draw(self, k: int) -> list[int]:
        """Batch number k, whole."""
        rng = np.random.default_rng([self.seed, k])
        large = k == 0 or coin(rng, self.p)
        sample = FiniteSum(self.n).take(self.b if large else self.b_small, rng)
        indices: list[int] = (
            list(range(self.n)) if not hasattr(sample, "tolist") else sample.tolist()
        )
        return indices

    def state_dict(self) -> dict[str, Any]:
        """Where the sampler stands. With workers, set `position` from the optimizer instead."""
        return {"seed": self.seed, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand there again."""
        self.seed, self.position = int(state["seed"]), int(state["position"])


def _shared_seed(process_group: Any, seed: int) -> tuple[int, int, int]:
    """This process's rank, the number of ranks, and the seed that they share."""
    if process_group is False or (process_group is None and not initialised()):
        return 0, 1, seed
    ranks = Ranks(process_group)
    return ranks.rank, ranks.size, int(ranks.first(seed))


def page_sizes(b: int | None, b_small: int | None) -> tuple[int, int]:
    """b and b' of an optimizer, checked, with the default b' = ⌊√b⌋."""
    if b is not None and (isinstance(b, bool) or not isinstance(b, int) or b < 1):
        raise ValueError(f"b must be a whole number of samples, at least 1, got {b!r}")
    if b is None:
        raise ValueError(
            "give b=, the size of a large batch, so that step can tell it from a small one"
        )
    page = Page(FiniteSum(b), b, b_small)
    return page.b, page.b_small
