"""F and its certificate over all rows and columns, at an iterate of a method that samples rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from cyclade.blocks import Point
from cyclade.linear.certificate import Certificate, measure
from cyclade.linear.penalties import BlockPenalty
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem
from cyclade.linear.stochastic.oracle import LinearOracle
from cyclade.linear.stochastic.separable import Separable
from cyclade.linear.stopping import scale_of_distance, scale_of_gap
from cyclade.samplers import ALL

Certify = Callable[[Point], tuple[float, Certificate]]


def certifier(
    oracle: LinearOracle, design: Any, penalty: Any, r: Separable, tol: float
) -> tuple[Literal["gap", "distance"], Certify]:
    """What is measured, and the function x → (F(x), certificate).

    With one output and a penalty on coordinates it is what `solve` measures: the duality gap where
    there is a dual, else the largest dist(∂F, 0)_j. With groups or several outputs it is the
    largest distance of a block of features.
    """
    features, loss, rows = oracle.features, oracle.loss, oracle.rows(ALL)
    if isinstance(penalty, BlockPenalty) or features.outputs is not None:
        goal = tol * float(getattr(penalty, "lam", 0.0) or 1.0)
        return "distance", lambda x: _by_blocks(x, oracle, r, goal)
    zero = np.zeros(rows.n) if rows.offset is None else rows.offset
    bound = bind(penalty, rows.p)
    problem = Problem(design, rows.y, rows.weight, zero, loss, bound, features.fit_intercept)
    if problem.has_dual:
        goal = tol * scale_of_gap(problem)
    else:
        at_zero = design.correlate(rows.weight * loss.gradient(rows.y, zero))
        goal = tol * scale_of_distance(problem, at_zero)

    def certify(x: Point) -> tuple[float, Certificate]:
        coef, c = features.read(x)
        loss_at = problem.loss_at(problem.predict(coef, 0.0 if c is None else float(c[0])))
        found = measure(problem, coef, loss_at)
        if problem.has_dual:
            gap = max(found.objective - found.dual, 0.0)
            return found.objective, Certificate("gap", gap, goal)
        return found.objective, Certificate("distance", found.distance, goal)

    return "gap" if problem.has_dual else "distance", certify


def _by_blocks(
    x: Point, oracle: LinearOracle, r: Separable, goal: float
) -> tuple[float, Certificate]:
    value, gradient = oracle.evaluate(x, ALL)
    blocks = list(enumerate(x.blocks()))
    objective = value + sum(r.value(j, u) for j, u in blocks)
    largest = max(r.distance(j, u, gradient[j]) for j, u in blocks)
    return float(objective), Certificate("distance", largest, goal)
