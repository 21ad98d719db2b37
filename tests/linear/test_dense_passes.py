"""Passes over a dense X: loops over eight columns or rows at a time, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear import threads
from cyclade.linear.kernels import dense
from cyclade.linear.panels.dense import turned
from cyclade.linear.problem import as_design
from cyclade.linear.tuning import Tuning

SIZES = [(1, 1), (7, 8), (200, 9), (40, 301), (333, 160)]


def close(found, exact, dtype):
    """Up to the rounding of sums in that precision."""
    tolerance = 1e-12 if dtype == np.float64 else 2e-4
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_products_with_x_are_those_of_numpy(size, order, dtype, ranks):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal(size), dtype, order=order)
    design = as_design(X, tuning=Tuning(cache=0, large=0))
    v, x = rng.standard_normal(size[0]), rng.standard_normal(size[1])
    few = np.where(rng.random(size[1]) < 0.2, x, 0.0)
    exact = X.astype(np.float64)
    with threads.allowed(ranks):
        close(design.correlate(v), exact.T @ v, dtype)
        for point in (x, few, 0.0 * x):
            found = design.predict(point)
            assert found.dtype == np.float64
            close(found, exact @ point, dtype)
        close(design.predict(few, np.flatnonzero(few)), exact @ few, dtype)


@pytest.mark.parametrize("size", SIZES)
def test_loops_over_eight_columns_are_those_over_one(size):
    rng = np.random.default_rng(1)
    XT, columns = rng.standard_normal(size[::-1]), rng.permutation(size[1])
    v, x, first = rng.standard_normal(size[0]), rng.standard_normal(size[1]), size[0] // 3
    out, z = np.empty(size[1]), rng.standard_normal(size[0] - first)
    expected = z.copy()
    for k, j in enumerate(columns):
        expected += x[k] * XT[j, first:]
    dense.correlate(XT, columns, v, out)
    dense.add_rows(XT, columns, x, z, first)
    np.testing.assert_allclose(out, [XT[j] @ v for j in columns], atol=1e-12)
    np.testing.assert_allclose(z, expected, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ranks", [1, 3])
def test_columns_of_x_by_rows_are_turned(size, dtype, ranks):
    rng = np.random.default_rng(2)
    X = rng.standard_normal(size).astype(dtype)
    for columns in (np.arange(size[1]), rng.integers(0, size[1], 37), np.empty(0, np.int64)):
        found = turned(X, columns, ranks)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, X[:, columns].T)


def test_a_design_is_turned_once_and_the_given_x_left_alone():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 20))
    given, v, x = X.copy(), rng.standard_normal(90), rng.standard_normal(20)
    design = as_design(X)
    assert not design.by_columns
    assert design.turn() is design.turn()
    assert design.by_columns
    assert design.X.flags.f_contiguous
    np.testing.assert_array_equal(design.X, given)
    np.testing.assert_array_equal(X, given)
    np.testing.assert_allclose(design.correlate(v), given.T @ v, atol=1e-12)
    np.testing.assert_allclose(design.predict(x), given @ x, atol=1e-12)


def test_numbers_that_are_not_finite_stay_so():
    XT = np.ones((9, 20))
    XT[3, 5], out = np.inf, np.empty(9)
    dense.correlate(XT, np.arange(9), np.ones(20), out)
    assert np.isinf(out[3])
    assert np.isfinite(np.delete(out, 3)).all()
