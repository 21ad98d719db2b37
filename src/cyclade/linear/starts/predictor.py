"""The start at the next λ, predicted from the last solutions: on a path, and to a single fit's λ.

Squared loss, groups: solutions, z and gradients are nearly linear in λ while the same blocks are
in, so the line through the last two solutions predicts the next without a pass over X.

Curved losses, scalar penalties: one quadratic model per λ. The gradient is known from the check
that the last λ ended with. The curvature is the mean of φ'' along the way δ, as far as the last
step tells where that goes, since  φ'(z + δ) = φ'(z) + (mean of φ'' between) δ:  so one model is as
good as two Newton steps. On a path its columns are the support and those that the strong rule,
|∇_j f| > λ − (λ_before − λ), does not rule out; in larger steps the support and the columns that
violate optimality most. A check of all columns follows; what is missing is left to another such
step, and then to the working sets. Rows that went too far in a larger step come back under the
mean of φ'' over the way they made.

Where products of columns cost more than a few checks they are used again, as long as steps with
them bring the point much nearer: the gradient is always new, so only the speed is at stake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import numerics
from cyclade.linear.columns import Columns
from cyclade.linear.kernels import linalg
from cyclade.linear.kernels.columns import pulled, strong
from cyclade.linear.kernels.gram import extrapolate
from cyclade.linear.kernels.gram import minimise as minimise_quadratic
from cyclade.linear.kernels.losses import secants, stiffest
from cyclade.linear.loss_at import LossAt
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, lifted, line_search
from cyclade.linear.screening import Gradient
from cyclade.linear.state import State, judge, measure, rebase
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.subproblem.panel_solver import PanelSolver
from cyclade.linear.tuning import Tuning

Array = NDArray[Any]


class WarmStart:
    """The solution at the last λ, as it is."""

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The same point under another penalty."""
        rebase(problem, state)
        return state


class Extrapolation:
    """The line through the last two solutions, where F is lower there than at the last."""

    def __init__(self) -> None:
        self.solved: list[tuple[float, Array, Array, Any, Array]] = []  # λ, x, z, c, g

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """The last solution, or the point on the line at the λ of `problem`."""
        lam, z, g = float(problem.penalty.penalty.lam), state.loss_at.z, state.measured.g
        last = float(state.measured.problem.penalty.penalty.lam)
        self.solved = [*self.solved[-1:], (last, state.x.copy(), z, state.c, g)]
        rebase(problem, state)
        if len(self.solved) < 2 or not self.solved[0][0] > last:
            return state
        old, now = self.solved
        t = (last - lam) / (old[0] - last)
        x, z, c, g = (b + t * (b - a) for a, b in zip(old[1:], now[1:], strict=True))
        there = problem.loss_at(z)
        ahead = judge(problem, x, there, Gradient(None, there.slopes, g))
        if ahead.objective < state.measured.objective:
            state.x, state.c, state.loss_at, state.measured = x, c, there, ahead
            state.fresh = False
        return state


def predictor(problem: Problem) -> WarmStart | Extrapolation | Predictor:
    """The start that suits the problem."""
    if suits(problem):
        return Predictor(problem)
    if problem.loss.quadratic and not (problem.penalty.is_scalar or problem.penalty.is_sorted):
        return Extrapolation()
    return WarmStart()


class Predictor:
    """What is kept from one λ to the next."""

    def __init__(self, problem: Problem) -> None:
        self.zero_threshold: Array | None = None  # thresholds at the λ before
        self.z: Array | None = None  # at the solution before the last
        self.x: Array | None = None  # the same
        self.tops = np.nan, np.nan  # the largest threshold there, and at the last solution
        self.came: tuple[Array, float] | None = None  # from which x, and how much further it goes
        self.columns: Columns | None = None
        self.place = np.full(problem.design.p, -1)  # of a coordinate among the columns
        self.cols = np.empty(problem.design.p, np.int64)  # room for some coordinates
        self.members = np.empty(0, np.int64)  # coordinates with products
        self.inside = np.zeros(problem.design.p, np.bool_)  # whether they are
        self.G, self.L, self.means, self.mass = np.empty((0, 0)), np.empty(0), np.empty(0), 1.0
        self.gram = Gram(problem.tuning)  # of them, with factors that are kept
        self.keeping = True  # whether products may be of use at the next λ
        self.costly = False  # whether they cost much
        self.good = False  # whether these are worth using again

    def advance(self, problem: Problem, state: State, max_passes: int) -> State:
        """Follow the path to the λ of `problem`, or stay."""
        if not self.follow(problem, state, max_passes):
            rebase(problem, state)
        return state

    def follow(self, problem: Problem, state: State, budget: int) -> bool:
        """Go on to the λ of `problem` from the solution for the last, as far as that is easy.

        Returns whether a step was made; if not, the state is as it was.
        """
        tuning, limits, before = problem.tuning, problem.penalty.zero_threshold, self.zero_threshold
        z, x, top, (first, last) = self.z, self.x, problem.penalty.top, self.tops
        self.zero_threshold, self.z, self.x = limits, state.loss_at.z, state.x
        self.tops = last, top
        if before is None:
            return False
        self.good &= self.costly
        curvature = state.loss_at.second if z is None else on_the_way(problem, state.loss_at, z)
        self.came = None
        if x is not None and first > last:
            self.came = x, min((last - top) / (first - last), 1.0)
        stride, precision = tuning.strong_rule_step, tuning.model_precision
        for made in range(tuning.predictor_steps):
            many = strong(state.x, state.measured.g, limits, before, stride, self.cols)
            V = self.cols[: max(many, 0)].copy()
            if not V.size or not self.step(problem, state, V, curvature, budget, precision):
                return made > 0
            curvature, self.came = state.loss_at.second, None
            near = state.measured.distance <= tuning.predictor_distance * top
            if near or state.passes >= budget:
                break
        return True

    def step(
        self, problem: Problem, state: State, V: Array, curvature: Array, budget: int,
        forcing: float,
    ) -> bool:  # fmt: skip
        """A model over the columns V, its minimum and a check there; no if F has not come down.

        What was measured may have been so at the λ before: only the slopes are taken from it.
        """
        penalty, now = problem.penalty, state.measured
        distances = penalty.distances(V, state.x[V], now.gradient.exactly(V))
        first = max(float(distances.max()), abs(now.slope))
        again = self.good and bool(self.inside[V].all())
        if again or self.form(problem, state, V, curvature):
            M = self.members
            new, shift = self.by_products(problem, state, forcing * first, budget)
        elif self.keeping:
            M = V
            new, shift = self.by_columns(problem, state, V, curvature, budget)
        else:
            return False
        x, here, whole = state.x[M], state.loss_at, state.x.copy()
        whole[M] = new
        end = problem.loss_at(problem.predict(whole, state.c + shift, M))
        t, there = line_search(
            problem, here, end, lambda t: penalty.total(M, x + t * (new - x)), halvings=4
        )
        if t == 0.0 or there.z is here.z:
            return False
        if t < 1.0:
            whole[M] = x + t * (new - x)
            there = problem.loss_at(problem.predict(whole, state.c + t * shift, M))
        state.x, state.c, state.loss_at = whole, state.c + t * shift, there
        state.measured = measure(problem, whole, there)
        state.working, state.fresh = M, True
        self.good = state.measured.distance <= problem.tuning.products_reuse * first
        return True

    def by_products(
        self, problem: Problem, state: State, goal: float, budget: int
    ) -> tuple[Array, float]:
        """The minimum of the model in the space of its columns; what the intercept moves by."""
        penalty, now, M = problem.penalty, state.measured, self.members
        x = state.x[M]
        new, c = x.copy(), self.means * now.slope - now.gradient.exactly(M)
        if self.came is not None:
            extrapolate(state.x, *self.came, M, self.G, c, new)
        left = budget - state.passes
        if self.costly:  # they will be used again, and so will factors of them
            gram = self.gram
            gram.c, gram.x, gram.penalty = c, new, penalty
            state.passes += gram.minimise(goal, left)
        else:
            state.passes += minimise_quadratic(
                self.G, c, new, self.L, M, penalty.parameters, penalty.zero_threshold, goal, left,
                False,
            )  # fmt: skip
        if not problem.fit_intercept:
            return new, 0.0
        return new, -now.slope / self.mass - float(self.means @ (new - x))

    def by_columns(
        self, problem: Problem, state: State, V: Array, curvature: Array, budget: int
    ) -> tuple[Array, float]:
        """The same by cycles over the columns V themselves, which are too many to multiply."""
        model = Model(problem, state.loss_at, 1.0, 1.0, self.weights(problem, curvature))
        panel_solver = PanelSolver(model.panel(V), problem.tuning)
        x, every = state.x[V], np.arange(V.size)
        panel_solver.panel.start(model.start(), x)
        tuning = problem.tuning
        target = 0.1 * tuning.predictor_distance * problem.penalty.top
        precision = 3.0 * tuning.model_precision
        state.passes += panel_solver.minimise(
            problem.penalty, every, target, budget - state.passes, forcing=precision
        )
        new = panel_solver.panel.x[: V.size].astype(np.float64)
        return new, model.move(panel_solver.panel, new - x)[1]

    def weights(self, problem: Problem, curvature: Array) -> Array:
        """s times the curvature, lifted where that is next to nothing."""
        w = problem.s * lifted(problem.loss, problem.tuning, curvature)
        floor = numerics.FLAT * float(w.max(initial=1e-300))
        return np.asarray(np.maximum(w, floor))

    def form(self, problem: Problem, state: State, V: Array, curvature: Array) -> bool:
        """Products of the columns V, and of more if they are costly; no if they are too many."""
        design, fit_intercept = problem.design, problem.fit_intercept
        close = None
        if self.columns is None or not (self.place[V] >= 0).all():
            close = self.close(problem, state, V) if self.keeping else V
            self.columns = None
            if not design.products_pay(close):
                return False
            self.columns = design.unweighted(close, fit_intercept)
            self.place[:] = -1
            self.place[self.columns.cols] = np.arange(self.columns.cols.size)
        columns = self.columns
        cost = problem.tuning.cost
        price = problem.tuning.products_dear * cost.check(design)
        self.costly = self.keeping and columns.price(self.place[V]) > price
        if self.costly:
            V = self.close(problem, state, V) if close is None else close
            V = V[self.place[V] >= 0]
        at, w = self.place[V], self.weights(problem, curvature)
        G = columns.products(at, w)
        self.mass, self.means = float(w.sum()), columns.centres[at]
        sums = columns.slopes(w, at) if fit_intercept else np.zeros(V.size)
        if fit_intercept:  # minimised over first; the columns have been centred, all rows alike
            lowest = 1e-12 * G.diagonal()
            linalg.subtract_outer(G, 0, sums, sums / self.mass)
            G.flat[:: V.size + 1] = np.maximum(G.diagonal(), lowest)
            self.means = self.means + sums / self.mass
        self.L = np.maximum(G.diagonal(), np.finfo(np.float64).tiny)
        self.G, self.members = G, V
        if self.costly:
            self.gram = Gram.of(G, self.L, self.L, V, problem.penalty, problem.tuning)
        self.inside[:] = False
        self.inside[V] = True
        return True

    def close(self, problem: Problem, state: State, V: Array) -> Array:
        """V and the columns that may soon be in it, if those are not too many."""
        near = (
            np.abs(state.measured.g) > problem.tuning.products_near * problem.penalty.zero_threshold
        )
        near[V] = True
        cols = np.flatnonzero(near)
        return cols if cols.size <= 2 * V.size + 32 else V

    def descend(self, problem: Problem, state: State, easier: list[Problem], budget: int) -> bool:
        """From zero to the λ of `problem`: a step at every λ before, and some at the last.

        Where a step has missed, another is made at the same λ. Returns whether the last λ was got
        to; if not, the state is where a step failed.
        """
        self.keeping = False
        stages, at, before, here, fresh = [*easier, problem], 0, None, state.loss_at.z, True
        came, curvature = state.loss_at, state.loss_at.second
        tuning = problem.tuning
        precision = 3.0 * tuning.model_precision
        for _ in range(tuning.predictor_steps * (len(stages) + 2)):
            now, last, loss_at = stages[at], at == len(easier), state.loss_at
            if not fresh:
                curvature = on_the_way_back(tuning, loss_at, came, curvature)
            elif before is not None:
                curvature = on_the_way(problem, loss_at, before)
            came = loss_at
            self.good &= not fresh
            V = self.violating(now, state)
            if not V.size or not self.step(now, state, V, curvature, budget, precision):
                break
            if state.passes >= budget:
                break
            missed = state.measured.distance / now.penalty.top
            fresh = missed <= (tuning.predictor_distance if last else tuning.stage_distance)
            close = missed <= tuning.gap_distance  # a gap costs about as much as a step saves
            if last and (fresh or (close and state.measured.gap <= state.enough)):
                break
            if fresh:
                at, before, here = at + 1, here, state.loss_at.z
        return state.measured.problem is problem

    def violating(self, problem: Problem, state: State) -> Array:
        """The support, and the columns that violate optimality most: at most about as many."""
        x, g, zero_threshold = state.x, state.measured.g, problem.penalty.zero_threshold
        tuning, near = problem.tuning, problem.penalty.top
        part = tuning.entry
        many, resting = pulled(x, g, zero_threshold, part, near, self.cols)
        V, support = self.cols[:many].copy(), many - resting
        room = support + max(support, tuning.room)
        if many > room:
            over = np.where(x[V] != 0.0, np.inf, np.abs(g[V]) - zero_threshold[V])
            V = np.sort(V[np.argpartition(-over, room)[:room]])
        return V


def on_the_way(problem: Problem, loss_at: LossAt, before: Array) -> Array:
    """The mean of φ'' between z and as far on as it has come from `before`: a difference of φ'."""
    ends, out = problem.loss_at(2.0 * loss_at.z - before), np.empty_like(loss_at.z)
    secants(ends.z, ends.u, loss_at.z, loss_at.u, loss_at.second, problem.tuning.short_move, out)
    return out


def on_the_way_back(tuning: Tuning, loss_at: LossAt, came: LossAt, used: Array) -> Array:
    """φ'' at z; its mean since `came`, if larger, in rows that were stiffer than `used` told.

    Such a row has gone too far, and will come back over where it has been. Where one row is much
    larger than the others, φ'' at the far end would send it to and fro.
    """
    out = np.empty_like(loss_at.z)
    stiffest(loss_at.z, loss_at.u, came.z, came.u, loss_at.second, used, tuning.short_move, out)
    return out


def suits(problem: Problem) -> bool:
    """Whether models are to be had by products of columns: convex, curved, and in float64."""
    loss, penalty = problem.loss, problem.penalty
    if not (loss.convex and penalty.convex and penalty.shipped) or loss.quadratic:
        return False
    if not penalty.is_scalar or problem.design.dtype != np.float64:
        return False
    return bool(penalty.zero_threshold.min() >= 0 and 0 < penalty.top < np.inf)


def warm_start(problem: Problem, state: State, budget: int) -> bool:
    """Bring a state at x = 0 to the solution, roughly; no if that was not got to.

    With many rows to a column products cost more than checks: fewer λ are stopped at. There
    (unless an intercept moves along, which working sets follow slowly), and where a check reads
    very much, λ near λ_max are left to the working sets.
    """
    design, penalty, tuning = problem.design, problem.penalty.penalty, problem.tuning
    if not suits(problem):
        return False
    largest, lam = float(penalty.lam_max(state.measured.g)), float(penalty.lam)
    tall, large = tuning.cost.is_tall(design), design.entries > tuning.large_design
    direct = large or (tall and not problem.fit_intercept)
    if not 0 < lam < largest < np.inf or (direct and lam > tuning.direct_lam * largest):
        return False
    step = tuning.lam_step_tall if tall else tuning.lam_step[0]
    easier = [problem.at(penalty.scaled(at)) for at in lams_between(largest, lam, step)]
    there = Predictor(problem).descend(problem, state, easier, budget)
    if not there:  # else the last check was made at this λ, and what it knows is kept
        rebase(problem, state)
    return there


def lams_between(largest: float, lam: float, step: float) -> list[float]:
    """λ strictly between, decreasing by the factor `step` or a little less."""
    stages = int(np.ceil(np.log(lam / largest) / np.log(step) - 1e-9))  # 2 and rounding is 2
    return [float(at) for at in np.geomspace(largest, lam, stages + 1)[1:-1]]
