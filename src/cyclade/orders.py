"""In which order a cycle visits the blocks.

An order yields m turns a cycle. They are taken one at a time, after the turn before has moved its
block, so that an order may look at the current point (`Greedy` does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

Score = Callable[[], Sequence[float]]
"""How far each block would move from the current point, in the norm of Λ_j / η."""


class Order(Protocol):
    """The turns of one cycle."""

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """m block numbers, 0 … m−1, one per turn."""


class Forward:
    """j = 1, …, m: the paper's order."""

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """0, 1, …, m−1."""
        return iter(range(m))


class Backward:
    """j = m, …, 1."""

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """m−1, …, 1, 0."""
        return iter(range(m - 1, -1, -1))


class Shuffled:
    """A new random permutation each cycle."""

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """A permutation of 0 … m−1."""
        return iter(rng.permutation(m).tolist())


class Random:
    """m blocks drawn uniformly with replacement."""

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """m independent draws."""
        return iter(rng.integers(m, size=m).tolist())


class Greedy:
    """Gauss–Southwell: each turn goes to the block whose prox step would be the longest.

    The length is ‖prox(x^j − t g^j) − x^j‖ in the norm of Λ_j / η, so it is comparable between
    blocks and bounds the decrease of F from below. The gradients are those of the sample in hand at
    the current point: every turn costs a whole gradient.
    """

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """M times the block with the largest score (the first of equals)."""
        for _ in range(m):
            yield int(np.argmax(score()))


class Custom:
    """The same given turns every cycle: a list of block numbers (0 … m−1), in any order."""

    def __init__(self, sequence: Sequence[int]) -> None:
        self.sequence = [int(j) for j in sequence]

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """The given sequence."""
        return iter(self.sequence)


ORDERS: dict[str, Callable[[], Order]] = {
    "forward": Forward,
    "backward": Backward,
    "shuffled": Shuffled,
    "random": Random,
    "greedy": Greedy,
}


def as_order(order: Any, m: int) -> Order:
    """An `Order` from its name, a list of block numbers, or an `Order`."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise ValueError(f"order={order!r} is unknown: use one of {', '.join(ORDERS)}")
        return ORDERS[order]()
    if isinstance(order, list | tuple | range | np.ndarray):
        if sorted(order) != list(range(m)):
            raise ValueError(f"order must list each of the {m} blocks 0 … {m - 1} once")
        return Custom([int(j) for j in order])
    if callable(getattr(order, "turns", None)):
        return order  # type: ignore[no-any-return]
    raise TypeError(
        f"order must be a name ({', '.join(ORDERS)}), a list of block numbers or an object with "
        f"`turns`, got {type(order).__name__}"
    )
