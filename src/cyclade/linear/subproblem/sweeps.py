"""Least squares where many columns will move: cycles over all of them, on X where it lies.

A working set pays where few columns move. With at least as many rows as columns and a small λ, most
columns violate optimality at x = 0, and a working set would grow towards all of them, with a check
of all columns after each. A cycle over all columns costs no more than such a check. So

repeat  one cycle over all columns;
        two cycles over the support

until no column moves by more than what is aimed at; then all columns are checked. The first round
is made with a larger λ: else columns come in that leave again. Where slopes are known, from a check
or from the cycle before, zeros that were far from moving are left to the check. Nothing is copied,
but for a small X by rows.

Where columns are correlated, rounds may be many. Once they promise to cost more than the products
of all columns, in float32, these are formed, and each step minimises the model that they make with
the exact gradient of the last check: one is mostly enough.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels.columns import nonzeros, pressing
from cyclade.linear.kernels.gram import minimise
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import Problem
from cyclade.linear.products.moments import Moments, moments_of
from cyclade.linear.quadratic import weights
from cyclade.linear.state import State, measure

Array = NDArray[Any]


def suits(problem: Problem, state: State) -> bool:
    """Whether rows are enough and many columns violate at x = 0, or it has begun so and is fast.

    Columns that hardly share rows hardly move each other, and few cycles are enough. So fewer
    columns are many where those that violate have few entries in a row between them, or are so many
    that working sets would have no products either.
    """
    penalty, design, tuning = problem.penalty, problem.design, problem.tuning
    if state.on_path or not (problem.loss.quadratic and penalty.is_scalar and penalty.convex):
        return False
    if "sweeps" in state.kept:
        return bool(state.kept["sweeps"].goes_on(problem, state))
    if problem.offset.ndim > 1 or not problem.is_tall or state.x.any():
        return False
    violating = np.count_nonzero(state.measured.distances)
    in_a_row = violating / design.p * design.entries / problem.y.size
    apart = in_a_row < tuning.sweep_entries or violating > tuning.max_gram_columns
    share = tuning.sweep_share_apart if apart else tuning.sweep_share
    return bool(violating > share * design.p and design.shares(problem.s))


def improve(problem: Problem, state: State, W: Array, goal: float, budget: int) -> bool:
    """Rounds until all columns are about goal-stationary, or a step. W is not used."""
    if "sweeps" not in state.kept:
        state.kept["sweeps"] = Sweeps(problem, state)
    swept = state.kept["sweeps"]
    if swept.slow:
        return bool(swept.step(problem, state, budget))
    swept.run(problem, state, goal, budget)
    return True


class Sweeps:
    """A panel of all columns; `slow` once products of columns promise to cost less than cycles.

    Then `whole` says whether those of all columns do.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        w = weights(problem, state.loss_at, 1.0, 1.0)
        self.panel = cast(Any, problem.design.shared_panel(w, problem.fit_intercept))
        self.every: Array = np.arange(problem.design.p)
        self.slow, self.reach = False, self.panel.tuning.sweep_reach[problem.design.is_dense]
        few = problem.design.p <= problem.tuning.max_columns_kept
        self.possible = few and problem.design.is_dense and problem.penalty.shipped
        self.whole = False
        self.moments: Moments | None = None
        self.last = np.inf  # the distance before the last step
        self.again = 0.0  # the largest move of the second cycle of a round: others turned slopes so
        self.seen = self.panel.seen = np.zeros(problem.design.p)  # slopes, as cycles leave them

    def goes_on(self, problem: Problem, state: State) -> bool:
        """Whether rounds are fast, or steps are to come, the last of which came far enough."""
        if not self.slow:
            return True
        return self.whole and state.measured.distance <= problem.tuning.sampled_rate * self.last

    def near(self, penalty: BoundPenalty, slopes: Array | None, move: float = 0.0) -> Array:
        """The support, and zeros that a slope is near to moving; all columns if none are known.

        The further columns have moved since slopes were seen, the more zeros are near. Of sparse
        columns the second cycle tells: the first left slopes of the support at their optimum, so it
        moves columns by what others have changed since, and slopes of zeros change as much.
        """
        if slopes is None:
            return self.every
        part, reach = self.panel.tuning.near, self.reach * move
        return np.asarray(pressing(self.panel.x, slopes, penalty.zero_threshold, part, reach))

    def run(self, problem: Problem, state: State, goal: float, budget: int) -> None:
        """Rounds from the point of `state`, which is moved to where they end."""
        panel, tuning, before, now = self.panel, problem.tuning, state.x, state.measured
        panel.begin(now.loss_at.slopes, now.slope, state.x)
        tolerance, penalty = tuning.inner_part * goal, problem.penalty
        move = expected = np.inf
        changed = 0.0  # slopes, since they were seen: about
        slopes: Array | None = now.g
        if not before.any() and hasattr(penalty.penalty, "scaled"):
            first = penalty.at(
                penalty.penalty.scaled(tuning.sweep_first * float(penalty.penalty.lam))
            )
            self.round(state, first, self.near(first, slopes), 0.0, budget)
            slopes = None  # there are others since
        while state.passes < budget and not self.slow and move > tolerance and expected > goal:
            chosen = self.near(penalty, slopes, changed)
            last, move = move, self.round(state, penalty, chosen, tolerance, budget)
            slopes, changed = self.seen, move if problem.design.is_dense else self.again
            expected = move * min(move / last, 1.0) if np.isfinite(last) else np.inf
            self.slow = self.products_pay(last, move, tolerance, chosen.size)
        state.x, state.fresh = panel.x.copy(), False
        state.working = nonzeros(state.x)
        if problem.fit_intercept:
            state.c -= now.slope / panel.mass + float(panel.means @ (state.x - before))

    def round(
        self, state: State, penalty: BoundPenalty, chosen: Array, tolerance: float, budget: int
    ) -> float:
        """A cycle over `chosen`, and some over the support; the largest move of the first."""
        panel, tuning = self.panel, self.panel.tuning
        panel.prepare(chosen)
        panel.choose(chosen)
        made, largest = panel.cycles(penalty, 1, tolerance)
        left = min(tuning.sweep_support, budget - state.passes - made)
        if largest > tolerance and left > 0:
            panel.choose(nonzeros(panel.x))
            enough = max(tolerance, tuning.sweep_rate * largest)
            made, self.again = made + 1, panel.cycles(penalty, 1, enough)[1]
            if self.again > enough and left > 1:
                made += panel.cycles(penalty, left - 1, enough)[0]
        state.passes += made
        return float(largest)

    def products_pay(self, last: float, move: float, tolerance: float, chosen: int) -> bool:
        """Whether rounds at the rate of the last two would cost more than products do."""
        if move <= tolerance or not np.isfinite(last):
            return False
        p, tuning = self.every.size, self.panel.tuning
        rate = math.log(max(last / move, 1.001))
        ahead = math.log(move / max(tolerance, 1e-300)) / rate
        k, again = nonzeros(self.panel.x), tuning.sweep_support
        cycles, price = self.panel.gram_breakeven_cycles(k, k), tuning.cost.product * p * p
        dear = price > tuning.sweep_products * cycles * k.size
        self.whole = self.possible and not dear and ahead * (chosen + again * k.size) > price
        return bool(self.whole or ahead * again > cycles)

    def step(self, problem: Problem, state: State, budget: int) -> bool:
        """To the minimum of the model on products of all columns; False if F does not fall there.

        Beside a component that all columns share, rounding of products in float32 is more than what
        they differ by: the model may have no minimum.
        """
        if self.moments is None:
            self.moments = moments_of(problem, np.float32)
        known, now, penalty, tuning = self.moments, state.measured, problem.penalty, problem.tuning
        self.last = now.distance
        if not known.finite:
            return False
        slopes, x = known.means * now.slope - now.gradient.exactly(self.every), state.x.copy()
        state.passes += minimise(
            known.G, slopes, x, known.L, self.every, penalty.parameters, penalty.zero_threshold,
            tuning.inner_part * state.target,
            min(tuning.sampled_cycles, budget - state.passes), False,
        )  # fmt: skip
        if not np.isfinite(x).all():
            return False
        shift = now.slope + float(known.means @ (x - state.x)) if problem.fit_intercept else 0.0
        loss_at, c = problem.settle(x, state.c - shift)
        if loss_at.value + penalty.total(self.every, x) > now.objective:
            return False
        state.x, state.c, state.loss_at, state.fresh = x, c, loss_at, True
        state.measured, state.working = measure(problem, x, loss_at), nonzeros(x)
        return True
