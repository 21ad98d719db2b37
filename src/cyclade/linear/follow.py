"""Along a path: mostly one model of the loss per λ, made where it is wanted.

From the solution at one λ the next is a short way off, δ. The slopes are known from the check that
the last λ ended with. The curvature is taken half a step ahead, by the way of the last step, since

    ∇f(x + δ) = ∇f(x) + ∇²f(x + δ/2) δ + O(δ³),

so one model is as good as two Newton steps. Its columns are the support and those that the strong
rule, |∇_j f| > λ − (λ_before − λ), does not rule out. A check of all columns follows, which tells
how good it was: what is missing is left to another such step, and then to the working sets.

Where products of columns cost more than a few checks they are used again, as long as steps with
them still bring the point much nearer: the slopes are always new, so only the speed is at stake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.certificate import measure
from cyclade.linear.kernels.quadratic import minimise as minimise_quadratic
from cyclade.linear.kernels.strong import strong
from cyclade.linear.look import Look
from cyclade.linear.losses import Squared
from cyclade.linear.newton import LEAST
from cyclade.linear.problem import Problem
from cyclade.linear.weighted import Columns
from cyclade.linear.working_sets import State

Array = NDArray[Any]

STRIDE = 0.8  # of the λ before: a smaller λ is too far off for one model
STEPS = 3  # at most, at one λ
ENOUGH = 2e-3  # of λ: the distance at which no further step is made
PRECISE = 3e-3  # what part of its first distance a model is minimised to
WORTH = 0.2  # of the distance before it: a step that leaves more than this was made with a bad G
WIDER = 0.85  # of its threshold: the pull of columns whose products are made for later, if dear
DEAR = 1.5  # checks: products that cost more are used again
ROW = 20  # what the loss costs per row, in entries


class Follower:
    """What is kept from one λ to the next."""

    def __init__(self, problem: Problem) -> None:
        loss, penalty = problem.loss, problem.penalty
        self.possible = (
            loss.convex and penalty.convex and penalty.shipped and type(loss) is not Squared
            and problem.design.dtype == np.float64 and bool((penalty.still >= 0).all())
        )  # fmt: skip
        self.still: Array | None = None  # thresholds at the λ before
        self.z: Array | None = None  # at the solution before the last
        self.columns: Columns | None = None
        self.place = np.full(problem.design.p, -1)  # of a coordinate among the columns
        self.names = np.empty(problem.design.p, np.int64)  # room for some coordinates
        self.members = np.empty(0, np.int64)  # coordinates with products
        self.inside = np.zeros(problem.design.p, np.bool_)  # whether they are
        self.G, self.L, self.means, self.mass = np.empty((0, 0)), np.empty(0), np.empty(0), 1.0
        self.dear, self.good = (
            False,
            False,
        )  # whether they cost much; whether these products are worth using again

    def follow(self, problem: Problem, state: State, most: int) -> bool:
        """Go on to the λ of `problem` from the solution for the last, as far as that is easy.

        Returns whether a step was made; if not, the state is as it was.
        """
        still, before, z = problem.penalty.still, self.still, self.z
        self.still, self.z = still, state.look.z
        if not self.possible or before is None:
            return False
        self.good &= self.dear
        ahead = state.look if z is None else problem.look(1.5 * state.look.z - 0.5 * z)
        enough = ENOUGH * float(still.max(initial=0.0))
        for made in range(STEPS):
            many = strong(state.x, state.measured.g, still, before, STRIDE, self.names)
            if many <= 0 or not self.step(problem, state, self.names[:many].copy(), ahead, most):
                return made > 0
            ahead = state.look
            if state.measured.distance <= enough or state.passes >= most:
                break
        return True

    def step(self, problem: Problem, state: State, V: Array, ahead: Look, most: int) -> bool:
        """A model over the columns V, its minimum and a check there; no if F has not come down.

        What was measured may have been so at the λ before: only the slopes are taken from it.
        """
        again = self.good and bool(self.inside[V].all())
        if not again and not self.form(problem, state, V, ahead):
            return False
        penalty, now, M = problem.penalty, state.measured, self.members
        x, g = state.x[M], now.g[M]
        first = max(float(penalty.distances(M, x, g).max()), abs(now.slope))
        new, c = x.copy(), self.means * now.slope - g
        state.passes += minimise_quadratic(
            self.G, c, new, self.L, M, penalty.parameters, penalty.still, PRECISE * first,
            most - state.passes,
        )  # fmt: skip
        shift = 0.0
        if problem.fit_intercept:
            shift = -now.slope / self.mass - float(self.means @ (new - x))
        whole = state.x.copy()
        whole[M] = new
        there = problem.look(problem.predict(whole, state.c + shift, M))
        measured = measure(problem, whole, there)
        self.good = measured.distance <= WORTH * first
        if not measured.objective < state.look.value + penalty.total(M, x):
            return False
        state.x, state.c, state.look, state.measured = whole, state.c + shift, there, measured
        state.working, state.fresh = M, True
        return True

    def form(self, problem: Problem, state: State, V: Array, ahead: Look) -> bool:
        """Products of the columns V, and of more if that is dear; no if they are too many."""
        design, fit_intercept = problem.design, problem.fit_intercept
        close = None
        if self.columns is None or not (self.place[V] >= 0).all():
            close = self.close(problem, state, V)
            self.columns = design.columns(close, fit_intercept, more=True)
            if self.columns is None:
                return False
            self.place[:] = -1
            self.place[self.columns.names] = np.arange(self.columns.names.size)
        columns = self.columns
        self.dear = columns.price(self.place[V]) > DEAR * (design.entries + ROW * design.n)
        if self.dear:
            V = self.close(problem, state, V) if close is None else close
            V = V[self.place[V] >= 0]
        at, w = self.place[V], problem.s * ahead.second
        w = np.maximum(w, LEAST * float(w.max(initial=1e-300)))
        G = columns.products(at, w)
        self.mass, self.means = float(w.sum()), columns.centres[at]
        if fit_intercept:  # minimised over first; the columns have been centred, all rows alike
            sums, lowest = columns.slopes(w)[at], 1e-12 * G.diagonal()
            G -= np.outer(sums, sums / self.mass)
            G.flat[:: V.size + 1] = np.maximum(G.diagonal(), lowest)
            self.means = self.means + sums / self.mass
        self.L = np.maximum(G.diagonal(), np.finfo(np.float64).tiny)
        self.G, self.members = G, V
        self.inside[:] = False
        self.inside[V] = True
        return True

    def close(self, problem: Problem, state: State, V: Array) -> Array:
        """V and the columns that may soon be in it, if those are not too many."""
        near = np.abs(state.measured.g) > WIDER * problem.penalty.still
        near[V] = True
        names = np.flatnonzero(near)
        return names if names.size <= 2 * V.size + 32 else V
