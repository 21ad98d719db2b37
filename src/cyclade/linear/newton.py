"""Quadratic models of the loss, and the safeguarded steps they give.

At z the loss is replaced by  Σ s_i [φ'_i (z'_i − z_i) + ½ w_i (z'_i − z_i)²].  Kernels then see a
least-squares problem with weights and never the loss. For the squared loss the model is exact; for
convex losses w = φ'' (Newton); for nonconvex ones φ'' where it is large enough, and a fraction of
the half-quadratic weight where it is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.design import Panel
from cyclade.linear.losses import Loss, Squared
from cyclade.linear.problem import Problem

Array = NDArray[Any]

LEAST = 1e-10  # weights below this fraction of the largest are lifted to it


FLOOR_CONVEX = 1e-3  # of the majoriser's weights, where φ'' is smaller


class Model:
    """½‖R‖² with R = √w (t − z'): the loss around z, in the form the panels take."""

    def __init__(self, problem: Problem, z: Array, damping: float, trust: float) -> None:
        s = problem.s
        self.problem, self.z = problem, z
        self.exact = type(problem.loss) is Squared
        self.slopes = s * problem.loss.gradient(problem.y, z)
        # A weight of zero would leave a row's z without a place in R; a tiny one does no harm.
        self.w = np.maximum(s, LEAST / s.size) * curvatures(
            problem.loss, problem.y, z, damping, trust
        )
        self.root: Array = np.sqrt(self.w)
        self.mass = float(self.w.sum())
        self.R: Array = -self.slopes / self.root

    def second(self) -> Array:
        """s φ'' at z, whatever its sign."""
        problem = self.problem
        if problem.loss.convex:
            return np.asarray(problem.s * problem.loss.curvature(problem.y, self.z))
        return np.asarray(problem.s * second_derivative(problem.loss, problem.y, self.z))

    def panel(self, W: Array) -> Panel:
        """The columns W under this model's weights, with the intercept profiled out."""
        return self.problem.design.panel(W, self.w, self.problem.fit_intercept)

    def start(self) -> Array:
        """R at z, or at the best intercept if there is one."""
        if not self.problem.fit_intercept:
            return self.R
        return np.asarray(self.R - self.root * (float(self.root @ self.R) / self.mass))

    def move(self, panel: Panel, dx: Array) -> tuple[Array, float]:
        """What z and the intercept change by, once a panel has moved its coefficients by dx."""
        dz = (self.R - panel.residual()) / self.root
        if not self.problem.fit_intercept:
            return dz, 0.0
        return dz, float(self.w @ dz) / self.mass - float(panel.means @ dx)


def curvatures(loss: Loss, y: Array, z: Array, damping: float, trust: float) -> Array:
    """φ'' at z, or part of a majoriser's weights if larger; `damping` > 1 moves towards those."""
    if type(loss) is Squared:
        return np.ones_like(z)
    if loss.convex:
        w = loss.curvature(y, z)
        if np.isfinite(loss.bound):
            w = np.maximum(w, FLOOR_CONVEX * loss.bound)
    else:
        w = np.maximum(second_derivative(loss, y, z), trust * loss.majoriser(y, z))
    if damping > 1.0:
        upper = loss.majoriser(y, z)
        bounded = np.isfinite(upper)
        upper = np.where(bounded, np.maximum(upper, w), 0.0)
        w = np.where(bounded, np.minimum(damping * w, upper), damping * w)
    return np.maximum(w, LEAST * float(np.max(w, initial=1e-300)))


def second_derivative(loss: Loss, y: Array, z: Array) -> Array:
    """φ'' at z by central differences of φ' (elementwise, so it costs two gradients)."""
    h = 1e-5 * (1.0 + np.abs(z - y))
    return np.asarray((loss.gradient(y, z + h) - loss.gradient(y, z - h)) / (2.0 * h))


def step_length(model: Model, W: Array, x: Array, dx: Array, dz: Array, at_most: int = 8) -> float:
    """The largest of 1, ½, ¼, … that lowers F as Armijo's rule wants; 0 if none does."""
    problem = model.problem
    r = problem.penalty.total(W, x)
    F = problem.smooth(model.z) + r
    slope = float(model.slopes @ dz) + problem.penalty.total(W, x + dx) - r
    t = 1.0
    for _ in range(at_most):
        tried = problem.smooth(model.z + t * dz) + problem.penalty.total(W, x + t * dx)
        if tried <= F + 1e-4 * t * min(slope, 0.0) + 1e-15 * abs(F):
            return t
        t *= 0.5
    return 0.0


def polish(model: Model, x: Array, S: Array, eps: float) -> tuple[Array, Array, float] | None:
    """A Newton step of F itself on the support S, with φ'' as it is, negative entries included.

    Where the support and its signs are right this converges quadratically, however dependent the
    columns are. Where that Hessian is not positive definite the model's own weights are used, and
    longer steps are tried, since a majoriser's are short. Coordinates that would change sign stop
    at zero. Returns what x_S, z and the intercept move by, or None if F does not fall or S is
    eps-stationary already.
    """
    problem, k = model.problem, S.size
    slope, bend = problem.penalty.derivatives(S, x)
    if not np.isfinite(bend).all():
        return None
    panel = model.panel(S)
    panel.start(model.R, x)
    downhill = np.append(panel.correlations() - slope, -model.slopes.sum())
    if float(np.abs(downhill[:k]).max()) <= eps:
        return None
    for second in (model.second(), model.w):
        step = solve_positive(
            *_hessian(panel, model, second, bend), downhill, problem.fit_intercept
        )
        if step is not None:
            break
    else:
        return None
    F = problem.smooth(model.z) + problem.penalty.total(S, x)
    best, t = None, 1.0
    while 2.0**-3 < t < 2.0**9:
        dx = np.where((x + t * step[:k]) * x < 0, -x, t * step[:k])
        dc = t * float(step[k])
        dz = panel.product(dx) / model.root + dc
        tried = problem.smooth(model.z + dz) + problem.penalty.total(S, x + dx)
        if tried < F:
            best, F = (dx, dz, dc - float(panel.means @ dx)), tried
            t *= 2.0
        elif best is None and t <= 1.0:
            t *= 0.5
        else:
            break
    return best


def _hessian(panel: Panel, model: Model, second: Array, bend: Array) -> tuple[Array, Array, float]:
    """Of F in (x_S, c): the block of x, the column of c, and the corner."""
    H, column = panel.curved_products(second / model.w)
    H.flat[:: bend.size + 1] += bend + 1e-13 * panel.L[: bend.size]
    return H, column, float(second.sum())


def solve_positive(
    H: Array, column: Array, corner: float, downhill: Array, bordered: bool
) -> Array | None:
    """The Newton step, with a last entry for the intercept (zero without); None if not convex."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    if bordered:
        H = np.block([[H, column[:, None]], [column[None], np.array([[corner]])]])
    try:
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    step = cho_solve(factor, downhill[: len(H)], check_finite=False)
    return step if bordered else np.append(step, 0.0)
