"""Sorted l1 (SLOPE): quadratic models of the loss, minimised by cycles over clusters.

Coordinates outside a working set W are zero and come last in the order, so the problem over W has
the |W| largest λ. A model  min ½‖R‖² + Σ_k λ_k |x|_(k)  is minimised in rounds of three steps:

* a proximal gradient step, which splits clusters of equal |x|: it sorts the members of a cluster by
  what pulls them and pools anew;
* a few cycles over the clusters, which move fast but never split one (`kernels/sorted_l1.py`);
* where clusters, their order and signs stayed the same, F is a quadratic in the sizes of the
  clusters: a Newton step goes to its minimum, or to the first point where two clusters meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels import linalg
from cyclade.linear.kernels import sorted_l1 as kernels
from cyclade.linear.panels.dense import DensePanel
from cyclade.linear.panels.sparse import SparsePanel
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, next_damping, step_length
from cyclade.linear.state import State
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


def improve(problem: Problem, state: State, W: Array, target: float, budget: int) -> bool:
    """Minimise over the coordinates W and the intercept until they are stationary to the target."""
    penalty: Any = problem.penalty
    tuning = problem.tuning
    lam, damping, state.working = penalty.lam[: W.size], 1.0, W
    while state.passes < budget and W.size:
        worst = distance_on(problem, state, W)
        if worst <= target:
            break
        model = Model(problem, state.loss_at, damping, state.trust)
        descent = descent_over(problem, state, W, model.w, lam)
        inner_target = tuning.inner_part * target
        if not model.exact:
            inner_target = max(inner_target, tuning.forcing * worst)
        x = state.x[W]
        new, made = descent.minimise(model.start(), x, inner_target, budget - state.passes)
        if not made:
            break  # the intercept alone is off, or rounding: a check of all columns decides
        state.passes += made
        dx = new - x
        dz, dc = model.move(descent.panel, dx)
        t, there = step_length(model, W, x, dx, problem.loss_at(model.z + dz))
        if t > 0.0:
            # At t = 1, x + dx would part the members of a cluster by rounding.
            state.x[W] = new if t == 1.0 else x + t * dx
            state.loss_at, state.c, state.fresh = there, state.c + t * dc, False
        damping = next_damping(state, damping, t, tuning)
        if damping > 1.0 / numerics.FLAT or model.exact:
            break
    return True


def distance_on(problem: Problem, state: State, W: Array) -> float:
    """The largest entry of dist(∂F, 0) on W and the intercept, where all others are zero."""
    loss_at = state.loss_at
    if loss_at is state.measured.loss_at:
        g = state.measured.g[W]
    else:
        g = problem.design.correlate_some(W, loss_at.slopes)
    far = problem.penalty.distances(W, state.x[W], g)
    return max(float(far.max()), abs(float(problem.slope(loss_at))))


def descent_over(problem: Problem, state: State, W: Array, w: Array, lam: Array) -> Descent:
    """Over the columns W under weights w, in float64 whatever X is; kept if the model is exact."""
    kept = state.kept.get("clusters") if problem.loss.quadratic else None
    if kept is None or not (np.array_equal(kept[0], W) and np.array_equal(kept[1].lam, lam)):
        panel = problem.design.panel(W, w, problem.fit_intercept, np.float64)
        kept = state.kept["clusters"] = W, Descent(panel, lam, problem.tuning)
    return kept[1]


class Descent:
    """A panel with the sequence λ_1 ≥ … ≥ λ_k of its k columns."""

    def __init__(self, panel: Any, lam: Array, tuning: Tuning = DEFAULT) -> None:
        self.panel: DensePanel | SparsePanel = panel
        self.lam, self.tuning, k = lam, tuning, lam.size
        self.Lam = np.concatenate([[0.0], np.cumsum(lam)])
        self.k, self.every = k, np.arange(k)
        self.bound = float(panel.L[:k].max())  # of ‖A d‖² / ‖d‖²: grows when it proves too small
        self.pattern: tuple[Array, ...] | None = None
        self.spent, self.entries = 0.0, panel.entries(self.every)
        self.known, self.place, self.G = self.every[:0], np.full(k, -1), np.empty((0, 0))

    def minimise(self, R: Array, x: Array, target: float, budget: int) -> tuple[Array, int]:
        """From x with residual R until each dist(∂, 0) ≤ target; x and the passes made."""
        self.panel.start(R, x)
        x, passes, best, stalled = x.copy(), 0, np.inf, 0
        while passes < budget:
            pull = self.panel.correlations()[: self.k]
            distance = float(np.abs(kernels.sorted_residuals(x, -pull, self.lam)[1]).max())
            stalled = 0 if distance < self.tuning.stall_drop * best else stalled + 1
            best = min(best, distance)
            # Stalled at rounding level: the check of all columns decides.
            if distance <= target or stalled == limits.STALLED:
                break
            x = self.split(x, pull)
            few = min(self.tuning.burst, budget - passes)
            x, made = self.cycle(x, few, self.tuning.forcing * target)
            passes += 1 + made
            self.spent += 2.0 * (1 + made) * self.entries
            if self.newton_pays(x):
                x = self.newton(x)
                passes += 1
        return x, passes

    def split(self, x: Array, pull: Array) -> Array:
        """A proximal gradient step; its length is right if ‖A dx‖² ≤ bound ‖dx‖²."""
        while True:
            new = kernels.prox(x + pull / self.bound, self.lam / self.bound)
            dx = new - x
            square = float(dx @ dx)
            if square == 0.0:
                return x
            bend = float(np.sum(self.panel.product(dx) ** 2)) / square
            if bend <= self.bound * (1.0 + 1e-6):
                break
            self.bound = max(bend, 1.5 * self.bound)
        self.panel.advance(self.every, dx)
        return new

    def cycle(self, x: Array, max_cycles: int, tolerance: float) -> tuple[Array, int]:
        """Cycles over clusters."""
        k, panel = self.k, self.panel
        clusters, m = kernels.build(np.argsort(-np.abs(x), kind="stable"), x)
        done, _, m = kernels.cycles(
            panel.storage, panel.R, m, clusters, self.Lam, max_cycles, tolerance
        )
        x = np.empty(k)
        kernels.read(m, clusters, x)
        panel.x[:k] = x
        return x, int(done)

    def newton_pays(self, x: Array) -> bool:
        """Whether clusters have settled, and a Newton step costs no more than the rounds so far."""
        order, starts, _ = pattern = pattern_of(x)
        same = self.pattern is not None and all(map(np.array_equal, pattern, self.pattern))
        self.pattern = pattern
        if not (same and 0 < order.size <= self.tuning.most_columns):
            return False
        new, price = order[self.place[order] < 0], 0.0
        if new.size:
            price = 2.0 * self.panel.gram_breakeven_cycles(order, new) * self.panel.entries(order)
        price += starts.size**3 / 3
        if price > self.spent:
            return False
        self.spent = 0.0
        return True

    def newton(self, x: Array) -> Array:
        """To the minimum for these clusters, or for what becomes of them on the way there."""
        order, _, signs = pattern_of(x)
        G = self.products(order) * np.outer(signs, signs)
        pull = signs * self.panel.correlations()[order]
        size = minimise_sizes(np.abs(x[order]), G, pull, self.lam[: order.size])
        new = np.zeros(self.k)
        new[order] = signs * size
        self.panel.advance(self.every, new - x)
        return new

    def products(self, order: Array) -> Array:
        """A Aᵀ over these columns; what was formed is kept."""
        new = order[self.place[order] < 0]
        if new.size:
            self.G = self.panel.products(self.known, new, self.G)
            self.place[new] = self.known.size + np.arange(new.size)
            self.known = np.concatenate([self.known, new])
        at = self.place[order]
        return np.asarray(self.G[np.ix_(at, at)])


def pattern_of(x: Array) -> tuple[Array, Array, Array]:
    """The support by falling |x| (then by number), where each cluster starts in it, and the signs.

    Examples
    --------
    >>> pattern_of(np.array([1.0, 0.0, -3.0, -1.0]))
    (array([2, 0, 3]), array([0, 1]), array([-1.,  1., -1.]))
    """
    support = np.flatnonzero(x)
    order = support[np.argsort(-np.abs(x[support]), kind="stable")]
    return order, starts_of(np.abs(x[order])), np.sign(x[order])


def starts_of(size: Array) -> Array:
    """Where runs of equal sizes start."""
    return np.flatnonzero(np.diff(size, prepend=np.inf))


def minimise_sizes(size: Array, G: Array, pull: Array, lam: Array) -> Array:
    """Minimise ½‖R‖² + λ·b over the sizes b of the members, equal within clusters.

    G holds the products of the signed columns and `pull` their products with R, at b = `size`. The
    order must stay as it is: where a cluster meets the next, or zero, the two go on as one, or it
    stays there. F falls all along.

    Examples
    --------
    >>> minimise_sizes(np.array([3.0, 1.0]), np.eye(2), np.zeros(2), np.array([2.0, 0.5]))
    array([1. , 0.5])
    >>> minimise_sizes(np.array([3.0, 2.5]), np.eye(2), np.zeros(2), np.array([2.0, 0.5]))
    array([1.5, 1.5])
    """
    b, live = size.copy(), size.size
    while live:
        starts = starts_of(b[:live])
        inside = np.add.reduceat(G[:live, :live], starts, axis=0)
        H = np.add.reduceat(inside, starts, axis=1)
        H.flat[:: starts.size + 1] += numerics.SOLVED * float(H.diagonal().max())
        downhill = np.add.reduceat((pull - G @ (b - size) - lam)[:live], starts)
        factor = linalg.cholesky(H)
        step = None if factor is None else linalg.solve(factor, downhill)
        if step is None or not np.isfinite(step).all():
            return b
        now = b[starts]
        t, at = first_meeting(now, step)
        now = np.minimum.accumulate(now + t * step)  # rounding must not change the order
        if at >= 0:
            now[at] = now[at + 1] if at + 1 < now.size else 0.0
            now = np.minimum.accumulate(now)
        b[:live] = np.repeat(now, np.diff(np.append(starts, live)))
        live = int(np.count_nonzero(b > 0.0))
        b[live:] = 0.0
        if at < 0:
            return b
    return b


def first_meeting(size: Array, step: Array) -> tuple[float, int]:
    """The part of `step` at which a cluster first meets the next or zero, and which; or 1, −1."""
    gap = size - np.append(size[1:], 0.0)
    closing = np.append(step[1:], 0.0) - step
    closes = np.flatnonzero(closing > gap)
    if not closes.size:
        return 1.0, -1
    times = gap[closes] / closing[closes]
    first = int(np.argmin(times))
    return float(times[first]), int(closes[first])
