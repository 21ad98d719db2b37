"""Least squares on the best k columns, by cyclic descent over the members of the support.

One member after another is exchanged for the column that lowers F most, with all coefficients
fitted again. With the products R of the members A and all columns, B = (XᵀX)⁻¹_AA R tells what
every exchange would bring, and two rank-one updates make one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cyclade.linear.kernels.subset import best_column, subtract_rows
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
        self, row: Callable[[int], Array], q: Array, diagonal: Array, square: float, most: int
    ) -> None:
        """`row(j)` are the products of column j and all, `q` those with y, `square` y's own."""
        self.row, self.q, self.diagonal, self.square = row, q, diagonal, square
        self.least = INDEPENDENT * diagonal
        self.R, self.B = np.empty((2, most, q.size))
        self.M = np.empty((most, most))
        self.start([])

    def start(self, members: list[int]) -> None:
        """Go to a support, without the rounding of updates."""
        self.members: list[int] = []
        self.beta, self.inside = np.empty(0), np.zeros(self.q.size, np.bool_)
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
        k, s, gain = len(self.members), self.left[j], self.c[j]
        v = self.B[:k, j].copy()
        self.R[k] = self.row(j)
        b = (self.R[k] - v @ self.R[:k]) / s
        subtract_rows(self.B, v, b, k)
        self.B[k] = b
        w = np.r_[-v, 1.0]
        self.M[k, :k] = self.M[:k, k] = self.M[k, k] = 0.0
        self.M[: k + 1, : k + 1] += np.outer(w, w) / s
        self.beta = np.r_[self.beta, 0.0] + w * (gain / s)
        self.c -= b * gain
        self.left -= b * b * s
        self.members.append(j)
        self.inside[j] = True

    def remove(self, k: int) -> None:
        """Take the k-th member out; the last one takes its place."""
        last, m, b, beta = len(self.members) - 1, self.M[k, k], self.B[k].copy(), self.beta[k]
        v = self.M[: last + 1, k] / m
        self.c += b * (beta / m)
        self.left += b * b / m
        subtract_rows(self.B, v, b, last + 1)
        self.M[: last + 1, : last + 1] -= np.outer(v, v) * m
        self.beta -= v * beta
        self.B[k], self.R[k], self.beta[k] = self.B[last], self.R[last], self.beta[last]
        self.M[k] = self.M[last]
        self.M[:, k] = self.M[:, last]
        self.beta = self.beta[:last]
        self.inside[self.members[k]] = False
        self.members[k] = self.members[last]
        del self.members[last]

    def grow(self) -> bool:
        """Add the column that explains most; whether there was one."""
        j, _ = best_column(self.c, self.left, self.c, 0.0, 0.0, self.least, self.inside)
        if j >= 0:
            self.add(j)
        return j >= 0

    def shrink(self) -> None:
        """Remove the member that explains least beside the others."""
        self.remove(int(np.argmin(self.beta**2 / np.diag(self.M)[: self.beta.size])))

    def exchange(self) -> int:
        """Cycle over the members until no exchange of one lowers F; how many were looked at."""
        k, stayed, looked = 0, 0, 0
        while stayed < len(self.members):
            k %= len(self.members)
            m, b, beta = self.M[k, k], self.B[k], self.beta[k]
            j, gain = best_column(self.c, self.left, b, beta / m, 1.0 / m, self.least, self.inside)
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
    """
    support, looked = Support(row, q, diagonal, square, most), 0
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
