"""F and its certificate over all rows and columns, at an iterate of a method that samples rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cyclade.blocks import Point
from cyclade.linear.api import as_problems
from cyclade.linear.certificate import Certificate, measure
from cyclade.linear.problem import Problem
from cyclade.linear.results import both
from cyclade.linear.stochastic.oracle import LinearOracle
from cyclade.linear.stopping import scale_of_distance
from cyclade.run_parts import Measured
from cyclade.samplers import ALL


class Certifier:
    """Maps x to F(x) and its certificate, which is what `solve` measures at the same point."""

    def __init__(self, oracle: LinearOracle, design: Any, penalty: Any, tol: float) -> None:
        self.features, rows = oracle.features, oracle.rows(ALL)
        shape, offset = (design.p, self.features.width), rows.offset
        if offset is not None and offset.ndim == 2:
            offset = np.broadcast_to(offset, (rows.n, self.features.width))
        data = (rows.weight, offset, self.features.fit_intercept)
        self.problems = as_problems(design, rows.y, oracle.loss, penalty, data, np.zeros(shape))
        self.kind = "gap" if self.problems[0].has_dual else "distance"
        self.tolerances = [tol * scale(problem) for problem in self.problems]

    def __call__(self, x: Point) -> tuple[float, Certificate]:
        """F(x) and its certificate."""
        coef, c = self.features.fitted(x, np.float64)
        points = zip(coef.T, c, strict=True) if len(self.problems) > 1 else [(coef, c)]
        outputs = zip(self.problems, self.tolerances, points, strict=True)
        found = [self._output(problem, tol, *point) for problem, tol, point in outputs]
        return sum(objective for objective, _ in found), both([each for _, each in found])

    def _output(self, problem: Problem, tolerance: float, coef: Any, c: Any) -> Any:
        x = problem.penalty.by_blocks(coef)
        now = measure(problem, x, problem.loss_at(problem.predict(x, c)))
        value = max(now.objective - now.dual, 0.0) if problem.has_dual else now.distance
        return now.objective, Certificate(self.kind, value, tolerance)  # type: ignore[arg-type]

    def measure(self, x: Point) -> Measured:
        """F and the certificate, as a `Runner` takes them."""
        try:
            objective, found = self(x)
        except FloatingPointError:  # the gradient overflowed: a run that diverged
            return Measured(math.inf, math.inf, math.inf, math.inf)
        reached = f"{found.kind} ≤ {found.tolerance:.3g}" if found.reached else None
        return Measured(objective, objective, found.value, found.value, reached=reached)


def scale(problem: Problem) -> float:
    """What the tolerance is relative to, as in `solve`: of the null model, or of the gradients."""
    if problem.has_dual:
        return problem.null.scale
    at_zero = problem.loss_at(problem.offset)
    return scale_of_distance(problem, problem.correlate(at_zero.slopes))
