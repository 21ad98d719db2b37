"""Batches of PAGE, VRO-CCD and VR-CCD: large ones that refresh the estimates, and small ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from cyclade._checks import whole_number
from cyclade.ranks import Ranks, initialised
from cyclade.sampling.samplers import FiniteSum, Page, coin

DEFAULT_B = 64
"""The large batches of a net where no b is given (`docs/benchmarks/nets.md`)."""


class PageBatchSampler(Sampler[list[int]]):
    """Batches for PAGE, VRO-CCD and VR-CCD: b fresh indices with probability p, else b'.

    With b alone the others are the paper's: b' = ⌊√b⌋ and p = b'/(b + b'). Without b they are 64
    and 16, as in the optimizers.

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
        b: int | None = None,
        b_small: int | None = None,
        p: float | None = None,
        *,
        seed: int = 0,
        batches: int | None = None,
        process_group: Any = None,
    ) -> None:
        b, b_small = default_sizes(b, b_small, n)
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
        return sample.tolist() if isinstance(sample, np.ndarray) else list(range(self.n))

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


def default_sizes(
    b: int | None, b_small: int | None, n: float = math.inf
) -> tuple[int, int | None]:
    """b and b' as given. Without b, sizes that train nets: 64 (or n), and twice the paper's b'."""
    if b is not None:
        return b, b_small
    b = int(min(n, DEFAULT_B))
    return b, min(2 * math.isqrt(b), b) if b_small is None else b_small


def page_sizes(b: int | None, b_small: int | None) -> tuple[int, int]:
    """b and b' of an optimizer, checked."""
    b, b_small = default_sizes(b, b_small)
    b = whole_number("b", b, 1)
    page = Page(FiniteSum(b), b, b_small)
    return page.b, page.b_small
