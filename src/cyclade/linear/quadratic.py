"""Quadratic models of the loss, and the safeguarded steps they give.

At z the loss is replaced by  Σ s_i [φ'_i (z'_i − z_i) + ½ w_i (z'_i − z_i)²].  Kernels then see a
least-squares problem with weights and never the loss. For the squared loss the model is exact; for
convex losses w = φ'' (Newton); for nonconvex ones φ'' where it is large enough, and a fraction of
the half-quadratic weight where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels import linalg
from cyclade.linear.loss_at import LossAt, by_rows
from cyclade.linear.losses import Loss
from cyclade.linear.panels.protocols import Panel
from cyclade.linear.problem import Problem
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


class Model:
    """½‖R‖² with R = √w (t − z'): the loss around z, in the form the panels take."""

    def __init__(
        self,
        problem: Problem,
        loss_at: LossAt,
        damping: float,
        trust: float,
        w: Array | None = None,
    ) -> None:
        """At z, with the curvature there unless the weights w are given."""
        self.problem, self.loss_at, self.z = problem, loss_at, loss_at.z
        self.exact = problem.loss.quadratic
        self.slopes = loss_at.slopes
        self.w = weights(problem, loss_at, damping, trust) if w is None else w
        self.mass: Any = self.w.sum(axis=0)  # a number, or (T,)

    @cached_property
    def root(self) -> Array:
        """√w."""
        return np.asarray(np.sqrt(self.w))

    @cached_property
    def R(self) -> Array:
        """√w (t − z), at z."""
        return np.asarray(-self.slopes / self.root)

    def second(self) -> Array:
        """s φ'' at z, whatever its sign."""
        return np.asarray(self.problem.s * self.loss_at.second)

    def panel(self, W: Array) -> Panel:
        """The columns W under this model's weights, with the intercept profiled out."""
        return self.problem.design.panel(W, self.w, self.problem.fit_intercept)

    def start(self) -> Array:
        """R at z, or at the best intercept if there is one."""
        if not self.problem.fit_intercept:
            return self.R
        return np.asarray(self.R - self.root * (np.sum(self.root * self.R, axis=0) / self.mass))

    def move(self, panel: Panel, dx: Array) -> tuple[Array, float]:
        """What z and the intercept change by, once a panel has moved its coefficients by dx."""
        dz = (self.R - panel.residual()) / self.root
        if not self.problem.fit_intercept:
            return dz, 0.0
        return dz, float(self.w @ dz) / self.mass - float(panel.means @ dx)


def weights(problem: Problem, loss_at: LossAt, damping: float, trust: float) -> Array:
    """s times `curvatures`, in the shape of z; not zero anywhere."""
    if problem.loss.quadratic and problem.offset.ndim == 1:
        return problem.weights
    return by_rows(
        problem.weights, curvatures(problem.loss, problem.tuning, loss_at, damping, trust)
    )


def curvatures(loss: Loss, tuning: Tuning, loss_at: LossAt, damping: float, trust: float) -> Array:
    """φ'' at z, or part of a majoriser's weights if larger.

    Of a convex loss φ'' is right however small, but where φ may be linear in parts φ'' = 0 says
    nothing: there a part of its bound is the least. For others a floor costs models where classes
    are far apart.

    With `damping` > 1 all rows weigh that many times what the stiffest does, or as the majoriser: a
    row far from its target has φ'' ≈ 0, and would go on for ever.
    """
    if loss.quadratic:
        return np.ones_like(loss_at.z)
    w = loss_at.second
    if loss.convex:
        if loss.flat and np.isfinite(loss.bound):
            w = np.maximum(w, tuning.least_curvature * loss.bound)
    else:
        w = np.maximum(w, trust * loss_at.majoriser)
    if damping > 1.0:
        upper, top = loss_at.majoriser, damping * float(np.max(w, initial=0.0))
        w = np.where(np.isfinite(upper), np.minimum(np.maximum(upper, w), top), top)
    return np.maximum(w, numerics.FLAT * float(np.max(w, initial=numerics.TINY)))


def line_search(
    problem: Problem, here: LossAt, end: LossAt, r: Callable[[float], float],
    halvings: int = limits.TRIES, there: Callable[[float], LossAt] | None = None,
    further: float = np.inf,
) -> tuple[float, LossAt]:  # fmt: skip
    """The largest t of 1, ½, ¼, … that lowers F as Armijo's rule wants, and the loss; else t = 0.

    `here` and `end` are the loss at t = 0 and t = 1, `r(t)` the penalty at t. With a finite
    `further`, t = 2, 4, … are tried after 1, with the loss `there(t)`, as long as F falls
    `further` times as much as before: where F is bent down, a model that does not know it makes
    short steps in the right direction.
    """
    r0, r1, dz = r(0.0), r(1.0), end.z - here.z
    F, slope = here.value + r0, float(np.vdot(here.slopes, dz)) + r1 - r0
    t, at = 1.0, end
    for _ in range(halvings):
        value = at.value + (r1 if t == 1.0 else r(t))
        if lowered(F, slope, t, value):
            break
        t *= 0.5
        at = problem.loss_at(here.z + t * dz)
    else:
        return 0.0, here
    while there is not None and 1.0 <= t < 2.0**limits.TRIES:
        longer = there(2.0 * t)
        lower = longer.value + r(2.0 * t)
        if F - lower < further * (F - value):
            break
        t, at, value = 2.0 * t, longer, lower
    return t, at


def lowered(F: float, slope: float, t: float, value: float) -> bool:
    """Armijo's rule, value ≤ F + 1e-4 t · slope, for a step of length t; or rounding."""
    return value <= F + 1e-4 * t * min(slope, 0.0) + numerics.SUM * abs(F)


def step_length(model: Model, W: Array, x: Array, dx: Array, end: LossAt) -> tuple[float, LossAt]:
    """`line_search` from x along dx on the coordinates W; `end` is the loss at t = 1."""
    total = model.problem.penalty.total
    return line_search(model.problem, model.loss_at, end, lambda t: total(W, x + t * dx))


def next_damping(state: Any, damping: float, t: float, tuning: Tuning = DEFAULT) -> float:
    """The damping of the next model, after a step of length t towards the minimum of the last."""
    if t < 1.0:  # rows with φ'' < 0 get larger weights
        state.trust = min(1.0, 2.0 * state.trust)
    longer = t > 2.0**-limits.TRIES
    return max(1.0, 0.5 * damping) if longer else 2.0 * damping


def polish(model: Model, x: Array, S: Array, eps: float) -> tuple[Array, LossAt, float] | None:
    """A Newton step of F itself on the support S, with φ'' as it is, negative entries included.

    Where the support and its signs are right this converges quadratically, however dependent the
    columns are. Where that Hessian is not positive definite the model's own weights are used.
    Coordinates that would change sign stop at zero, if r has a kink there. Returns what x_S moves
    by, the loss there and what the intercept moves by, or None if F does not fall or S is
    eps-stationary already. Where F falls by rounding at most, a step counts that halves the slopes:
    those tell more than F near a minimum.
    """
    problem, penalty, k = model.problem, model.problem.penalty, S.size
    slope, bend = penalty.derivatives(S, x)
    if not np.isfinite(bend).all():
        return None
    columns = problem.design.unweighted(S, problem.fit_intercept)
    at, bordered = np.searchsorted(columns.cols, S), int(problem.fit_intercept)

    def down(slopes: Array, slope: Array) -> Array:
        return np.append(-columns.slopes(slopes, at) - slope, -bordered * slopes.sum())

    downhill = down(model.slopes, slope)
    if float(np.abs(downhill[:k]).max()) <= eps:
        return None
    for second in (model.second(), model.w):
        H = np.zeros((k + 1, k + 1))
        H[:k, :k], H[k, k] = columns.products(at, second), second.sum() if bordered else 1.0
        H[:k, k] = H[k, :k] = bordered * columns.slopes(second, at)
        H.flat[: k * (k + 1) : k + 2] += bend + numerics.SOLVED * np.abs(H.diagonal()[:k])
        factor = linalg.cholesky(H)
        if factor is not None:
            break
    else:
        return None
    *full, dc = linalg.solve(factor, downhill)
    step, kinked = np.array(full), penalty.zero_threshold[S] != 0.0  # elsewhere zero may be crossed
    dx = np.where(kinked & ((x + step) * x < 0), -x, step)
    end = problem.loss_at(model.z + columns.combine(at, dx) + dc)
    t, F = 1.0, model.loss_at.value + penalty.total(S, x)
    rounding = 0.0 < float(downhill @ np.append(step, dc)) <= numerics.SUM * abs(F)
    if not rounding:
        t, end = line_search(
            problem, model.loss_at, end, lambda t: penalty.total(S, x + t * dx), halvings=3
        )
    new = x + t * dx
    if end.value + penalty.total(S, new) >= F:
        left = down(end.slopes, penalty.derivatives(S, new)[0])
        halved = np.abs(left).max() <= 0.5 * np.abs(downhill).max()
        if not (rounding and halved) or (kinked & (new * x <= 0)).any():
            return None
    return t * dx, end, t * (dc - float(columns.centres[at] @ dx))
