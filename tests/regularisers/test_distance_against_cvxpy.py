"""Distances agree with minimisation over an explicit description of the subdifferential."""

import cvxpy as cp
import numpy as np
import pytest
from regulariser_cases import CASES, NAMES, diagonal, solve


@pytest.mark.parametrize("kind", ["unit", "scalar", "diagonal"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_distance(case, kind):
    rng = np.random.default_rng(NAMES.index(case.name))
    for u in case.points(rng):
        for size in (0.4, 2.0):
            v = size * rng.standard_normal(case.shape)
            w = {"unit": 1.0, "scalar": 0.3, "diagonal": diagonal(rng, case.shape)}[kind]
            s = cp.Variable(case.shape)
            weights = np.broadcast_to(np.sqrt(w), case.shape)
            residual = cp.norm(cp.vec(cp.multiply(weights, v + s), order="C"))
            expected = solve(residual, case.subdifferential(s, u))
            mine = case.reg.distance(u, v) if kind == "unit" else case.reg.distance(u, v, w)
            assert mine == pytest.approx(expected, rel=1e-5, abs=1e-6)
