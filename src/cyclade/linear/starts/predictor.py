"""One model of the loss per λ, on the way down: along a path, and to the λ of a single fit.

From the solution at one λ the next is a short way off, δ. The slopes are known from the check that
the last λ ended with. The curvature is the mean of φ'' along the way, as far as the last step tells
where that goes, since  φ'(z + δ) = φ'(z) + (mean of φ'' between) δ:  so one model is as good as two
Newton steps. On a path its columns are the support and those that the strong rule,
|∇_j f| > λ − (λ_before − λ), does not rule out; in larger steps the support and the columns that
violate optimality most. A check of all columns follows, which tells how good it was: what is
missing is left to another such step, and then to the working sets. Rows that went too far in a
larger step come back under the mean of φ'' over the way they made.

Where products of columns cost more than a few checks they are used again, as long as steps with
them still bring the point much nearer: the slopes are always new, so only the speed is at stake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import measure
from cyclade.linear.kernels.quadratic import ahead
from cyclade.linear.kernels.quadratic import minimise as minimise_quadratic
from cyclade.linear.kernels.secants import secants, stiffest
from cyclade.linear.kernels.strong import pulled, strong
from cyclade.linear.loss_at import LossAt
from cyclade.linear.losses import Squared
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import FLOOR_FLAT, LEAST, Model
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.subproblem.panel_solver import PanelSolver
from cyclade.linear.weighted_columns import Columns
from cyclade.linear.working_set import State, rebase

Array = NDArray[Any]

STRIDE = 0.8  # of the λ before: on a path, a smaller λ is too far off for the strong rule
STEPS = 3  # at most, at one λ of a path
ENOUGH = 2e-3  # of λ: the distance at which no further step is made
PRECISE = 0.01  # what part of its first distance a model is minimised to
DEARER = 0.03  # the same where columns are too many to multiply
FAR = 1e-4  # moves of z: for shorter ones φ'' is its own mean
HALVED = 4  # lengths of a step that are tried
WORTH = 0.2  # of the distance before it: a step that leaves more than this was made with a bad G
WIDER = 0.85  # of its threshold: the pull of columns whose products are made for later, if dear
DEAR = 1.5  # checks: products that cost more are used again
ROW = 20  # what the loss costs per row, in entries
# On the way to a single fit:
RATIO = 0.3  # of one λ to the one before
STEEP = 0.2  # the same where there are many rows to a column
ROUGH = 0.03  # what part of its first distance a model is minimised to
MISSED = 0.8  # of λ: at a larger distance another step is made before the next λ
FINAL = 8  # steps at most at the last λ
ENTRY = 0.25  # of the largest violation: columns with less wait for the next step
ROOM = 48  # columns that may always come in
BIG = 2**20  # entries: of a larger X, λ near λ_max are reached at once, with fewer checks
NEAR = 0.05  # of λ_max


class Predictor:
    """What is kept from one λ to the next."""

    def __init__(self, problem: Problem) -> None:
        self.possible = suits(problem)
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
        self.gram = Gram()  # of them, with factors that are kept
        self.keeping = True  # whether products may be of use at the next λ
        self.dear = False  # whether they cost much
        self.good = False  # whether these are worth using again

    def follow(self, problem: Problem, state: State, most: int) -> bool:
        """Go on to the λ of `problem` from the solution for the last, as far as that is easy.

        Returns whether a step was made; if not, the state is as it was.
        """
        zero_threshold, before, z, x = (
            problem.penalty.zero_threshold,
            self.zero_threshold,
            self.z,
            self.x,
        )
        top, (first, last) = problem.penalty.top, self.tops
        self.zero_threshold, self.z, self.x, self.tops = (
            zero_threshold,
            state.loss_at.z,
            state.x,
            (last, top),
        )
        if not self.possible or before is None:
            return False
        self.good &= self.dear
        curvature = state.loss_at.second if z is None else on_the_way(problem, state.loss_at, z)
        self.came = None
        if x is not None and first > last:
            self.came = x, min((last - top) / (first - last), 1.0)
        enough = ENOUGH * top
        for made in range(STEPS):
            many = strong(state.x, state.measured.g, zero_threshold, before, STRIDE, self.cols)
            V = self.cols[: max(many, 0)].copy()
            if not V.size or not self.step(problem, state, V, curvature, most, PRECISE):
                return made > 0
            curvature, self.came = state.loss_at.second, None
            if state.measured.distance <= enough or state.passes >= most:
                break
        return True

    def step(
        self, problem: Problem, state: State, V: Array, curvature: Array, most: int, precise: float
    ) -> bool:
        """A model over the columns V, its minimum and a check there; no if F has not come down.

        What was measured may have been so at the λ before: only the slopes are taken from it.
        """
        penalty, now = problem.penalty, state.measured
        distances = penalty.distances(V, state.x[V], now.gradient.exactly(V))
        first = max(float(distances.max()), abs(now.slope))
        again = self.good and bool(self.inside[V].all())
        if again or self.form(problem, state, V, curvature):
            M, (new, shift) = self.members, self.by_products(problem, state, precise * first, most)
        elif self.keeping:
            M, (new, shift) = V, self.by_columns(problem, state, V, curvature, most)
        else:
            return False
        x = state.x[M]
        dx = new - x
        F, whole = state.loss_at.value + penalty.total(M, x), state.x.copy()
        for halved in range(HALVED):
            t = 0.5**halved
            whole[M] = new if halved == 0 else x + t * dx
            there = problem.loss_at(problem.predict(whole, state.c + t * shift, M))
            if there.value + penalty.total(M, whole[M]) < F:
                break
        else:
            return False
        state.x, state.c, state.loss_at = whole, state.c + t * shift, there
        state.measured = measure(problem, whole, there)
        state.working, state.fresh = M, True
        self.good = state.measured.distance <= WORTH * first
        return True

    def by_products(
        self, problem: Problem, state: State, goal: float, most: int
    ) -> tuple[Array, float]:
        """The minimum of the model in the space of its columns; what the intercept moves by."""
        penalty, now, M = problem.penalty, state.measured, self.members
        x = state.x[M]
        new, c = x.copy(), self.means * now.slope - now.gradient.exactly(M)
        if self.came is not None:
            ahead(state.x, *self.came, M, self.G, c, new)
        left = most - state.passes
        if self.dear:  # they will be used again, and so will factors of them
            gram = self.gram
            gram.c, gram.x, gram.penalty = c, new, penalty
            state.passes += gram.minimise(goal, left)
        else:
            state.passes += minimise_quadratic(
                self.G,
                c,
                new,
                self.L,
                M,
                penalty.parameters,
                penalty.zero_threshold,
                goal,
                left,
                False,
            )
        if not problem.fit_intercept:
            return new, 0.0
        return new, -now.slope / self.mass - float(self.means @ (new - x))

    def by_columns(
        self, problem: Problem, state: State, V: Array, curvature: Array, most: int
    ) -> tuple[Array, float]:
        """The same by cycles over the columns V themselves, which are too many to multiply."""
        model = Model(problem, state.loss_at, 1.0, 1.0, self.weights(problem, curvature))
        panel_solver, x, every = PanelSolver(model.panel(V)), state.x[V], np.arange(V.size)
        panel_solver.panel.start(model.start(), x)
        enough = 0.1 * ENOUGH * problem.penalty.top
        panel_solver.cycle(problem.penalty, state, every, enough, most, DEARER)
        new = panel_solver.panel.x[: V.size].astype(np.float64)
        return new, model.move(panel_solver.panel, new - x)[1]

    def weights(self, problem: Problem, curvature: Array) -> Array:
        """s times the curvature, lifted where that is next to nothing."""
        w = problem.s * curvature
        if problem.loss.flat and np.isfinite(problem.loss.bound):
            w = np.maximum(w, FLOOR_FLAT * problem.loss.bound * problem.s)
        return np.asarray(np.maximum(w, LEAST * float(w.max(initial=1e-300))))

    def form(self, problem: Problem, state: State, V: Array, curvature: Array) -> bool:
        """Products of the columns V, and of more if that is dear; no if they are too many."""
        design, fit_intercept = problem.design, problem.fit_intercept
        close = None
        if self.columns is None or not (self.place[V] >= 0).all():
            close = self.close(problem, state, V) if self.keeping else V
            self.columns = design.columns(close, fit_intercept, True, kept=self.keeping)
            if self.columns is None:
                return False
            self.place[:] = -1
            self.place[self.columns.cols] = np.arange(self.columns.cols.size)
        columns = self.columns
        price = DEAR * (design.entries + ROW * design.n)
        self.dear = self.keeping and columns.price(self.place[V]) > price
        if self.dear:
            V = self.close(problem, state, V) if close is None else close
            V = V[self.place[V] >= 0]
        at, w = self.place[V], self.weights(problem, curvature)
        G = columns.products(at, w)
        self.mass, self.means = float(w.sum()), columns.centres[at]
        if fit_intercept:  # minimised over first; the columns have been centred, all rows alike
            sums, lowest = columns.slopes(w)[at], 1e-12 * G.diagonal()
            G -= np.outer(sums, sums / self.mass)
            G.flat[:: V.size + 1] = np.maximum(G.diagonal(), lowest)
            self.means = self.means + sums / self.mass
        self.L = np.maximum(G.diagonal(), np.finfo(np.float64).tiny)
        self.G, self.members = G, V
        if self.dear:
            self.gram = Gram.of(G, self.L, self.L, V, problem.penalty)
        self.inside[:] = False
        self.inside[V] = True
        return True

    def close(self, problem: Problem, state: State, V: Array) -> Array:
        """V and the columns that may soon be in it, if those are not too many."""
        near = np.abs(state.measured.g) > WIDER * problem.penalty.zero_threshold
        near[V] = True
        cols = np.flatnonzero(near)
        return cols if cols.size <= 2 * V.size + 32 else V

    def descend(self, problem: Problem, state: State, easier: list[Problem], most: int) -> bool:
        """From zero to the λ of `problem`: a step at every λ before, and some at the last.

        Where a step has missed, another is made at the same λ. Returns whether the last λ was got
        to; if not, the state is where a step failed.
        """
        self.keeping = False
        stages, at, before, here, fresh = [*easier, problem], 0, None, state.loss_at.z, True
        came, curvature = state.loss_at, state.loss_at.second
        for _ in range(STEPS * len(easier) + FINAL):
            now, last, loss_at = stages[at], at == len(easier), state.loss_at
            if not fresh:
                curvature = on_the_way_back(loss_at, came, curvature)
            elif before is not None:
                curvature = on_the_way(problem, loss_at, before)
            came = loss_at
            self.good &= not fresh
            V = self.violating(now, state)
            if not V.size or not self.step(now, state, V, curvature, most, ROUGH):
                break
            if state.passes >= most:
                break
            missed = state.measured.distance / now.penalty.top
            fresh = missed <= (ENOUGH if last else MISSED)
            if fresh and last:
                break
            if fresh:
                at, before, here = at + 1, here, state.loss_at.z
        return state.measured.problem is problem

    def violating(self, problem: Problem, state: State) -> Array:
        """The support, and the columns that violate optimality most: at most about as many."""
        x, g, zero_threshold = state.x, state.measured.g, problem.penalty.zero_threshold
        many, resting = pulled(x, g, zero_threshold, ENTRY, self.cols)
        V, support = self.cols[:many].copy(), many - resting
        most = support + max(support, ROOM)
        if many > most:
            over = np.where(x[V] != 0.0, np.inf, np.abs(g[V]) - zero_threshold[V])
            V = np.sort(V[np.argpartition(-over, most)[:most]])
        return V


def on_the_way(problem: Problem, loss_at: LossAt, before: Array) -> Array:
    """The mean of φ'' between z and as far on as it has come from `before`: a difference of φ'."""
    ends, out = problem.loss_at(2.0 * loss_at.z - before), np.empty_like(loss_at.z)
    secants(ends.z, ends.u, loss_at.z, loss_at.u, loss_at.second, FAR, out)
    return out


def on_the_way_back(loss_at: LossAt, came: LossAt, used: Array) -> Array:
    """φ'' at z; its mean since `came`, if larger, in rows that were stiffer than `used` told.

    Such a row has gone too far, and will come back over where it has been. Where one row is much
    larger than the others, φ'' at the far end would send it to and fro.
    """
    out = np.empty_like(loss_at.z)
    stiffest(loss_at.z, loss_at.u, came.z, came.u, loss_at.second, used, FAR, out)
    return out


def suits(problem: Problem) -> bool:
    """Whether models are to be had by products of columns: convex, curved, and in float64."""
    loss, penalty = problem.loss, problem.penalty
    if not (loss.convex and penalty.convex and penalty.shipped) or type(loss) is Squared:
        return False
    zero_threshold = penalty.zero_threshold
    return (
        problem.design.dtype == np.float64
        and zero_threshold.min() >= 0
        and 0 < penalty.top < np.inf
    )


def warm_start(problem: Problem, state: State, penalty: Any, most: int) -> bool:
    """Bring a state at x = 0 to the solution for `penalty`, roughly; no if that was not got to.

    With many rows to a column products cost more than checks: fewer λ are stopped at. There, and
    where a check reads very much, λ near λ_max are left to the working sets.
    """
    design = problem.design
    if not suits(problem):
        return False
    largest, lam = float(penalty.lam_max(state.measured.g)), float(penalty.lam)
    tall = design.entries < ROW * design.n
    if not 0 < lam < largest < np.inf or ((tall or design.entries > BIG) and lam > NEAR * largest):
        return False
    stages = int(np.ceil(np.log(lam / largest) / np.log(STEEP if tall else RATIO)))
    lams = np.geomspace(largest, lam, stages + 1)[1:-1]
    easier = [problem.at(penalty.scaled(float(at))) for at in lams]
    there = Predictor(problem).descend(problem, state, easier, most)
    rebase(problem, state)
    return there
