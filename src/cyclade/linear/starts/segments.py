"""Several λ of a path at once: least squares, on the products of the columns that may come in.

The strong rule names the columns V that may be in anywhere between the last λ and one some steps
ahead. With their products G, cycles at all λ between are one compiled call. One pass over X at the
end of the segment then gives the gradients g₁ there, and with those at its beginning, g₀, a bound
at each λ between: residuals are nearly on the line from one end to the other, and for any t

    |g_j − (1 − t) g₀_j − t g₁_j| ≤ ‖a_j‖ ‖X(x − x₀ − t (x₁ − x₀))‖,

where the last norm is least for the projection, and known from the products. A column that this
proves to be below its threshold counts as measured; if all columns outside V are, the gap at that
λ is known from V. If any is not, the segment is made shorter. Its last λ is left to the working
sets, which find it solved unless a column outside V has come in.

Where cycles on G are slow, columns are far from orthogonal: the working sets, with Newton steps on
factors, are better, and segments end.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.columns import undecided
from cyclade.linear.kernels.gram_path import bounds, segment
from cyclade.linear.loss_at import SquaredLossAt
from cyclade.linear.problem import Gradient, Problem, Reader
from cyclade.linear.results import Certificate, Solution
from cyclade.linear.state import Measured, State, judge

Array = NDArray[Any]


class Solved(NamedTuple):
    """Solutions at consecutive λ, by rows, on the columns `cols`."""

    cols: Array
    coefs: Array
    intercepts: Array
    objectives: Array
    certificates: list[Certificate]
    passes: Array

    def solution(self, k: int, p: int) -> Solution:
        """The k-th as a caller gets it."""
        coef, certificate = np.zeros(p), self.certificates[k]
        coef[self.cols] = self.coefs[k]
        objective, passes = float(self.objectives[k]), int(self.passes[k])
        return Solution(
            coef, float(self.intercepts[k]), objective, certificate, passes, self.cols
        )  # fmt: skip


class Segments:
    """How many λ the next segment has, and whether there are to be any more."""

    def __init__(self, problem: Problem) -> None:
        penalty = problem.penalty
        entries = problem.design.entries / problem.tuning.segment_entries
        self.least = max(math.ceil(entries), problem.tuning.segment_least)  # λ of a segment
        self.length, self.over = self.least, True
        self.wait, self.pause = 0, 1  # λ to come before segments are thought of again
        if problem.loss.quadratic and problem.offset.ndim == 1 and not problem.has_offset:
            suits = penalty.is_scalar and penalty.shipped and penalty.convex and penalty.has_dual
            self.over = not (suits and problem.dtype == np.float64)
            self.over = self.over or float(penalty.zero_threshold.min()) <= 0.0

    def ahead(
        self, problem: Problem, state: State, lams: Array, tol: float, max_passes: int
    ) -> Solved | None:
        """Solutions at the first of these λ; the state is then to be solved for the next.

        It was solved for that of `problem`. None if it is left as it is.
        """
        self.wait -= 1
        if self.over or self.wait > 0 or "panel_solver" not in state.kept or not state.fresh:
            return None
        base, least = Base(problem, state), self.least
        many = base.affordable(lams[: self.length], least)
        if many < least:  # asking costs a pass over p numbers
            self.pause *= 2
            self.wait = self.pause
            return None
        self.pause = 1
        base.read()
        while many >= least:
            end, proven = base.end(lams[:many], tol, max_passes)
            if end is None:
                break
            solved = end.judged(tol) if proven else None
            if solved is not None:
                end.go()
                grown = 2 * many if len(end.coefs) == many else len(end.coefs)
                self.length = max(grown, least)
                return solved
            many = len(end.coefs) // 2
        self.over = True
        return None


class Base:
    """Where a segment begins: a point, and what was measured there."""

    def __init__(self, problem: Problem, state: State) -> None:
        self.problem, self.state, self.now = problem, state, state.measured
        assert problem.reader is not None
        self.reader: Reader = problem.reader
        self.last: tuple[Array, float, Problem, float, Measured] | None = None

    def read(self) -> None:
        """Have the gradient of columns that were screened out, too."""
        gradient = self.now.gradient
        if gradient.known is not None:
            gradient.g, gradient.known = self.reader.read(gradient.v), None

    def measure(self, x: Array, c: float, lam: float) -> tuple[Problem, float, Measured]:
        """All columns at the end of a segment; where more columns changed nothing, the same."""
        if self.last is None or self.last[1] != lam or not np.array_equal(self.last[0], x):
            problem = self.problem.at(self.problem.penalty.penalty.scaled(lam))
            loss_at, c = problem.settle(x, c)
            gradient = Gradient(self.reader, loss_at.slopes, self.reader.read(loss_at.slopes))
            self.last = x, lam, problem, c, judge(problem, x, loss_at, gradient)
        return self.last[2:]

    def affordable(self, lams: Array, least: int) -> int:
        """At how many of the λ, at most, few columns may be in; less than `least` means none."""
        if lams.size < least:
            return 0
        most = max(2 * int(np.count_nonzero(self.state.x)), self.problem.tuning.small_gram)
        most = min(most, self.problem.design.n // 4)
        first, last, many = 0, lams.size, least
        while first < last:
            if self.columns(float(lams[many - 1])).size <= most:
                first = many
            elif first < least:
                return 0
            else:
                last = many - 1
            many = (first + last + 1) // 2
        return first

    def columns(self, lam: float) -> Array:
        """The support, and what the strong rule leaves between the λ here and this one."""
        limits = self.problem.penalty.zero_threshold
        there = lam / float(self.problem.penalty.penalty.lam) * limits
        return np.flatnonzero((np.abs(self.now.g) > 2.0 * there - limits) | (self.state.x != 0))

    def end(self, lams: Array, tol: float, max_passes: int) -> tuple[End | None, bool]:
        """The end of a segment, and whether all other columns are known to be out of it.

        Columns that are not come in, a few times; none of them moves, mostly.
        """
        V = self.columns(float(lams[-1]))
        for _ in range(self.problem.tuning.segment_rounds):
            end = self.reach(V, lams, tol, max_passes)
            if end is None:
                return None, False
            more = end.undecided()
            if not more.size:
                return end, True
            V = np.union1d(V, more)
        return end, False

    def reach(self, V: Array, lams: Array, tol: float, max_passes: int) -> End | None:
        """Cycles over V at each λ; None if products would cost too much or cycles are slow."""
        problem, state, now, tuning = self.problem, self.state, self.now, self.problem.tuning
        penalty = problem.penalty
        solver = state.kept["panel_solver"]
        at, panel, gram = solver.places(V), solver.panel, solver.gram
        lacking = gram.lacking(panel, at)
        price = panel.gram_breakeven_cycles(at, lacking)
        if not V.size or price > tuning.segment_price * lams.size:
            return None
        solver.start(state.x, now.loss_at.slopes, now.slope)
        cols = panel.cols[at]
        correlations = panel.means[at] * now.slope - now.g[cols]
        gram.take(panel, penalty, at, correlations, at)
        cols = gram.cols
        unit = penalty.penalty.unit
        unit = unit[cols] if len(unit) > 1 else unit
        coefs, g, passes = *np.empty((2, lams.size, cols.size)), np.empty(lams.size, np.int64)
        precision = min(tuning.inner_part * tuning.path_distance, 0.25 * tol)
        begun, slopes = gram.x.copy(), -gram.c
        made = segment(
            gram.G, gram.c, gram.x, gram.L, penalty.parameters[0], unit, lams, precision,
            min(tuning.segment_cycles, max_passes), coefs, g, passes,
        )  # fmt: skip
        if not made:
            return None
        moves = coefs[:made] - begun
        intercepts = state.c - now.slope / panel.mass - moves @ panel.means[gram.columns]
        at_begin = begun, slopes
        return End(
            self, cols, unit, lams[:made], at_begin, moves, coefs[:made], g[:made], intercepts,
            passes[:made],
        )  # fmt: skip


class End:
    """Where a segment ends: solutions on its columns at all its λ, and all columns at the last."""

    def __init__(
        self, base: Base, cols: Array, unit: Array, lams: Array, begin: tuple[Array, Array],
        moves: Array, coefs: Array, g: Array, intercepts: Array, passes: Array,
    ) -> None:  # fmt: skip
        """`begin` holds x and the gradient on the columns where the segment begins."""
        self.base, self.cols, self.unit, self.lams, self.begin = base, cols, unit, lams, begin
        self.moves, self.coefs, self.g, self.passes = moves, coefs, g, passes
        self.intercepts = intercepts
        self.x = base.state.x.copy()
        self.x[cols] = coefs[-1]
        self.problem, self.c, self.measured = base.measure(
            self.x, float(intercepts[-1]), float(lams[-1])
        )

    def judged(self, tol: float) -> Solved | None:
        """The solutions but the last with their certificates; None if one does not hold."""
        problem, lams, loss_at = self.base.problem, self.lams, self.base.now.loss_at
        assert isinstance(loss_at, SquaredLossAt)
        squares = 2.0 * loss_at.value + np.einsum("kj,kj->k", self.moves, self.begin[1] + self.g)
        along = np.einsum("kj,kj->k", self.coefs, self.g) - squares  # Σ s u y, as Σ s u = 0
        F, gaps = np.empty((2, lams.size))
        kind = problem.penalty.parameters[0]
        bounds(kind, self.unit, lams, self.coefs, self.g, squares, along, F, gaps)
        # What the last point differs by on X is rounding, and may be that of the others too.
        gaps += abs(F[-1] - self.measured.objective)
        goal = tol * problem.null.scale
        certificates = [
            Certificate("gap", gap, max(goal, problem.tuning.rounding * abs(value)))
            for gap, value in zip(gaps[:-1].tolist(), F[:-1].tolist(), strict=True)
        ]
        if not all(certificate.reached for certificate in certificates):
            return None
        some = slice(0, lams.size - 1)
        return Solved(
            self.cols, self.coefs[some], self.intercepts[some], F[some], certificates,
            self.passes[some],
        )  # fmt: skip

    def undecided(self) -> Array:
        """Other columns that are not proven to be below their thresholds at all λ."""
        base, penalty = self.base, self.problem.penalty
        reader, at_end = base.reader, self.measured.g
        if not reader.norms.size:
            reader.norms = base.problem.design.norms()
        begin, along = base.now.g, self.g - self.begin[1]  # G times the moves
        whole, turn = self.moves[-1], along[-1]
        length = float(whole @ turn)
        part = self.moves @ turn / length if length > 0 else np.zeros(self.lams.size)
        off = self.moves - part[:, None] * whole
        square = np.einsum("kj,kj->k", off, along - part[:, None] * turn)
        rounding = reader.rounding * np.sqrt(2.0 * base.now.loss_at.value)
        weight = np.sqrt(float(base.problem.s.max()))
        errors = weight * (np.sqrt(np.maximum(square, 0.0)) + rounding)
        known = np.zeros(at_end.size, np.bool_)
        known[self.cols] = True
        found = [np.flatnonzero(~known & (np.abs(at_end) > penalty.zero_threshold))]
        for k in range(self.lams.size - 1):
            g = (1.0 - part[k]) * begin + part[k] * at_end
            limits = float(self.lams[k] / self.lams[-1]) * penalty.zero_threshold
            many = undecided(
                g, reader.norms, errors[k], known, self.x, limits, 1.0, reader.cols
            )  # fmt: skip
            found.append(reader.cols[:many].copy())
            known[found[-1]] = True
        return np.unique(np.concatenate(found))

    def go(self) -> None:
        """Move the state to the end."""
        state = self.base.state
        state.x, state.c, state.measured = self.x, self.c, self.measured
        state.loss_at, state.working, state.fresh = self.measured.loss_at, self.cols, True
