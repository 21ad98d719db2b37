"""The draws of the recursive methods: early refreshes, and rows of a stream in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.linear.stochastic.tuning import TUNING
from cyclade.samplers import Batch, Page, Sample, coin


class EarlyRefresh(Page):
    """`Page` with a large sample for sure in the cycles `TUNING.early_refreshes`."""

    def __init__(self, page: Page, draws: int, done: int = 0) -> None:
        super().__init__(page.source, page.b, page.b_small, page.p)
        self.draws, self.drawn = draws, done * draws  # draws in a cycle, and so far

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """The coin, or a large sample early on."""
        refresh = coin_or_early(rng, self.p, self.drawn // self.draws + 1)
        self.drawn += 1
        return self.source.take(self.b if refresh else self.b_small, rng), refresh


def coin_or_early(rng: np.random.Generator, p: float, cycle: int) -> bool:
    """The coin of a draw in cycle `cycle` (from 1); it is tossed in any case."""
    return coin(rng, p) or cycle in TUNING.early_refreshes


class Queue:
    """A sampler over rows that have come and were not used yet, each once, in order.

    The coins of the next cycle are tossed before it begins, so that it begins only when enough rows
    wait: how the stream is cut into chunks changes nothing.
    """

    def __init__(self, recursive: bool, b: int, b_small: int, p: float, draws: int) -> None:
        self.recursive, self.draws = recursive, draws
        self.b, self.b_small, self.p = b, b_small, p if recursive else 1.0
        self.chunks: list[tuple[Any, ...]] = []
        self.rows = 0
        self.coins: list[bool] = []
        self.tossed = 0

    def add(self, *chunk: Any) -> None:
        """Rows (X, y, weights, offset) join the queue."""
        if chunk[0].shape[0]:
            self.chunks.append(chunk)
            self.rows += chunk[0].shape[0]

    def ready(self, rng: np.random.Generator) -> bool:
        """Whether the rows of a cycle are there."""
        while len(self.coins) < self.draws:
            self.coins.append(coin_or_early(rng, self.p, self.tossed // self.draws + 1))
            self.tossed += 1
        return self.rows >= sum(self.b if coin else self.b_small for coin in self.coins)

    def large(self, rng: np.random.Generator) -> Sample:
        """The next b rows."""
        return self._take(self.b)

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """The next b or b' rows, as the coin has fallen."""
        refresh = self.coins.pop(0)
        return self._take(self.b if refresh else self.b_small), refresh

    def size(self, sample: Sample) -> float:
        """How many rows."""
        return float(sample.size)

    def first(self) -> Batch:
        """The next b rows, which stay in the queue."""
        kept, rows = list(self.chunks), self.rows
        batch = self._take(self.b)
        self.chunks, self.rows = kept, rows
        return batch

    def _take(self, size: int) -> Batch:
        parts, missing = [], size
        while missing:
            chunk = self.chunks.pop(0)
            if chunk[0].shape[0] > missing:
                self.chunks.insert(0, tuple(part[missing:] for part in chunk))
                chunk = tuple(part[:missing] for part in chunk)
            parts.append(chunk)
            missing -= chunk[0].shape[0]
        self.rows -= size
        return Batch(tuple(_joined(column) for column in zip(*parts, strict=True)), size)


def _joined(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")
