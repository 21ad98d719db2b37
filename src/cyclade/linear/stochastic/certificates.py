"""F and its certificate over all rows and columns, at an iterate of a method that samples rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from cyclade._arrays import Array
from cyclade.blocks import Point
from cyclade.linear.certificate import Certificate, measure
from cyclade.linear.penalties import BlockPenalty
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem
from cyclade.linear.stochastic.oracle import LinearOracle
from cyclade.linear.stochastic.separable import Separable
from cyclade.linear.stopping import scale_of_distance
from cyclade.samplers import ALL

Certify = Callable[[Point], tuple[float, Certificate]]


def certifier(
    oracle: LinearOracle, design: Any, y: Array, s: Array, offset: Array | None, loss: Any,
    penalty: Any, r: Separable, tol: float,
) -> tuple[Literal["gap", "distance"], Certify]:  # fmt: skip
    """What is measured, and the function x → (F(x), certificate).

    With one output and a penalty on coordinates it is what `solve` measures: the duality gap where
    there is a dual, else the largest dist(∂F, 0)_j. With groups or several outputs it is the
    largest distance of a block of features.
    """
    features = oracle.features
    if isinstance(penalty, BlockPenalty) or features.outputs is not None:
        goal = tol * float(getattr(penalty, "lam", 0.0) or 1.0)
        return "distance", lambda x: _by_blocks(x, oracle, r, goal)
    zero = np.zeros(design.n) if offset is None else offset
    problem = Problem(design, y, s, zero, loss, bind(penalty, design.p), features.fit_intercept)
    gap_goal = tol * problem.null.scale if problem.has_dual else 0.0
    at_zero = problem.design.correlate(s * loss.gradient(y, zero))
    distance_goal = tol * scale_of_distance(problem, at_zero)

    def certify(x: Point) -> tuple[float, Certificate]:
        coef, c = features.read(x)
        intercept = 0.0 if c is None else float(c[0])
        loss_at = problem.loss_at(problem.predict(coef, intercept))
        found = measure(problem, coef.astype(np.float64), loss_at)
        if problem.has_dual:
            gap = max(found.objective - found.dual, 0.0)
            return found.objective, Certificate("gap", gap, gap_goal)
        return found.objective, Certificate("distance", found.distance, distance_goal)

    return "gap" if problem.has_dual else "distance", certify


def _by_blocks(
    x: Point, oracle: LinearOracle, r: Separable, goal: float
) -> tuple[float, Certificate]:
    value, gradient = oracle.evaluate(x, ALL)
    blocks = list(enumerate(x.blocks()))
    objective = value + sum(r.value(j, u) for j, u in blocks)
    largest = max(r.distance(j, u, gradient[j]) for j, u in blocks)
    return float(objective), Certificate("distance", largest, goal)
