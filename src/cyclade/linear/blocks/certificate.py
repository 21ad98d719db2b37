"""Checks on all blocks: objective, distances, and a duality gap where there is a dual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks.problem import BlockProblem

Array = NDArray[Any]

NO_SLOPE = 1e-14
"""An intercept's slope below this fraction of Σ s_i |u_i| is rounding, and left alone."""


@dataclass
class Measured:
    """A full check at (x, z)."""

    g: Array  # ∇_x of the smooth part, (p, T), by features
    distances: Array  # of every block
    distance: float  # the largest of them, or the slope in an intercept
    objective: float
    dual: float  # D at a feasible point, −inf if there is none


def measure(problem: BlockProblem, x: Array, z: Array) -> Measured:
    """One pass over all columns at x (block after block), where z = Xx + c + offset."""
    u = problem.gradient(z)
    return judge(problem, x, z, u, problem.correlate(problem.s[:, None] * u))


def judge(problem: BlockProblem, x: Array, z: Array, u: Array, g: Array) -> Measured:
    """The same where u = φ'(z) and g = Xᵀ(s u) are known."""
    reg = problem.reg
    distances = reg.distances(x, problem.by_blocks(g), reg.blocks)
    slope = problem.s @ u if problem.fit_intercept else np.zeros(problem.T)
    largest = max(float(distances.max(initial=0.0)), float(np.abs(slope).max()))
    objective = problem.smooth(z) + reg.total(x)
    dual = dual_value(problem, u, g, slope) if problem.has_dual else -np.inf
    return Measured(g, distances, largest, objective, dual)


def dual_value(problem: BlockProblem, u: Array, g: Array, slope: Array) -> float:
    """D(θ) = Σ s_i (θ_i·offset_i − φ*(y_i, θ_i)) at a θ made feasible from u = φ'(z).

    With intercepts Σ s_i θ_i = 0 is required, so u is balanced first; then it is shrunk until
    Xᵀ(sθ) lies where r* is zero.
    """
    if np.abs(slope).max() > NO_SLOPE * float((problem.s @ np.abs(u)).max()):
        u = balanced(problem, u, slope)
        g = problem.correlate(problem.s[:, None] * u)
    norm = problem.reg.dual_norm(g[:, 0] if problem.T == 1 else g)
    theta = u / max(norm * (1.0 + 1e-15), 1.0)
    shaped = problem.shaped(theta)
    conjugates = np.asarray(problem.loss.conjugate(problem.y, shaped), np.float64)  # type: ignore[attr-defined]
    per_row = conjugates if conjugates.ndim == 1 else conjugates.sum(axis=1)
    value = float(problem.s @ ((theta * problem.offset).sum(axis=1) - per_row))
    return value if np.isfinite(value) else -np.inf


def balanced(problem: BlockProblem, u: Array, slope: Array) -> Array:
    """u, changed so that Σ s_i u_i = 0, within the domain of φ*.

    Where outputs are apart, the heavier of the positive and the negative part is scaled down (the
    domain is convex and holds zero); where they form probabilities, the slopes are subtracted.
    """
    if problem.loss.target == "classes":
        return np.asarray(u - slope)
    up = problem.s @ np.maximum(u, 0.0)
    down = problem.s @ np.maximum(-u, 0.0)
    tiny = np.finfo(np.float64).tiny
    scale_up = np.minimum(down / np.maximum(up, tiny), 1.0)
    scale_down = np.minimum(up / np.maximum(down, tiny), 1.0)
    return np.asarray(u * np.where(u > 0, scale_up, scale_down))
