"""Least squares on the best k columns, by cyclic descent over the members of the support.

One member after another is exchanged for the column that lowers F most, with all coefficients
fitted again. With the products R of the members A and all columns, B = (XᵀX)⁻¹_AA R tells what
every exchange would bring, and two rank-one updates make one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cyclade.linear.losses import Array

INDEPENDENT = 1e-10  # of a column's square: what must be left of it beside the others
GAIN = 1e-9  # of what y has beside its mean: smaller gains are rounding


class Fit(NamedTuple):
    """The members of a support, their coefficients, and what they leave of Σ y²."""

    members: Array
    beta: Array
    rest: float


class Support:
    """A support, its least squares, and what every other column would bring."""

    def __init__(
        self, row: Callable[[int], Array], q: Array, diagonal: Array, square: float
    ) -> None:
        """`row(j)` are the products of column j and all, `q` those with y, `square` y's own."""
        self.row, self.q, self.diagonal, self.square = row, q, diagonal, square
        self.start([])

    def start(self, members: list[int]) -> None:
        """Go to a support, without the rounding of updates."""
        self.members: list[int] = []
        self.B, self.M, self.beta = np.empty((0, self.q.size)), np.empty((0, 0)), np.empty(0)
        self.c, self.left = self.q.copy(), self.diagonal.copy()
        for j in members:
            self.add(j)

    @property
    def fit(self) -> Fit:
        """Where it is."""
        rest = self.square - float(self.beta @ self.q[self.members])
        return Fit(np.array(self.members, np.int64), self.beta.copy(), max(rest, 0.0))

    def add(self, j: int) -> None:
        """Take column j in."""
        s, v, gain = self.left[j], self.B[:, j].copy(), self.c[j]
        products = np.stack([self.row(member) for member in self.members]) if self.members else 0.0
        b = (self.row(j) - (v @ products if self.members else 0.0)) / s
        self.B = np.vstack([self.B - np.outer(v, b), b])
        w = np.r_[-v, 1.0]
        self.M = np.pad(self.M, (0, 1)) + np.outer(w, w) / s
        self.beta = np.r_[self.beta, 0.0] + w * (gain / s)
        self.c, self.left = self.c - b * gain, self.left - b * b * s
        self.members.append(j)

    def remove(self, k: int) -> None:
        """Take the k-th member out."""
        m, b, beta = self.M[k, k], self.B[k], self.beta[k]
        rest = np.delete(np.arange(len(self.members)), k)
        v = self.M[rest, k] / m
        self.c, self.left = self.c + b * (beta / m), self.left + b * b / m
        self.B = self.B[rest] - np.outer(v, b)
        self.M = self.M[np.ix_(rest, rest)] - np.outer(v, v) * m
        self.beta = self.beta[rest] - v * beta
        del self.members[k]

    def best(self, c: Array, left: Array) -> tuple[int, float]:
        """The column outside that explains most, and how much; c and left are those beside A."""
        free = left > INDEPENDENT * self.diagonal
        free[self.members] = False
        gains = np.where(free, c * c / np.where(free, left, 1.0), -1.0)
        j = int(np.argmax(gains))
        return j, float(gains[j])

    def grow(self) -> bool:
        """Add the best column; whether there was one."""
        j, gain = self.best(self.c, self.left)
        if gain < 0.0:
            return False
        self.add(j)
        return True

    def shrink(self) -> None:
        """Remove the member that explains least beside the others."""
        self.remove(int(np.argmin(self.beta**2 / np.diag(self.M))))

    def exchange(self) -> int:
        """Cycle over the members until no exchange of one lowers F; how many were looked at."""
        k, stayed, looked = 0, 0, 0
        while stayed < len(self.members):
            k %= len(self.members)
            m, b, beta = self.M[k, k], self.B[k], self.beta[k]
            j, gain = self.best(self.c + b * (beta / m), self.left + b * b / m)
            if gain > beta * beta / m + GAIN * self.square:
                self.remove(k)
                self.add(j)
                stayed = 0
            else:
                k, stayed = k + 1, stayed + 1
            looked += 1
        return looked


def best_subsets(
    row: Callable[[int], Array], q: Array, diagonal: Array, square: float, most: int
) -> tuple[list[Fit], int]:
    """A support of each size from 0 to `most`, and how many members were looked at.

    Up from the support before and its best further column, then down again without the member
    that explains least; each is exchanged until nothing is gained, and the better one stays.

    Examples
    --------
    >>> G = np.array([[1.0, 0.9], [0.9, 1.0]])
    >>> fits, _ = best_subsets(lambda j: G[j], np.array([0.5, 1.0]), np.ones(2), 2.0, 1)
    >>> fits[1].members, fits[1].beta
    (array([1]), array([1.]))
    """
    support, looked = Support(row, q, diagonal, square), 0
    found = [support.fit]
    while len(found) <= most and support.grow():
        looked += support.exchange()
        support.start(support.members)
        found.append(support.fit)
    for k in range(len(found) - 2, 0, -1):
        support.shrink()
        looked += support.exchange()
        support.start(support.members)
        if support.fit.rest < found[k].rest:
            found[k] = support.fit
    return found, looked
