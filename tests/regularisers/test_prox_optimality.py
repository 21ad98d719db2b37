"""Optimality of every prox on random input, with steps of all sizes; both checks can fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from regulariser_cases import (
    CASES,
    NAMES,
    anywhere,
    diagonal,
    optimality_gap,
    quick,
    seeds,
)

from cyclade.certificates import prox_error
from cyclade.regularisers import L1

magnitudes = st.sampled_from([1e-3, 1.0, 1e3])
steps = st.sampled_from([1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12])


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
    "step": steps,
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


class WrongThreshold(L1):
    """Thresholds at lam instead of lam t."""

    def _prox(self, u, t):
        return super()._prox(u, 1.0)


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
    assert optimality_gap(wrong, z, u, 2.0) > 1e-3
    assert "prox does not minimise" in prox_error(wrong, z, (u - z) / 2.0, 2.0, 1e-6)
