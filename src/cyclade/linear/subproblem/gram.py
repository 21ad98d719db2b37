"""A model in the space of the coefficients: cycles on products of columns, and Newton steps.

A panel of k columns and n rows reads about 2kn entries per cycle; with G = A Aᵀ a cycle reads at
most k². Between bursts of cycles a Newton step on the support is tried: where r is smooth, as |x|
is away from zero, one linear system replaces many cycles over columns that are nearly dependent. A
step that does not lower the model is not taken, so cycles decide in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels import linalg
from cyclade.linear.kernels.gram import minimise, submatrix
from cyclade.linear.panels.protocols import Columns, Panel
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class Gram:
    """½ xᵀGx − bᵀx + r(x) over some columns of a panel, by c = b − Gx and x.

    All products ever formed are kept: a panel that grows keeps its columns in their places.
    """

    def __init__(self, tuning: Tuning = DEFAULT) -> None:
        self.tuning = tuning
        self.members = np.empty(0, np.int64)  # columns of the panel whose products are known
        self.products, self.factor = np.empty((0, 0)), Factor(tuning)
        self.rank: float = np.inf  # of G, at most
        self._place = np.empty(0, np.int64)  # of each column of the panel among them, or −1

    @classmethod
    def of(
        cls, G: Array, c: Array, x: Array, cols: Array, penalty: BoundPenalty,
        tuning: Tuning = DEFAULT,
    ) -> Gram:  # fmt: skip
        """Start at x, where b − Gx = c."""
        gram = cls(tuning)
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
        """Start from the point of the panel, with the columns `order` and others that are known.

        The correlations are those of all columns, or of the columns `at`, which contain `order`.
        """
        self.penalty = penalty
        new = self.lacking(panel, order)
        at = np.arange(panel.cols.size) if at is None else at
        every, these = np.flatnonzero(self._place < 0), at[self._place[at] < 0]
        if every.size < 1.25 * new.size:  # columns that lie in a row need no copy
            new = every
        elif these.size > new.size and (
            these.size < 1.25 * new.size or panel.gram_breakeven_cycles(at, these) < 1.0
        ):
            new = these
        self.G = np.empty((0, 0))  # one matrix of k² numbers less while another is made
        if new.size:
            self.products = panel.products(self.members, new, self.products)
            self._place[new] = np.arange(self.members.size, self.members.size + new.size)
            self.members = np.concatenate([self.members, new])
        known = self._place[at] >= 0
        chosen, c = at[known], correlations[known]
        if chosen.size > 2 * order.size + 64:  # many more would only cost time
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
        self.rank = panel.root.size

    def give(self, panel: Panel) -> None:
        """Move the panel to the present point."""
        panel.advance(self.columns, self.x - self.begun)

    def minimise(self, tolerance: float, max_cycles: int, polish: bool = False) -> int:
        """Cycles and Newton steps until no |δ_j| L_j exceeds the tolerance; the cycles made.

        With `polish`, Newton steps are made at the end as well, where columns are few.
        """
        penalty, state = self.penalty, (self.G, self.c, self.x, self.L, self.cols)
        if self.x.size <= self.tuning.small_gram and penalty.shipped:
            return int(minimise(
                *state, penalty.parameters, penalty.zero_threshold, tolerance, max_cycles, polish
            ))  # fmt: skip
        largest = float((np.abs(self.c) + self.L * np.abs(self.x)).max(initial=0.0))
        tolerance = max(tolerance, numerics.EPS * largest)
        done, wait, steps = 0, 4 + self.x.size // 32, limits.TRIES
        while done < max_cycles:
            made, largest = penalty.functions["gram_cycles"](
                *state, penalty.parameters, min(wait, max_cycles - done), tolerance
            )
            done += int(made)
            if largest <= tolerance:
                break
            taken = False
            for k in range(steps):
                step, left = self.newton_step(steps - k)
                taken = taken or step
                if not (step and left):
                    break
            else:
                steps *= 2
            if not taken:  # rounding errors of an old factor may be why
                wait, steps, self.factor = 2 * wait, 2 * steps, Factor(self.tuning)
        return done

    def newton_step(self, over: float) -> tuple[bool, bool]:
        """Solve on the support as if r were smooth there; coordinates that change sign go to zero.

        Returns whether a step was taken, perhaps a shorter one, and whether a coordinate left. A
        support that is larger than the rank of G has no single minimum; a step leads along what G
        does not see until one leaves, where cycles may creep. That pays if so many are no more than
        `over` to come.
        """
        S = np.flatnonzero(self.x)
        x = self.x[S]
        slope, bend = self.penalty.derivatives(self.cols[S], x)
        smooth = np.isfinite(bend)
        S, x, slope, bend = S[smooth], x[smooth], slope[smooth], bend[smooth]
        if not S.size or (S.size > self.rank + over and not bend.min() > 0):
            return False, False
        ridge, b = numerics.SOLVED * self.L[S], self.c[S] - slope
        if bend.any():  # it is another at every step
            full = Factor().solve(self.G, S, self.cols[S], bend + ridge, b)
        else:
            full = self.factor.solve(self.G, S, self.cols[S], ridge, b)
        if full is None:
            return False, False
        penalty, model = self.penalty, (self.G, self.c, self.x, self.L, self.cols)
        step: Any = penalty.functions["gram_step"]
        taken, left = step(model, S, full, penalty.parameters, penalty.zero_threshold)
        return bool(taken), bool(left)


def profiled_products(
    columns: Columns, chosen: Array, w: Array, centred: bool
) -> tuple[Array, Array]:
    """G = Aᵀ diag(w) A over the chosen columns, and their w-means.

    If `centred`, an intercept is minimised over first: with σ = Aᵀw that leaves G − σσᵀ/Σw.
    """
    G, means = columns.products(chosen, w), np.zeros(chosen.size)
    if centred:
        sums, least = columns.slopes(w, chosen), numerics.FLAT * G.diagonal()
        means = sums / w.sum()
        linalg.subtract_outer(G, 0, sums, means)
        G.flat[:: chosen.size + 1] = np.maximum(G.diagonal(), least)
    return G, means


class Factor:
    """Newton's equations on supports that differ by few columns: one factor serves several of them.

    Along a path the support of one step is mostly that of the last. With G₀ = F Fᵀ known on the old
    support, columns A that came in and D that left border the old equations,

        G₀ d₀ + G₀A d_A + E_D μ = b₀,   G_A0 d₀ + G_AA d_A = b_A,   E_Dᵀ d₀ = 0,

    so that |A| + |D| + 1 triangular solves, and one small system for (d_A, μ), replace a k³/3
    factor.
    """

    def __init__(self, tuning: Tuning = DEFAULT) -> None:
        self.tuning, self._factor = tuning, np.empty((0, 0))
        self._cols, self._order = np.empty(0, np.int64), np.empty(0, np.int64)  # sorted; places

    def solve(self, G: Array, S: Array, cols: Array, ridge: Array, b: Array) -> Array | None:
        """(G_SS + diag(ridge))⁻¹ b, where the coordinates `cols` lie at S in G; None if singular.

        G and the ridge of a coordinate must be the same at every call.
        """
        found = self._bordered(G, S, cols, ridge, b)
        if found is not None:
            return found
        self._factor, self._cols = np.empty((0, 0)), np.empty(0, np.int64)  # room for the next
        H = np.empty((S.size, S.size))
        submatrix(G, S, H)
        H.flat[:: S.size + 1] += ridge
        factor = linalg.cholesky(H)
        if factor is None:
            return None
        self._factor, self._order = factor, np.argsort(cols)
        self._cols = cols[self._order]
        return linalg.solve(factor, b)

    def _bordered(self, G: Array, S: Array, cols: Array, ridge: Array, b: Array) -> Array | None:
        """The same from the last factor; None if too much has changed."""
        from scipy.linalg.lapack import dgesv

        k = self._cols.size
        if k <= self.tuning.small_gram:
            return None
        at = np.minimum(np.searchsorted(self._cols, cols), k - 1)
        old = self._cols[at] == cols
        place, new, gone = self._order[at[old]], np.flatnonzero(~old), np.ones(k, bool)
        gone[place] = False
        left = np.flatnonzero(gone)
        a, m = new.size, new.size + left.size
        if 3 * m > 2 * self.tuning.cost.product * k:  # of a factor's price
            return None
        rows = G[S[new]]
        B = np.zeros((k, m + 1), order="F")
        B[place, :a] = rows[:, S[old]].T  # rows that left may hold anything: μ makes up for it
        B[left, np.arange(a, m)] = 1.0
        B[place, m] = b[old]
        Z = linalg.solve(self._factor, B)
        K = -(B[:, :m].T @ Z)
        K[:a, :a] += rows[:, S[new]] + np.diag(ridge[new])
        K[:a, m] += b[new]
        t, failed = dgesv(K[:, :m], K[:, m])[2:] if m else (np.empty(0), 0)
        if failed:
            return None
        d, among = np.empty(S.size), Z[:, m] - Z[:, :m] @ t
        d[old], d[new] = among[place], t[:a]
        return d
