"""Functions that are here for arrays and in `linear.penalties` for single numbers are the same."""

import numpy as np
import pytest

from cyclade import regularisers
from cyclade.linear import penalties

LAM = 0.7
SPECIAL = np.array([0.0, LAM, 1.5 * LAM, 2.5 * LAM])
POINTS = np.concatenate([np.linspace(-4.0, 4.0, 401), SPECIAL, -SPECIAL])
SCALAR = [
    (regularisers.L1(LAM), penalties.L1(LAM)),
    (regularisers.L1(LAM * abs(POINTS)), penalties.WeightedL1(LAM, abs(POINTS))),
    (regularisers.ElasticNet(0.3 * LAM, 0.7 * LAM), penalties.ElasticNet(LAM, 0.3)),
    (regularisers.SquaredL2(LAM), penalties.ElasticNet(LAM, 0.0)),
    (regularisers.Box(lower=-1.0, upper=2.0), penalties.Box(lower=-1.0, upper=2.0)),
    (regularisers.ElasticNet(lam=0.9, l1_ratio=0.4), penalties.ElasticNet(lam=0.9, l1_ratio=0.4)),
    (regularisers.NonNegative(), penalties.Box(0.0, np.inf)),
    (regularisers.MCP(LAM, 1.5), penalties.MCP(LAM, 1.5)),
    (regularisers.SCAD(LAM, 2.5), penalties.SCAD(LAM, 2.5)),
]


@pytest.mark.parametrize(("array", "scalar"), SCALAR, ids=[repr(pair[1]) for pair in SCALAR])
def test_scalar_penalties(array, scalar):
    v, features = np.random.default_rng(0).standard_normal(POINTS.size), range(POINTS.size)
    for t in (0.3, 1.0, 1.5, 1.7, 9.0):
        expected = [scalar.prox(u, t, j) for j, u in enumerate(POINTS)]
        np.testing.assert_allclose(array.prox(POINTS, t), expected, rtol=1e-12, atol=1e-13)
    assert array.value(POINTS) == pytest.approx(scalar.total(POINTS), rel=1e-13)
    inside = array.prox(POINTS, 1.0)  # also in the domain of an indicator
    for u in (POINTS, inside):
        distances = [scalar.distance(u[j], v[j], j) for j in features]
        assert array.distance(u, v) == pytest.approx(np.linalg.norm(distances), rel=1e-13)


def test_group_penalties():
    groups, weights = [[3, 0, 4], [1], [2, 5]], [1.0, 0.5, 2.0]
    array = regularisers.GroupL2(LAM, groups, weights)
    blocks = penalties.GroupL2(LAM, groups, weights)
    rng = np.random.default_rng(1)
    for scale in (0.3, 3.0):
        u, v = scale * rng.standard_normal((2, 6))
        for x in (u, array.prox(u, 1.0)):
            assert array.value(x) == pytest.approx(blocks.total(x), rel=1e-13)
            each = [blocks.distance(x[group], v[group], k) for k, group in enumerate(groups)]
            assert array.distance(x, v) == pytest.approx(np.linalg.norm(each), rel=1e-12)
        for k, group in enumerate(groups):
            np.testing.assert_allclose(
                array.prox(u, 0.8)[group], blocks.prox(u[group], 0.8, k), rtol=1e-12, atol=1e-14
            )
    rows = rng.standard_normal((4, 3))
    expected = [penalties.Rows(LAM).prox(row, 1.0, k) for k, row in enumerate(rows)]
    np.testing.assert_allclose(regularisers.GroupL2(LAM, 0).prox(rows, 1.0), expected, rtol=1e-12)
