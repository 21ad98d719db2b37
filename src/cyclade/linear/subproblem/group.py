"""Blocks of several entries: quadratic models of the loss, and cycles over groups or rows.

repeat  a quadratic model of the loss at z;
        minimise it over the blocks W, one after another;
        move towards its minimiser as far as F falls (Armijo).

Classes pull against each other: models of the softmax loss have the whole Hessian of every row, and
few columns of them are minimised over on products (`classes.py`).

After every few cycles the last points are combined so that the combination of their differences is
as short as can be (Anderson). The combination is kept if it is lower; it costs no product with X,
as the residual is combined alongside.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels.group import anderson_combine, anderson_weights, copy_blocks
from cyclade.linear.loss_at import by_rows
from cyclade.linear.panels.group import BlockPanel, GroupPanel, OutputPanel, Past
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, line_search, next_damping
from cyclade.linear.state import NO_COLUMNS, State
from cyclade.linear.subproblem.classes import Products
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


def improve(problem: Problem, state: State, W: Array, target: float, budget: int) -> bool:
    """Minimise over the blocks W and the intercept until they are stationary to the target."""
    state.working = W
    tuning, damping, best, stalled = problem.tuning, 1.0, np.inf, 0
    make: type[Cycles | Products] = Cycles
    if problem.loss.softmax and W.size * problem.penalty.T <= tuning.most_columns:
        # Such models are Newton's, and cheap beside a check.
        make, target = Products, state.target
    while state.passes < budget:
        model = make(problem, state, W, damping)
        stalled = 0 if model.distance < tuning.stall_drop * best else stalled + 1
        best = min(best, model.distance)
        if model.distance <= target or stalled > limits.IDLE:
            break
        state.passes += max(1, model.minimise(target, budget - state.passes))
        end = problem.loss_at(state.loss_at.z + model.moved())
        if problem.loss.quadratic:
            state.x, state.loss_at = model.x, end
            break
        damping = move(problem, state, model.x, end, damping)
        if damping > 1.0 / numerics.FLAT:
            break
    if state.loss_at is not state.measured.loss_at:
        refresh(problem, state)
    return True


class Cycles:
    """The loss around the point of a state as a quadratic function, `damping` times as curved.

    It is minimised by cycles over the columns of a panel, which is kept if the model is exact.
    """

    def __init__(self, problem: Problem, state: State, W: Array, damping: float) -> None:
        here, now, self.W, self.tuning = state.loss_at, state.measured, W, problem.tuning
        self.exact, measured = problem.loss.quadratic, here is now.loss_at
        self.model = None if problem.loss.softmax else Model(problem, here, damping, state.trust)
        panel = state.kept.get("groups")
        if panel is None:
            panel = block_panel(problem, here, self.model, damping)
            if self.exact:
                state.kept["groups"] = panel
        panel.include(W)
        # The model has the gradient of F where it is made.
        R = -here.slopes if self.model is None else self.model.start()
        panel.start(R, state.x.copy(), (now.g, now.slope) if measured else None)
        penalty: Any = problem.penalty
        self.panel = panel
        self.descent = Descent(panel, penalty, problem.tuning)
        self.far = now.distances[W] if measured else self.descent.distances(W)
        self.distance = float(self.far.max(initial=0.0))
        # A set that has just grown is checked sooner: the next will differ from it.
        settled = state.on_path or W.size <= 1.5 * penalty.occupied(state.x).sum()
        self.bursts = 2 if settled else 1

    @property
    def x(self) -> Array:
        """All coefficients, flat."""
        return np.asarray(self.panel.x.reshape(-1))

    def minimise(self, target: float, budget: int) -> int:
        """To the target if the model is exact, else to a part of the distance; cycles made."""
        if not self.exact:
            target = max(self.tuning.forcing * self.distance, 0.5 * target)
        return self.descent.run(
            self.W, target, budget, self.far, trust=self.exact, bursts=self.bursts
        )

    def moved(self) -> Array:
        """What z changes by on the way from the start to x, with the best intercept."""
        if self.model is None:
            return np.asarray(self.panel.moved())
        R, root = self.model.R, self.model.root
        return np.asarray((R - self.panel.residual().reshape(R.shape)) / root)


def move(problem: Problem, state: State, x: Array, end: Any, damping: float) -> float:
    """Move to the minimiser x of the model, or part of the way; the damping of the next model."""
    penalty: Any = problem.penalty
    dx, every = x - state.x, penalty.numbers
    t, loss_at = line_search(
        problem, state.loss_at, end,
        lambda t: penalty.total(every, x if t == 1.0 else state.x + t * dx),
    )  # fmt: skip
    if t > 0:
        state.x, state.loss_at = x if t == 1.0 else state.x + t * dx, loss_at
    return next_damping(state, damping, t, problem.tuning)


def refresh(problem: Problem, state: State) -> None:
    """z computed from x again; the intercept from what z was before."""
    z = problem.predict(state.x, state.c)
    if problem.fit_intercept:
        shift: Any = problem.s @ (state.loss_at.z - z)
        state.c, z = state.c + shift, z + shift
    state.loss_at, state.fresh = problem.loss_at(z), True


def block_panel(problem: Problem, here: Any, model: Model | None, damping: float) -> Any:
    """The panel for this penalty, storage of X and model; the softmax loss needs no `model`."""
    design: Any = problem.design
    penalty: Any = problem.penalty
    centred = problem.fit_intercept
    if model is None:
        return OutputPanel(design, by_rows(damping * problem.s, here.p), centred, penalty, here.p)
    if penalty.entrywise or (penalty.T > 1 and not (model.exact and design.is_dense)):
        return OutputPanel(design, model.w, centred, penalty)
    # An exact model starts from a measured gradient: single precision is enough. It saves
    # time where columns come from main memory, and costs cycles that rounding makes in vain.
    single = model.exact and design.is_dense and design.entries > problem.tuning.large
    w = np.ascontiguousarray(model.w.reshape(design.n, -1)[:, 0])
    columns = design.panel(NO_COLUMNS, w, centred, np.float32 if single else design.dtype)
    return GroupPanel(columns, penalty.columns, penalty.starts, penalty.rotated, penalty.T)


class Descent:
    """A panel with the penalty of its blocks: cycles and extrapolation on one model."""

    def __init__(self, panel: BlockPanel, penalty: Any, tuning: Tuning = DEFAULT) -> None:
        self.panel, self.penalty, self.tuning = panel, penalty, tuning

    def distances(self, blocks: Array) -> Array:
        """How far each of the blocks is from stationary in the model."""
        x, slopes = self.panel.x.reshape(-1), self.panel.slopes(blocks)
        return np.asarray(self.penalty.distances(blocks, x, -slopes))

    def value(self, blocks: Array) -> float:
        """The model at the present point, without the penalty on other blocks."""
        return self.panel.loss() + float(self.penalty.total(blocks, self.panel.x.reshape(-1)))

    def run(
        self, blocks: Array, target: float, budget: int, distances: Array | None = None, *,
        trust: bool = False, bursts: int = 1,
    ) -> int:  # fmt: skip
        """Cycle until all of the blocks are stationary to the target; the cycles made.

        `distances` are those of the blocks at the start, where they are known. With `trust`, small
        moves are taken for stationarity: for callers that check all blocks next. `bursts` of cycles
        are made before the blocks are checked for the first time.
        """
        panel, tolerance = self.panel, self.tuning.inner_part * target
        done, stalled, best = 0, 0, np.inf
        while True:
            far = self.distances(blocks) if distances is None else distances
            distances, worst = None, float(far.max(initial=0.0))
            stalled = 0 if worst < self.tuning.stall_drop * best else stalled + 1
            best = min(best, worst)
            if done >= budget or worst <= target or stalled > limits.IDLE:
                return done
            active = self.penalty.occupied(panel.x)[blocks] | (far > self.tuning.forcing * target)
            chosen = blocks[active]
            for _ in range(bursts):
                made, largest = self.burst(chosen, budget - done, tolerance)
                done += made
                if largest <= tolerance and trust:
                    return done
                if largest <= tolerance or done >= budget:
                    break
            bursts = min(2 * bursts, 8)

    def burst(self, blocks: Array, budget: int, tolerance: float) -> tuple[int, float]:
        """A few cycles over the chosen blocks, and an extrapolation."""
        panel, depth = self.panel, self.tuning.burst
        past_x, past_R = self.past
        copy_blocks(panel.x.reshape(-1), self.penalty.starts, blocks, past_x[0].reshape(-1))
        past_R[0] = panel.R
        done, largest = panel.cycles(
            blocks, self.penalty.table, min(depth, budget), tolerance, (past_x, past_R)
        )
        if done == depth and largest > tolerance:
            self.extrapolate(blocks, past_x.reshape(depth + 1, -1), past_R.reshape(depth + 1, -1))
        return done, largest

    @cached_property
    def past(self) -> Past:
        """Memory for the last points."""
        x, R, points = self.panel.x, self.panel.R, self.tuning.burst + 1
        return np.empty((points, *x.shape)), np.empty((points, *R.shape), R.dtype)

    def extrapolate(self, blocks: Array, past_x: Array, past_R: Array) -> None:
        """Combine the last points; keep the combination if it is lower."""
        x, R, starts = self.panel.x.reshape(-1), self.panel.R.reshape(-1), self.penalty.starts
        c = np.empty(len(past_x) - 1)
        if not anderson_weights(past_x, starts, blocks, c):
            return
        value = self.value(blocks)
        anderson_combine(past_x, past_R, starts, blocks, c, x, R)
        if not self.value(blocks) < value:
            last = np.eye(c.size)[-1]
            anderson_combine(past_x, past_R, starts, blocks, last, x, R)
