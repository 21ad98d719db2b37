"""Which images each step sees: an epoch at a time, a pure function of the seed and the epoch.

The indices are drawn on the host, so that they are the same on every device; they go to the device
once an epoch, and the images are gathered there, several batches at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cyclade.experiments.data import Split
from cyclade.sampling.samplers import Page, coin

Indices = np.ndarray[Any, np.dtype[np.int64]]

_SHUFFLE, _COINS, _BATCHES, _FIRST = range(4)  # independent streams of random numbers
_GATHERED = {"cpu": 512, "cuda": 8192}  # images at once: caches want few, kernel launches many


@dataclass(frozen=True)
class Draws:
    """The batches of some steps, end to end, and which of them refresh the estimate g."""

    indices: Indices
    sizes: list[int]
    refresh: list[bool]

    def gathered(self, split: Split) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Images, labels and coin of each step."""
        index = torch.from_numpy(self.indices).to(split.labels.device)
        first, at, most = 0, 0, _GATHERED.get(index.device.type, 512)
        while first < len(self.sizes):
            last, end = first, at
            while last < len(self.sizes) and (last == first or end - at < most):
                end += self.sizes[last]
                last += 1
            sizes, chosen = self.sizes[first:last], index[at:end]
            images = torch.split(split.images[chosen], sizes)
            labels = torch.split(split.labels[chosen], sizes)
            yield from zip(images, labels, self.refresh[first:last], strict=True)
            first, at = last, end


class Sampling(Protocol):
    """Where the batches of a run come from."""

    steps: int
    """In an epoch."""

    def epoch(self, number: int) -> Draws:
        """The batches of one epoch, counted from 0."""

    def first(self) -> Draws | None:
        """The large batch that forms g_{−1}, for methods that have one."""


class Shuffled:
    """Every image once an epoch, in a new order: SGD and SCCD.

    The last batch of an epoch holds what is left, as in the paper: its run times give 98 steps an
    epoch for 50,000 images and b = 512.
    """

    def __init__(self, n: int, b: int, seed: int) -> None:
        Page(n, b, 1)  # b fits n
        self.n, self.b, self.seed = n, b, seed
        self.steps = -(-n // b)

    def epoch(self, number: int) -> Draws:
        """A permutation of all images."""
        indices = np.random.default_rng([self.seed, _SHUFFLE, number]).permutation(self.n)
        sizes = [self.b] * (self.n // self.b)
        if self.n % self.b:
            sizes.append(self.n % self.b)
        return Draws(indices, sizes, [True] * self.steps)

    def first(self) -> Draws | None:
        """None: there is no g."""
        return None


class Coins:
    """b distinct images with probability p, else b': PAGE, VRO-CCD and VR-CCD.

    An epoch is as many steps as take n images on average, counting b' for a small step.
    """

    def __init__(self, n: int, b: int, b_small: int | None, p: float | None, seed: int) -> None:
        page = Page(n, b, b_small, p)
        self.n, self.b, self.b_small, self.p, self.seed = n, page.b, page.b_small, page.p, seed
        self.steps = max(1, round(n / (self.p * self.b + (1 - self.p) * self.b_small)))

    def epoch(self, number: int) -> Draws:
        """The coins first, then the images."""
        coins = np.random.default_rng([self.seed, _COINS, number])
        refresh = [coin(coins, self.p) for _ in range(self.steps)]
        rng = np.random.default_rng([self.seed, _BATCHES, number])
        large = iter([self._large(rng) for _ in range(sum(refresh))])
        small = iter(distinct(rng, self.n, self.steps - sum(refresh), self.b_small))
        batches = [next(large) if coin else next(small) for coin in refresh]
        return Draws(np.concatenate(batches), [len(batch) for batch in batches], refresh)

    def first(self) -> Draws | None:
        """b images at x_0."""
        rng = np.random.default_rng([self.seed, _FIRST])
        return Draws(self._large(rng), [self.b], [True])

    def _large(self, rng: np.random.Generator) -> Indices:
        return rng.choice(self.n, self.b, replace=False, shuffle=False)


def distinct(rng: np.random.Generator, n: int, rows: int, size: int) -> Indices:
    """Rows of `size` distinct indices below n, each row uniform among all such sets.

    Where a row rarely repeats an index, all rows are drawn at once and those with a repetition
    drawn again: far faster than row by row.
    """
    if size * size > n:
        chosen = [rng.choice(n, size, replace=False, shuffle=False) for _ in range(rows)]
        return np.stack(chosen) if chosen else np.empty((0, size), np.int64)
    found = rng.integers(n, size=(rows, size))
    again = np.arange(rows)
    while len(again):
        ordered = np.sort(found[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        found[again] = rng.integers(n, size=(len(again), size))
    return found
