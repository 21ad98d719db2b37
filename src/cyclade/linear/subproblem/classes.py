"""Several classes: Newton models of the loss with the whole Hessian of every row.

With probabilities p_i the multinomial loss of a row has the Hessian diag(p_i) − p_i p_iᵀ. Classes
pull against each other, so models that know only a diagonal above it converge slowly. Here

repeat  a model of the loss at z with the whole Hessian;
        minimise it over the rows W and the intercepts;
        move towards its minimiser as far as F falls (Armijo).

There are two ways to minimise it. `Products` is for |W| T up to a few thousand: the model in the
space of the coefficients, G = Σ_i s_i (a_i a_iᵀ) ⊗ (diag(p_i) − p_i p_iᵀ) with the intercepts
eliminated, by cycles and Newton steps. `Cycles` goes over the columns of X.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import classes
from cyclade.linear.panels.classes import ClassPanel
from cyclade.linear.problem import Problem
from cyclade.linear.state import State
from cyclade.linear.subproblem.gram import Gram
from cyclade.linear.subproblem.group import Descent, move, refresh
from cyclade.linear.subproblem.row_gram import RowGram
from cyclade.linear.weighted_columns import Columns

Array = NDArray[Any]


def improve(problem: Problem, state: State, W: Array, goal: float, budget: int) -> bool:
    """Minimise over the rows W and the intercepts until they are goal-stationary."""
    state.working = W
    tuning, damping, best, stalled = problem.tuning, 1.0, np.inf, 0
    few = W.size * problem.penalty.T <= tuning.max_class_products
    if few:  # models are cheap beside a check, and Newton's
        goal = max(state.target, tuning.class_forcing * goal)
    while state.passes < budget:
        make = Products if few else Cycles
        model: ClassModel = make(problem, state, W, damping)
        stalled = 0 if model.distance < 0.9 * best else stalled + 1
        best = min(best, model.distance)
        if model.distance <= goal or stalled > tuning.stalled_rounds:
            break
        state.passes += max(1, model.minimise(goal, budget - state.passes))
        there = problem.loss_at(state.loss_at.z + model.moved())
        damping = move(problem, state, model.x, there, damping)
        if damping > 1e12:
            break
    if state.loss_at is not state.measured.loss_at:
        refresh(problem, state)
    return True


class ClassModel(Protocol):
    """The loss around the point of `state` as a quadratic function, `damping` times as curved."""

    distance: float  # dist(∂F, 0) on W where the model is made

    @property
    def x(self) -> Array:
        """All coefficients, flat."""

    def minimise(self, goal: float, budget: int) -> int:
        """Move x towards the minimiser; the cycles made."""

    def moved(self) -> Array:
        """What z changes by on the way from the start to x, with the best intercepts."""


class Cycles:
    """By cycles over the columns, with a diagonal above the Hessian of each row of x."""

    def __init__(self, problem: Problem, state: State, W: Array, damping: float) -> None:
        here: Any = state.loss_at
        self.W, self.tuning = W, problem.tuning
        self.panel = ClassPanel(
            problem.design, here.p, damping * problem.s, problem.fit_intercept, problem.penalty
        )
        self.panel.include(W)
        self.panel.start(-here.slopes, state.x.copy())
        self.descent = Descent(self.panel, problem.penalty, problem.tuning)
        self.far = self.descent.distances(W)
        self.distance = float(self.far.max(initial=0.0))

    @property
    def x(self) -> Array:
        """All coefficients, flat."""
        return self.panel.x.reshape(-1)

    def minimise(self, goal: float, budget: int) -> int:
        """To a part of the first distance."""
        aim = max(self.tuning.group_forcing * self.distance, 0.5 * goal)
        return self.descent.run(self.W, aim, budget, self.far)

    def moved(self) -> Array:
        """From the coefficients."""
        return self.panel.moved()


class Products:
    """In the space of the coefficients of W, the intercepts eliminated."""

    def __init__(self, problem: Problem, state: State, W: Array, damping: float) -> None:
        here: Any = state.loss_at
        self.penalty: Any = problem.penalty
        self.tuning, self.bordered, self.damping = problem.tuning, problem.fit_intercept, damping
        self.p, self.s, self.W, self.slope = here.p, problem.s, W, problem.slope(here)
        self.columns = columns_of(problem, state, W)
        self.at = np.searchsorted(self.columns.cols, W)
        self.x, self.begun = state.x.copy(), state.x.reshape(-1, self.penalty.T)[W]
        g = np.zeros((problem.design.p, self.penalty.T))
        centred = self.columns.slopes(here.slopes)[self.at]
        g[W] = centred + self.columns.centres[self.at][:, None] * self.slope
        far = self.penalty.distances(W, self.x, g.reshape(-1))
        self.downhill, self.distance = -centred.reshape(-1), float(far.max(initial=0.0))

    def minimise(self, goal: float, budget: int) -> int:
        """To a small part of the first distance: cycles on products are cheap."""
        G, b = self.products()
        T, W, x = self.penalty.T, self.W, self.begun.reshape(-1)
        gram: Any
        if self.penalty.entrywise:
            gram = Gram.of(G, b, x, np.repeat(W, T), self.penalty.scalar, self.tuning)
        else:
            gram = RowGram(G, b, x, T, np.ascontiguousarray(self.penalty.table[W, 0]))
        aim = max(self.tuning.model_precision * self.distance, 0.1 * goal)
        done = int(gram.minimise(aim, min(self.tuning.max_model_cycles, budget)))
        self.x.reshape(-1, T)[W] = gram.x.reshape(-1, T)
        return done

    def products(self) -> tuple[Array, Array]:
        """G and minus the gradient, both without the intercepts."""
        k, (n, T), columns, at = self.at.size, self.p.shape, self.columns, self.at
        pairs = np.empty((T * T, n))
        classes.pairs(self.p, self.damping * self.s, pairs)
        G = np.empty((k, T, k, T))
        for t in range(T):
            G[:, t, :, t] = columns.products(at, pairs[t * T + t])
            for v in range(t):  # of positive weights, which is half the work
                G[:, t, :, v] = G[:, v, :, t] = -columns.products(at, -pairs[t * T + v])
        G, b = G.reshape(k * T, k * T), self.downhill
        if self.bordered:
            self.border = columns.slopes(pairs.T)[at].reshape(k * T, T)
            corner = pairs.sum(axis=1).reshape(T, T)
            corner += np.trace(corner) / T**2  # moving all classes alike changes nothing
            corner.flat[:: T + 1] += 1e-14 * np.trace(corner)
            self.inverse = np.linalg.inv(corner)
            gone = self.inverse @ self.border.T
            G -= self.border @ gone
            b = b + self.slope @ gone
        return G, b

    def moved(self) -> Array:
        """From the columns at hand."""
        dx = self.x.reshape(-1, self.penalty.T)[self.W] - self.begun
        dz = self.columns.combine(self.at, dx)
        if self.bordered:
            dz -= self.inverse @ (self.slope + dx.reshape(-1) @ self.border)
        return dz


def columns_of(problem: Problem, state: State, W: Array) -> Columns:
    """The columns W (and perhaps others), less their means if there are intercepts; kept."""
    kept: Columns | None = state.kept.get("classes")
    if kept is None or not np.isin(W, kept.cols, assume_unique=True).all():
        kept = state.kept["classes"] = problem.design.unweighted(W, problem.fit_intercept)
    return kept
