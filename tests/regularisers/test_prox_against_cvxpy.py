"""Values and proxes agree with CVXPY models."""

import cvxpy as cp
import numpy as np
import pytest
from regulariser_cases import CONVEX, NAMES, anywhere, diagonal, objective, solve


@pytest.mark.parametrize("kind", ["scalar", "diagonal"])
@pytest.mark.parametrize("case", CONVEX, ids=lambda case: case.name)
def test_prox(case, kind):
    rng = np.random.default_rng(NAMES.index(case.name))
    z = cp.Variable(case.shape)
    function, constraints = case.model(z)
    for _ in range(3):
        u = anywhere(case, rng)
        t = diagonal(rng, case.shape, 0.7) if kind == "diagonal" else float(diagonal(rng, ()))
        weights = np.broadcast_to(np.sqrt(0.5 / np.asarray(t)), case.shape)
        cost = function + cp.sum_squares(cp.multiply(weights, z - u))
        optimum = solve(cost, constraints)
        mine = case.reg.prox(u, t)
        assert objective(case.reg, mine, u, t) == pytest.approx(optimum, rel=1e-7, abs=1e-7)
        np.testing.assert_allclose(mine, z.value, atol=2e-4)


@pytest.mark.parametrize("case", CONVEX, ids=lambda case: case.name)
def test_value(case):
    rng = np.random.default_rng(1)
    z = cp.Variable(case.shape)
    function, constraints = case.model(z)
    for u in case.points(rng):
        z.value = u
        expected = getattr(function, "value", function)
        assert all(np.max(c.violation()) < 1e-12 for c in constraints)
        assert case.reg.value(u) == pytest.approx(float(expected), abs=1e-12)


CONSTRAINED = [case for case in CONVEX if case.model(cp.Variable(case.shape))[1]]


@pytest.mark.parametrize("case", CONSTRAINED, ids=lambda case: case.name)
def test_outside_the_domain(case):
    far = np.full(case.shape, -1e3)
    assert case.reg.value(far) == np.inf
    assert case.reg.distance(far, far) == np.inf
