"""Scalar penalties: prox, distance and conjugate against brute force; lam_max; the convex part."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyclade.linear import penalties
from cyclade.linear.kernels import shipped
from cyclade.linear.penalties import L1, MCP, SCAD, Box, ElasticNet, LogSum, WeightedL1

PENALTIES = {
    "l1": L1(0.7),
    "l1 at zero": L1(0.0),
    "l1 positive": L1(0.7, positive=True),
    "elastic net": ElasticNet(0.9, 0.4),
    "elastic net positive": ElasticNet(0.9, 0.4, positive=True),
    "ridge": ElasticNet(0.9, 0.0),
    "weighted l1": WeightedL1(0.5, [2.0, 0.0]),
    "box": Box(-1.0, 2.0),
    "box with l1": Box([-1.0, 0.0], 2.0, lam=0.4),
    "box away from zero": Box(0.5, 2.0, lam=0.4),
    "point": Box(0.0, 0.0),
    "mcp": MCP(0.6, 1.8),
    "mcp positive": MCP(0.6, 1.8, positive=True),
    "scad": SCAD(0.5, 2.5),
    "scad positive": SCAD(0.5, 2.5, positive=True),
    "log sum": LogSum(0.6, 0.4),
    "log sum positive": LogSum(0.6, 0.4, positive=True),
}
CONVEX = [name for name, penalty in PENALTIES.items() if penalty.convex]
NONCONVEX = [name for name, penalty in PENALTIES.items() if not penalty.convex]
FREE = [name for name in PENALTIES if name not in ("box away from zero", "point", "ridge")]

numbers = st.one_of(st.floats(-6.0, 6.0), st.sampled_from([0.0, 0.5, -0.7, 1.08, 2.0]))
steps = st.floats(0.02, 20.0)
each_penalty = pytest.mark.parametrize("name", PENALTIES)


def one_sided_slopes(penalty, x, j):
    """The derivatives of r_j at x from the left and from the right; ∂r_j(x) lies between them."""
    h = 1e-7
    here = penalty.value(x, j)
    left, right = penalty.value(x - h, j), penalty.value(x + h, j)
    return (here - left) / h, (right - here) / h


@each_penalty
@given(u=numbers, t=steps, j=st.integers(0, 1))
def test_prox_is_the_global_minimum(name, u, t, j):
    penalty = PENALTIES[name]
    v = penalty.prox(u, t, j)
    reach = max(abs(u), 2.0) + 0.5

    def objective(w):
        return penalty.value(w, j) + (w - u) ** 2 / (2 * t)

    best = min(objective(w) for w in [*np.linspace(-reach, reach, 401), 0.0, 0.5, u])
    assert objective(v) <= best + 1e-12 * (1 + abs(best))
    # Nonconvex proxes jump, and rounding may decide the side; on either side they are stationary.
    assert penalty.distance(v, (v - u) / t, j) <= 1e-12 * (1 + abs(u) / t)


@each_penalty
@given(x=numbers, g=numbers, j=st.integers(0, 1))
def test_distance_is_to_the_interval_of_slopes(name, x, g, j):
    penalty = PENALTIES[name]
    if penalty.value(x, j) == math.inf:
        assert penalty.distance(x, g, j) == math.inf
        return
    if 0 < abs(x) < 1e-6:
        return  # the difference quotients below would straddle the kink
    low, high = one_sided_slopes(penalty, x, j)
    low, high = min(low, high), max(low, high)  # equal up to rounding where r is smooth
    expected = max(low + g, -g - high, 0.0)
    assert penalty.distance(x, g, j) == pytest.approx(expected, abs=1e-5)


@numba.njit
def compiled_formulas(parameters, u, t, g, out):
    """The formulas as kernels call them, at every point for the coordinates 0 and 1."""
    for i in range(u.shape[0]):
        for j in range(2):
            out[0, i, j] = shipped.prox(parameters, u[i], t[i], j)
            out[1, i, j] = shipped.value(parameters, u[i], j)
            out[2, i, j] = shipped.distance(parameters, u[i], g[i], j)
            out[3, i, j] = shipped.threshold(parameters, j)
            out[4, i, j] = shipped.conjugate(parameters, g[i], j)


@each_penalty
def test_compiled_formulas_agree(name):
    penalty, rng = PENALTIES[name], np.random.default_rng(0)
    table = penalty.parameters(2)
    assert table.dtype == np.float64
    assert table.shape[0] in (1, 2)
    assert table.flags.c_contiguous
    kinks = np.array([0.0, 0.5, -0.7, 1.08, 2.0])
    u, g = (np.concatenate([kinks, rng.uniform(-6.0, 6.0, 200)]) for _ in range(2))
    t = np.exp(rng.uniform(np.log(0.02), np.log(20.0), u.size))
    found = np.empty((5, u.size, 2))
    compiled_formulas((penalty.kind, table), u, t, g, found)
    methods = [
        lambda i, j: penalty.prox(u[i], t[i], j),
        lambda i, j: penalty.value(u[i], j),
        lambda i, j: penalty.distance(u[i], g[i], j),
        lambda i, j: penalty.threshold(j),
        lambda i, j: penalty.conjugate(g[i], j),
    ]
    for method, out in zip(methods if penalty.convex else methods[:4], found, strict=False):
        expected = [[method(i, j) for j in range(2)] for i in range(u.size)]
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)


@each_penalty
@given(g=numbers, j=st.integers(0, 1))
def test_threshold_keeps_zero(name, g, j):
    penalty = PENALTIES[name]
    threshold = penalty.threshold(j)
    if threshold < 0:
        assert penalty.value(0.0, j) == math.inf
    elif abs(g) <= threshold:
        assert penalty.distance(0.0, g, j) == 0.0
    else:  # the pull is felt on at least one side, unless a bound holds it
        bounded = penalty.prox(-1e3, 1.0, j) == 0.0 or penalty.prox(1e3, 1.0, j) == 0.0
        assert bounded or penalty.distance(0.0, g, j) > 0.0


@pytest.mark.parametrize("name", CONVEX)
@given(x=numbers, v=numbers, j=st.integers(0, 1))
def test_conjugate_satisfies_fenchel_young(name, x, v, j):
    penalty = PENALTIES[name]
    assert penalty.value(x, j) + penalty.conjugate(v, j) >= x * v - 1e-12 * (1 + abs(x * v))
    # With equality where v is a subgradient: Moreau's u = prox(u) + v.
    nearest = penalty.prox(x, 1.0, j)
    subgradient = (x - nearest) * (1 - 1e-12)  # rounding must not push it out of the domain
    total = penalty.value(nearest, j) + penalty.conjugate(subgradient, j)
    assert total == pytest.approx(nearest * subgradient, abs=1e-9)


@pytest.mark.parametrize("name", NONCONVEX)
def test_nonconvex_penalties_have_no_conjugate(name):
    with pytest.raises(TypeError, match="not convex"):
        PENALTIES[name].conjugate(0.1, 0)


@pytest.mark.parametrize("name", FREE)
@given(g0=st.lists(st.floats(-5, 5), min_size=2, max_size=2))
def test_lam_max_is_the_smallest_that_keeps_zero(name, g0):
    penalty = PENALTIES[name]
    lam_max = penalty.lam_max(np.array(g0))
    penalised = [j for j in range(2) if name != "weighted l1" or penalty.weights[j] > 0]

    def pulls(lam):
        at = penalty.scaled(lam)
        assert at.lam == lam
        assert type(at) is type(penalty)
        return max(at.distance(0.0, g0[j], j) for j in penalised)

    if lam_max > 1e-6:
        assert pulls(lam_max * (1 + 1e-12)) == 0.0
        assert pulls(lam_max * (1 - 1e-6)) > 0.0


def test_lam_max_where_no_lam_keeps_zero():
    assert ElasticNet(1.0, 0.0).lam_max(np.ones(2)) == math.inf
    assert ElasticNet(1.0, 0.0).lam_max(np.zeros(2)) == 0.0
    assert Box(0.5, 2.0).lam_max(np.zeros(2)) == math.inf
    assert Box(0.0, 0.0).lam_max(np.ones(2)) == 0.0


@pytest.mark.parametrize("name", NONCONVEX)
@given(x=numbers)
def test_the_convex_part_has_the_slope_at_zero_and_lies_above(name, x):
    penalty = PENALTIES[name]
    convex = penalty.convex_part()
    assert convex.convex
    assert convex.threshold(0) == penalty.threshold(0)
    assert convex.value(x, 0) >= penalty.value(x, 0) * (1 - 1e-15)


def test_total_sums_over_coordinates():
    assert WeightedL1(0.5, [1.0, 2.0]).total(np.array([2.0, -3.0])) == pytest.approx(4.0)


def test_get_finds_every_name_and_every_scalar_penalty_is_tested_here():
    options = {"weighted_l1": {"weights": [1.0]}, "group_l2": {"groups": 1}}
    options |= {"sparse_group": {"groups": 1, "l1_ratio": 0.5}}
    for name in penalties.BY_NAME:
        assert penalties.get(name, 0.3, **options.get(name, {})).lam == 0.3
    assert penalties.get("nonnegative_l1", 1.0).positive
    shipped = {type(penalty) for penalty in PENALTIES.values()}
    assert shipped == {
        one for one in vars(penalties.scalar).values()
        if isinstance(one, type) and issubclass(one, penalties.ShippedScalar)
        and one.__name__ in penalties.__all__
    } - {penalties.ShippedScalar}  # fmt: skip
