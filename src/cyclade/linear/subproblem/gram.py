"""When cycles on a panel get long: the same cycles on products of columns, and Newton steps there.

A panel of k columns and n rows pays about 2kn per cycle; with G = A Aᵀ a cycle costs at most k².
Forming G is put off until the cycles already made have cost as much, so that it can never more
than double the work. Between bursts of cycles a Newton step on the support is tried: where r is
smooth on it, as |x| is away from zero, one linear system replaces many cycles on columns that are
nearly dependent. A step that does not lower the model is not taken, so cycles decide in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.gram import submatrix
from cyclade.linear.panels.protocols import Panel
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.subproblem.factor import Factor

Array = NDArray[Any]
FEW = 128  # columns: their cycles and Newton steps are one compiled loop
WHOLE = 1.25  # times as many columns are taken for the sake of having all
IN_A_ROW = 8  # Newton steps, while coordinates leave the support


class Gram:
    """½ xᵀGx − bᵀx + r(x) over some columns of a panel, by c = b − Gx and x.

    All products ever formed are kept: a panel that grows keeps its columns in their places.
    """

    def __init__(self) -> None:
        self.members = np.empty(0, np.int64)  # columns of the panel whose products are known
        self.products, self.factor = np.empty((0, 0)), Factor()
        self.rows: float = np.inf  # the rank of G, at most
        self._place = np.empty(0, np.int64)  # of each column of the panel among them, or −1

    @classmethod
    def of(cls, G: Array, c: Array, x: Array, cols: Array, penalty: BoundPenalty) -> Gram:
        """Start at x, where b − Gx = c."""
        gram = cls()
        gram.G, gram.c, gram.x, gram.cols, gram.penalty = G, c, x.copy(), cols, penalty
        gram.L = np.maximum(G.diagonal(), np.finfo(np.float64).tiny)
        return gram

    def lacking(self, panel: Panel, order: Array) -> Array:
        """Those of these columns whose products are not known."""
        more = panel.cols.size - self._place.size
        if more > 0:
            self._place = np.concatenate([self._place, np.full(more, -1)])
        return order[self._place[order] < 0]

    def take(
        self, panel: Panel, penalty: BoundPenalty, order: Array, correlations: Array,
        at: Array | None = None,
    ) -> None:  # fmt: skip
        """Start from where the panel stands, with the columns `order` and others that are known.

        The correlations are those of all columns, or of the columns `at`, which contain `order`.
        """
        self.penalty = penalty
        new = self.lacking(panel, order)
        at = np.arange(panel.cols.size) if at is None else at
        if new.size:
            for more in (np.flatnonzero(self._place < 0), at[self._place[at] < 0]):
                if more.size < WHOLE * new.size:  # all that lie in a row need no copy
                    new = more
                    break
            self.products = panel.products(self.members, new, self.products)
            self._place[new] = np.arange(self.members.size, self.members.size + new.size)
            self.members = np.concatenate([self.members, new])
        known = self._place[at] >= 0
        chosen, c = at[known], correlations[known]
        if chosen.size > 2 * order.size + 64:  # many that rest would only be in the way
            among = np.isin(chosen, order, assume_unique=True)
            chosen, c = chosen[among], c[among]
        place = self._place[chosen]
        whole = np.array_equal(place, np.arange(self.members.size))
        self.G = self.products if whole else np.empty((place.size, place.size))
        if not whole:
            submatrix(self.products, place, self.G)
        self.columns, self.c = chosen, c.astype(np.float64)
        self.x = panel.x[chosen].astype(np.float64)
        self.begun = self.x.copy()
        self.L, self.cols = panel.L[chosen], panel.cols[chosen]
        self.rows = panel.root.size

    def give(self, panel: Panel) -> None:
        """Let the panel follow."""
        panel.advance(self.columns, self.x - self.begun)

    def minimise(self, goal: float, most: int, exact: bool = False) -> int:
        """Cycles and Newton steps until no column moves by more than `goal`; the cycles made.

        If `exact`, Newton steps are made at the end as well, where products are few.
        """
        if self.x.size <= FEW and self.penalty.shipped:
            from cyclade.linear.kernels.quadratic import minimise

            return int(minimise(
                self.G, self.c, self.x, self.L, self.cols, self.penalty.parameters,
                self.penalty.zero_threshold, goal, most, exact,
            ))  # fmt: skip
        run, done, wait = self.penalty.functions["gram_cycles"], 0, 4 + self.x.size // 32
        tries = 0
        while done < most:
            made, largest = run(
                self.G, self.c, self.x, self.L, self.cols, self.penalty.parameters,
                min(wait, most - done), goal,
            )  # fmt: skip
            done += int(made)
            if largest <= goal:
                break
            tries += 1
            if tries > 2:  # if rounding is why two were not enough, that of an old factor is not
                self.factor = Factor()
            if not self.newton():
                wait *= 2
        return done

    def newton(self) -> bool:
        """Newton steps on the support, as long as coordinates leave it; whether any was taken."""
        for k in range(IN_A_ROW):
            before = np.count_nonzero(self.x)
            if not self.step():
                return k > 0
            if np.count_nonzero(self.x) == before:
                break
        return True

    def step(self) -> bool:
        """Solve on the support as if r were smooth there; coordinates that change sign go to zero.

        Returns whether the step was taken: shorter ones are tried while the model does not fall,
        in the end the one on which only the first coordinate gets to zero.
        """
        S = np.flatnonzero(self.x)
        x = self.x[S]
        slope, bend = self.penalty.derivatives(self.cols[S], x)
        smooth = np.isfinite(bend)
        S, x, slope, bend = S[smooth], x[smooth], slope[smooth], bend[smooth]
        if not S.size or (S.size > self.rows and not bend.min() > 0):  # no single minimum on S
            return False
        ridge, b = 1e-13 * self.L[S], self.c[S] - slope
        if bend.any():  # it is another at every step
            full = Factor().solve(self.G, S, self.cols[S], bend + ridge, b)
        else:
            full = self.factor.solve(self.G, S, self.cols[S], ridge, b)
        if full is None:
            return False
        kinked = self.penalty.zero_threshold[self.cols[S]] != 0.0  # elsewhere zero may be crossed
        leaving = kinked & ((x + full) * x < 0)
        first = float((-x[leaving] / full[leaving]).min(initial=1.0))
        r, whole = self.penalty.total(self.cols[S], x), np.zeros(self.x.size)
        for t in (1.0, 0.5, 0.25, 0.0625, first):
            new = x + t * full
            new[kinked & (new * x < 1e-14 * x * x)] = 0.0
            dx = new - x
            whole[S] = dx
            Gdx = self.G @ whole
            change = float(dx @ (0.5 * Gdx[S] - self.c[S]))
            change += self.penalty.total(self.cols[S], new) - r
            if change < 0:
                self.x[S] = new
                self.c -= Gdx
                return True
        return False
