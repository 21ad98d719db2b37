"""Optimality of every prox on random input, and proof that the check can fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from regulariser_cases import (
    CASES,
    CONVEX,
    NAMES,
    anywhere,
    diagonal,
    objective,
    optimality_gap,
    quick,
    seeds,
)

from cyclade.certificates import prox_error
from cyclade.regularisers import L1, Simplex, TotalVariation1D

magnitudes = st.sampled_from([1e-3, 1.0, 1e3])


def draw_problem(case, seed, size, step, is_diagonal, coarse):
    """A point and a step; coarse points have small integers, hence ties and zeros."""
    rng = np.random.default_rng(seed)
    u = size * anywhere(case, rng)
    if coarse:
        u = np.round(u / size) * size
    t = step * diagonal(rng, case.shape) if is_diagonal else step
    return rng, u, t


problems = {
    "seed": seeds,
    "size": magnitudes,
    "step": magnitudes,
    "is_diagonal": st.booleans(),
    "coarse": st.booleans(),
}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@quick
@given(**problems)
def test_prox_satisfies_the_optimality_condition(case, **problem):
    _, u, t = draw_problem(case, **problem)
    z = case.reg.prox(u, t)
    assert case.reg.value(z) < np.inf
    assert optimality_gap(case.reg, z, u, t) < 1e-9


@pytest.mark.parametrize("case", CONVEX, ids=lambda case: case.name)
@quick
@given(**problems)
def test_no_feasible_point_is_better(case, **problem):
    """The prox objective grows at least quadratically away from z along feasible segments."""
    rng, u, t = draw_problem(case, **problem)
    z = case.reg.prox(u, t)
    best = objective(case.reg, z, u, t)
    for _ in range(5):
        other = case.feasible(case, rng)
        for part in (1.0, 0.1, 1e-3):
            y = z + part * (other - z) if part < 1 else other
            grown = best + 0.5 * np.sum((y - z) ** 2 / t)
            value = objective(case.reg, y, u, t)
            assert value >= grown - 1e-10 * (abs(value) + abs(grown) + np.sum(u**2 / t))


class WrongThreshold(L1):
    """Thresholds at lam instead of lam t."""

    def _prox(self, u, t):
        return super()._prox(u, 1.0)


class WrongProjection(Simplex):
    """Forgets that a diagonal step changes the projection."""

    def _prox(self, u, t):
        return super()._prox(u, 1.0)


class WrongWeights(TotalVariation1D):
    """Uses the mean of a diagonal step."""

    def _prox(self, u, t):
        return super()._prox(u, float(np.mean(t)))


@pytest.mark.parametrize("wrong", [WrongThreshold(0.7), WrongProjection(2.0), WrongWeights(0.7)])
def test_the_optimality_check_catches_wrong_proxes(wrong):
    rng = np.random.default_rng(0)
    u, t = rng.standard_normal(6), diagonal(rng, (6,))
    assert optimality_gap(wrong, wrong.prox(u, t), u, t) > 1e-3
    right = type(wrong).__mro__[1](2.0 if isinstance(wrong, Simplex) else 0.7)
    assert optimality_gap(right, right.prox(u, t), u, t) < 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
@quick
@given(seed=seeds, size=magnitudes, step=magnitudes)
def test_the_end_of_a_run_finds_no_fault_with_right_proxes(case, dtype, seed, size, step):
    u = (size * anywhere(case, np.random.default_rng(seed))).astype(dtype)
    z = case.reg.prox(u, step)
    gradient = (u - z) / dtype(step)  # with which z is stationary
    assert prox_error(case.reg, z, gradient, step, 1e-6) == ""


def test_the_end_of_a_run_finds_a_wrong_threshold():
    u = np.array([3.0, -2.0, 0.5])
    wrong = WrongThreshold(0.7)
    z = wrong.prox(u, 2.0)
    assert "prox does not minimise" in prox_error(wrong, z, (u - z) / 2.0, 2.0, 1e-6)
