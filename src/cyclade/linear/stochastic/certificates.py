"""F and its certificate over all rows and columns, at an iterate of a method that samples rows."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from cyclade.blocks import Point
from cyclade.linear.certificate import Certificate, measure
from cyclade.linear.penalties import BlockPenalty
from cyclade.linear.penalty_bound import bind
from cyclade.linear.problem import Problem
from cyclade.linear.stochastic.oracle import LinearOracle
from cyclade.linear.stochastic.separable import Separable
from cyclade.linear.stopping import scale_of_distance
from cyclade.run_parts import Measured
from cyclade.samplers import ALL


class Certifier:
    """Maps x to F(x) and its certificate.

    With one output and a penalty on coordinates it is what `solve` measures: the duality gap where
    there is a dual, else the largest dist(∂F, 0)_j. With groups or several outputs it is the
    largest distance of a block of features.
    """

    def __init__(
        self, oracle: LinearOracle, design: Any, penalty: Any, r: Separable, tol: float
    ) -> None:
        self.oracle, self.r = oracle, r
        self.problem: Problem | None = None
        self.kind: Literal["gap", "distance"] = "distance"
        features, loss, rows = oracle.features, oracle.loss, oracle.rows(ALL)
        if isinstance(penalty, BlockPenalty) or features.outputs is not None:
            self.tolerance = tol * float(getattr(penalty, "lam", 0.0) or 1.0)
            return
        zero = np.zeros(rows.n) if rows.offset is None else rows.offset
        bound = bind(penalty, rows.p)
        problem = Problem(design, rows.y, rows.weight, zero, loss, bound, features.fit_intercept)
        self.problem = problem
        if problem.has_dual:
            self.kind, self.tolerance = "gap", tol * problem.null.scale
        else:
            at_zero = design.correlate(rows.weight * loss.gradient(rows.y, zero))
            self.tolerance = tol * scale_of_distance(problem, at_zero)

    def __call__(self, x: Point) -> tuple[float, Certificate]:
        """F(x) and its certificate."""
        problem = self.problem
        objective, value = self._by_blocks(x) if problem is None else self._by_columns(problem, x)
        return objective, Certificate(self.kind, value, self.tolerance)

    def measure(self, x: Point) -> Measured:
        """F and the certificate, as a `Runner` takes them."""
        try:
            objective, found = self(x)
        except FloatingPointError:  # the gradient overflowed: a run that diverged
            return Measured(math.inf, math.inf, math.inf, math.inf)
        reached = f"{found.kind} ≤ {found.tolerance:.3g}" if found.reached else None
        return Measured(objective, objective, found.value, found.value, reached=reached)

    def _by_columns(self, problem: Problem, x: Point) -> tuple[float, float]:
        coef, c = self.oracle.features.read(x)
        z = problem.predict(coef, 0.0 if c is None else float(c[0]))
        found = measure(problem, coef, problem.loss_at(z))
        if problem.has_dual:
            return found.objective, max(found.objective - found.dual, 0.0)
        return found.objective, found.distance

    def _by_blocks(self, x: Point) -> tuple[float, float]:
        value, gradient = self.oracle.evaluate(x, ALL)
        blocks = list(enumerate(x.blocks()))
        objective = value + sum(self.r.value(j, u) for j, u in blocks)
        return float(objective), max(self.r.distance(j, u, gradient[j]) for j, u in blocks)
