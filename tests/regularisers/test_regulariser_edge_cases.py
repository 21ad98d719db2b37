"""Extreme sizes, ties, single entries, points already optimal."""

import numpy as np
import pytest
from regulariser_cases import diagonal, optimality_gap

from cyclade.regularisers import (
    L1,
    Box,
    GroupL2,
    L1Ball,
    L2Ball,
    NonNegative,
    NuclearNorm,
    Simplex,
    TotalVariation1D,
)
from cyclade.regularisers import matrix as matrix_module
from regulariser_checks import check_joined_distances, check_rank_of_the_nuclear_norm

SETS = [Simplex(2.0), L1Ball(1.5), L2Ball(1.5), NonNegative(), Box(-1.0, 0.5)]


@pytest.mark.parametrize("reg", SETS, ids=repr)
@pytest.mark.parametrize("size", [1.0, 1e4, 1e8, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 5000])
def test_projections_are_inside_and_idempotent(reg, size, dtype, n):
    rng = np.random.default_rng(n)
    offset = size * rng.standard_normal()
    u = (offset + size * rng.standard_normal(n)).astype(dtype)
    for t in (0.5, diagonal(rng, (n,), 2.0).astype(dtype)):
        z = reg.prox(u, t)
        assert z.dtype == dtype
        assert reg.value(z) == 0.0
        again = reg.prox(z, t)
        np.testing.assert_allclose(again, z, rtol=100 * np.finfo(dtype).eps, atol=1e-5)
        assert optimality_gap(reg, z, u, t) < 1e3 * np.finfo(dtype).eps


@pytest.mark.parametrize("reg", [L1Ball(1.5), L2Ball(1.5), NonNegative(), Box(-1.0, 0.5)], ids=repr)
def test_feasible_points_stay_exactly(reg):
    u = np.array([0.25, 0.5, 0.0])
    for t in (0.5, np.array([0.1, 1.0, 10.0])):
        np.testing.assert_array_equal(reg.prox(u, t), u)


def test_simplex_with_steps_of_very_different_sizes():
    # c = 1/2 up to the 1e-12 that the first entry gives.
    z = Simplex(1.0).prox(np.array([0.5, 1.0]), np.array([1e-12, 1.0]))
    np.testing.assert_allclose(z, [0.5, 0.5], atol=1e-11)


def test_total_variation_fuses_exactly_and_sees_exact_jumps():
    rng = np.random.default_rng(0)
    steps = np.repeat([0.0, 3.0, -1.0], 100)
    noisy = steps + 0.1 * rng.standard_normal(300)
    t = diagonal(rng, (300,), 0.3)
    z = TotalVariation1D(2.0).prox(noisy, t)
    assert len(np.unique(z)) < 10
    assert optimality_gap(TotalVariation1D(2.0), z, noisy, t) < 1e-12
    far = TotalVariation1D(1e6).prox(noisy, t)
    assert len(np.unique(far)) == 1
    np.testing.assert_allclose(far, np.sum(noisy / t) / np.sum(1 / t))
    shifted = TotalVariation1D(2.0).prox(noisy + 1e8, t)
    np.testing.assert_allclose(shifted - 1e8, z, atol=1e-6)


def test_kinks_are_exact():
    """A coordinate of 1e-30 is not zero, so its subgradient is not free."""
    v = np.array([0.5])
    assert L1(1.0).distance(np.array([0.0]), v) == 0.0
    assert L1(1.0).distance(np.array([1e-30]), v) == 1.5
    assert NonNegative().distance(np.array([0.0]), v) == 0.0
    assert NonNegative().distance(np.array([1e-30]), v) == 0.5
    assert GroupL2(1.0).distance(np.array([1e-200]), v) == 1.5
    flat, stepped = np.zeros(2), np.array([0.0, 1e-30])
    assert TotalVariation1D(1.0).distance(flat, np.array([0.5, -0.5])) == pytest.approx(0.0)
    assert TotalVariation1D(1.0).distance(stepped, np.array([0.5, -0.5])) > 0.5


@pytest.mark.parametrize("check", [check_rank_of_the_nuclear_norm, check_joined_distances])
def test_distances_by_hand(check):
    check()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (8, 6)])
def test_nuclear_norm_of_thin_matrices(shape):
    rng = np.random.default_rng(3)
    u, t = 3 * rng.standard_normal(shape), diagonal(rng, shape)
    reg = NuclearNorm(1.3)
    z = reg.prox(u, t)
    assert optimality_gap(reg, z, u, t) < 1e-11
    if 1 in shape:  # then it is the l2 norm
        np.testing.assert_allclose(z, GroupL2(1.3).prox(u, t), atol=1e-11)


def test_nuclear_norm_warns_when_it_cannot_finish(monkeypatch):
    monkeypatch.setattr(matrix_module, "_ITERATIONS", 3)
    rng = np.random.default_rng(4)
    with pytest.warns(RuntimeWarning, match="NuclearNorm: the dual problem for a diagonal step"):
        NuclearNorm(0.5).prox(rng.standard_normal((5, 5)), diagonal(rng, (5, 5), 2.0))
