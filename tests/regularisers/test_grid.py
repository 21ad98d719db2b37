"""The grid: rounding as a prox, in both libraries, and quantised least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cyclade import Grid, PerBlock, minimize

NUMBERS = st.floats(-50, 50)


@given(arrays(float, 6, elements=NUMBERS), st.lists(NUMBERS, min_size=1, max_size=9))
def test_the_prox_is_the_nearest_point(u: np.ndarray, points: list[float]) -> None:
    z = Grid(points).prox(u, 0.3)
    assert set(z) <= set(points)
    np.testing.assert_array_equal(abs(z - u), abs(u[:, None] - points).min(axis=1))
    assert Grid(points).value(z) == Grid(points).distance(z, u) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_agrees_and_keeps_its_type(dtype: Any) -> None:
    reg, u = Grid([-1.0, -0.1, 0.7]), np.linspace(-2, 2, 41)
    z = reg.prox(torch.tensor(u, dtype=dtype), 1.0)
    assert z.dtype == dtype
    np.testing.assert_allclose(z, reg.prox(u, 1.0), rtol=1e-6)
    assert reg.value(z) == 0.0


def test_elsewhere_it_is_infinite_and_nan_stays() -> None:
    assert Grid([0.0, 1.0]).value(np.array([0.0, 0.5])) == np.inf
    assert Grid([0.0, 1.0]).distance(np.array([0.5]), np.zeros(1)) == np.inf
    assert np.isnan(Grid([0.0]).prox(np.array([np.nan]), 1.0)[0])


def test_quantised_least_squares_is_no_worse_than_rounding() -> None:
    """Coordinate descent on ‖A(x − w)‖² over a grid, started at the rounding of w."""
    rng = np.random.default_rng(0)
    A, w = rng.standard_normal((60, 12)) @ rng.standard_normal((12, 12)), rng.standard_normal(12)

    def fun(x: np.ndarray) -> float:
        return float(np.mean((A @ (x - w)) ** 2))

    def jac(x: np.ndarray) -> np.ndarray:
        return 2.0 * A.T @ (A @ (x - w)) / 60

    grids = PerBlock([Grid(np.arange(-4, 5) / 2.0)] * 12)
    start = Grid(np.arange(-4, 5) / 2.0).prox(w, 1.0)
    res = minimize(
        fun, start, jac=jac, blocks="coordinates", reg=grids, L=2.0 * (A**2).mean(axis=0)
    )
    assert res.success
    assert res.fun < fun(start)
    for j in range(12):  # no single entry can do better elsewhere on the grid
        for point in np.arange(-4, 5) / 2.0:
            x = res.x.copy()
            x[j] = point
            assert fun(x) >= res.fun - 1e-9
