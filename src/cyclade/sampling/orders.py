"""In which order a cycle visits the blocks.

An order yields m turns a cycle. They are taken one at a time, after the turn before has moved its
block, so that an order may look at the current point (`Greedy` does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from cyclade._checks import LARGEST_INDEX, function, meant, whole_number
from cyclade.sampling.samplers import required_generator

OrderName = Literal["forward", "backward", "shuffled", "rotated", "reflected", "random", "greedy"]

Score = Callable[[], Sequence[float]]
"""How far each block would move from the current point, in the norm of Λ_j / η."""


class Order(Protocol):
    """The turns of one cycle."""

    visits_all: bool
    """Whether every block has its turn in every cycle."""

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """m block numbers, 0 … m−1, one per turn."""


class _Listed:
    """An order whose turns are known before the cycle begins."""

    visits_all = True

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """The m turns."""
        return iter(self._listed(whole_number("m", m, 1, LARGEST_INDEX), rng))

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        raise NotImplementedError


class Forward(_Listed):
    """j = 1, …, m: the paper's order."""

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        return range(m)


class Backward(_Listed):
    """j = m, …, 1."""

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        return range(m - 1, -1, -1)


class Shuffled(_Listed):
    """A new random permutation each cycle."""

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        permuted: list[int] = required_generator(rng).permutation(m).tolist()
        return permuted


class Rotated(_Listed):
    """Forward, but from a random block on each cycle, and round: j, …, m, 1, …, j−1."""

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        first = int(required_generator(rng).integers(m))
        return [(first + i) % m for i in range(m)]


class Reflected(_Listed):
    """Forward or backward, by a coin each cycle."""

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        return range(m) if required_generator(rng).random() < 0.5 else range(m - 1, -1, -1)


class Random(_Listed):
    """m blocks drawn uniformly with replacement."""

    visits_all = False

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        drawn: list[int] = required_generator(rng).integers(m, size=m).tolist()
        return drawn


class Greedy:
    """Gauss–Southwell: each turn goes to the block whose prox step would be the longest.

    The length is ‖prox(x^j − t g^j) − x^j‖ in the norm of Λ_j / η, so it is comparable between
    blocks and bounds the decrease of F from below. The gradients are those of the sample in hand at
    the current point: every turn costs a whole gradient.
    """

    visits_all = False

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """m times the block with the largest score (the first of equals)."""
        function("score", score, "a function that gives the length of each block's step")
        for _ in range(whole_number("m", m, 1)):
            yield int(np.argmax(score()))


class Custom(_Listed):
    """The same given turns every cycle: a list of block numbers (0 … m−1), in any order."""

    def __init__(self, sequence: Sequence[int]) -> None:
        self.sequence = tuple(sequence)

    def _listed(self, m: int, rng: np.random.Generator) -> Iterable[int]:
        return self.sequence


class CheckedOrder:
    """A user's order: its turns must be m block numbers, or there is an error.

    Too many are seen when the next cycle begins: none is asked for before its time.
    """

    visits_all = False  # that is not known

    def __init__(self, order: Order) -> None:
        self.order = order
        self._last: Iterator[int] = iter(())  # what is left of the cycle before

    def turns(self, m: int, rng: np.random.Generator, score: Score) -> Iterator[int]:
        """The turns of the user's order, checked."""
        name = type(self.order).__name__
        for _ in self._last:
            raise ValueError(f"order: {name} gave more than {m} turns in a cycle of {m} blocks")
        given = self.order.turns(m, rng, score)
        try:
            turns = self._last = iter(given)
        except TypeError:
            raise TypeError(
                f"order: turns of {name} must return block numbers, got {type(given).__name__}"
            ) from None
        for turn in range(m):
            j = next(turns, None)
            if j is None:
                raise ValueError(
                    f"order: {name} gave {turn} turns, but a cycle of {m} blocks has {m}"
                )
            j = as_block_number(j, f"order: {name}")
            if not 0 <= j < m:
                raise ValueError(f"order: {name} gave block {j}, but the blocks are 0 … {m - 1}")
            yield j


def as_block_number(j: Any, name: str = "order") -> int:
    """`j` as an int, or an error if it is no whole number."""
    if isinstance(j, bool) or not isinstance(j, int | np.integer):
        raise TypeError(f"{name} must give block numbers, got {j!r}")
    return int(j)


BUILT_IN = (Forward, Backward, Shuffled, Rotated, Reflected, Random, Greedy)

ORDERS: dict[str, Callable[[], Order]] = {order.__name__.lower(): order for order in BUILT_IN}


def as_order(order: Any, m: int, names: Sequence[str] = ()) -> Order:
    """An `Order` from its name, a list of block numbers or `names`, or an `Order`, then checked."""
    if isinstance(order, str):
        if order not in ORDERS:
            names, hint = ", ".join(ORDERS), meant(order, ORDERS)
            raise ValueError(f"order={order!r} is unknown: use one of {names}{hint}")
        return ORDERS[order]()
    m = whole_number("m", m, 1)
    if isinstance(order, list | tuple | range | np.ndarray):
        entries = np.atleast_1d(order) if isinstance(order, np.ndarray) else order
        if names and all(isinstance(name, str) for name in entries):
            if sorted(entries) != sorted(names):
                unknown = [name for name in entries if name not in names]
                wrong = f"; {unknown[0]!r} is none of them" if unknown else f", got {list(entries)}"
                hint = meant(unknown[0], names) if unknown else ""
                raise ValueError(
                    f"order must list each of the blocks {list(names)} once{wrong}{hint}"
                )
            return Custom([names.index(name) for name in entries])
        sequence = [as_block_number(j) for j in entries]
        if sorted(sequence) != list(range(m)):
            raise ValueError(f"order must list each of the {m} blocks 0 … {m - 1} once")
        return Custom(sequence)
    if callable(getattr(order, "turns", None)) and not isinstance(order, type):
        return order if isinstance(order, BUILT_IN) else CheckedOrder(order)
    raise TypeError(
        f"order must be a name ({', '.join(ORDERS)}), a list of block numbers or names, or an "
        f"object with `turns`, got {type(order).__name__}"
    )
