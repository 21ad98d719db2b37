"""Values, proxes and distances agree with CVXPY models."""

import cvxpy as cp
import numpy as np
import pytest
from regulariser_cases import CASES, CONVEX, NAMES, anywhere, diagonal, objective, solve


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
