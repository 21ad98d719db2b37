"""Nonconvex regularisers: global minima by brute force, ties and jumps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from regulariser_cases import LAM, NONCONVEX, diagonal, quick, seeds

from cyclade.regularisers import L0, L1, MCP, SCAD, LHalf, PerBlock
from cyclade.regularisers.joined import Joined

by_name = pytest.mark.parametrize("case", NONCONVEX, ids=lambda case: case.name)
SPECIAL = np.array([0.0, LAM, 1.5 * LAM, 2.5 * LAM])


def lowest(case, u, t):
    """The smallest prox objective of every coordinate: a grid, the kinks, and a finer grid."""

    def cost(z):
        return case.formula(z) + (z - u[:, None]) ** 2 / (2.0 * t[:, None])

    far = np.abs(u).max() + 1.0
    grid = np.concatenate([np.linspace(-far, far, 4001), SPECIAL, -SPECIAL, u])
    grid = np.broadcast_to(grid, (len(u), len(grid)))
    best = grid[np.arange(len(u)), cost(grid).argmin(axis=1)]
    step = far / 2000
    finer = best[:, None] + np.linspace(-step, step, 2001)
    return np.minimum(cost(grid).min(axis=1), cost(finer).min(axis=1))


@by_name
@pytest.mark.parametrize("to", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@quick
@given(
    seed=seeds,
    size=st.sampled_from([0.3, 1.0, 4.0]),
    step=st.sampled_from([0.05, 0.5, 1.0, 1.4, 1.6, 3.0, 30.0]),
    is_diagonal=st.booleans(),
    coarse=st.booleans(),
)
def test_prox_is_a_global_minimiser(case, to, dtype, seed, size, step, is_diagonal, coarse):
    rng = np.random.default_rng(seed)
    u = size * rng.standard_normal(case.shape)
    if coarse:  # points at the kinks
        u = rng.choice(np.concatenate([SPECIAL, -SPECIAL]), case.shape)
    u = u.astype(dtype)
    t = step * diagonal(rng, case.shape).astype(dtype) if is_diagonal else step
    z = np.asarray(case.reg.prox(to(u), to(t) if is_diagonal else t))
    assert z.dtype == np.dtype(dtype)
    z, u = z.astype(float), u.astype(float)
    steps = np.broadcast_to(np.asarray(t, dtype=float), u.shape)
    reached = case.formula(z) + (z - u) ** 2 / (2.0 * steps)
    slack = 8 * np.finfo(dtype).eps * (1.0 + u**2 / steps)
    assert (reached <= lowest(case, u, steps) + slack).all()


@by_name
def test_value_is_the_formula(case):
    u = np.concatenate([np.linspace(-3.0, 3.0, 601), SPECIAL, -SPECIAL])
    assert case.reg.value(u) == pytest.approx(float(case.formula(u).sum()), rel=1e-13)


@by_name
def test_they_say_that_they_are_not_convex(case):
    assert not case.reg.convex
    assert not PerBlock([L1(1.0), case.reg]).convex
    assert PerBlock([L1(1.0)]).convex
    joined = [(slice(0, 2), (2,), L1(1.0)), (slice(2, 4), (2,), case.reg)]
    assert not Joined(joined).convex
    assert Joined(joined[:1]).convex


@by_name
def test_without_a_weight_nothing_happens(case):
    free = type(case.reg)(0.0)
    u, v = np.array([-2.0, 0.0, 1e-3]), np.array([1.0, 2.0, -2.0])
    for t in (0.1, 50.0):
        np.testing.assert_array_equal(free.prox(u, t), u)
    assert free.value(u) == 0.0
    assert free.distance(u, v) == 3.0


def test_of_two_minimisers_the_one_nearest_to_zero_is_returned():
    assert L0(2.0).prox([2.0, -2.0, 2.0001], 1.0).tolist() == [0.0, 0.0, 2.0001]
    assert MCP(1.0, 1.0).prox([2.0, 2.0001], 4.0).tolist() == [0.0, 2.0001]  # √(γ t) = 2
    assert MCP(1.0, 4.0).prox([4.0, 4.0001], 4.0).tolist() == [0.0, 4.0001]  # all of [0, 4] ties
    assert SCAD(1.0, 3.0).prox([3.0, 3.0001], 2.0).tolist() == [1.0, 3.0001]  # all of [1, 3] ties
    assert LHalf(1.0).prox([1.5], 1.0)[0] == 0.0
    # Just beyond the threshold the prox jumps to (λt)^{2/3}.
    assert LHalf(1.0).prox([1.5 + 1e-9], 1.0)[0] == pytest.approx(1.0, abs=1e-6)


def test_every_zero_is_stationary_for_l0_and_l_half():
    u, v = np.array([0.0, 4.0]), np.array([1e6, 0.0])
    assert L0(1.0).distance(u, v) == 0.0
    assert LHalf(1.0).distance(u, v) == 0.25
    assert MCP(1.0, 2.0).distance(u, v) == pytest.approx(1e6 - 1.0)
