"""Compressed least squares: the same loss at every point, the same fits."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.linear.compression import compress


def tall(rng, n=400, p=7, shift=0.0, dtype=np.float64, order="F"):
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + shift * np.arange(p)
    return np.asarray(X, dtype, order=order)


def loss(X, y, s, x, c):
    return 0.5 * float(s @ (y - X @ x - c) ** 2)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shift", "order", "dtype"), [
    (0.0, "F", np.float64), (1e6, "C", np.float64), (3.0, "F", np.float32),
])  # fmt: skip
def test_the_loss_is_the_same_at_every_point(fit_intercept, weighted, shift, order, dtype):
    rng = np.random.default_rng(0)
    X = tall(rng, shift=shift, order=order, dtype=dtype)
    y = rng.standard_normal(400) + 5.0
    s = rng.random(400) if weighted else np.ones(400)
    s /= s.sum()
    small = compress(X, y, s, fit_intercept)
    assert small.X.shape == (7, 7)
    for _ in range(5):
        x = rng.standard_normal(7)
        c = small.intercept(x)
        assert fit_intercept or c == 0.0
        found = 0.5 * np.mean((small.y - small.X @ x) ** 2) + small.constant
        exact = loss(X.astype(float), y, s, x, c)
        scale = 1e-8 if shift > 1e3 else 1e-12
        assert found == pytest.approx(exact, rel=scale)
        if fit_intercept:  # no other intercept is better
            assert exact <= loss(X.astype(float), y, s, x, c + 1e-3)


def test_dependent_columns_leave_fewer_rows():
    rng = np.random.default_rng(1)
    X = tall(rng, p=4)
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.zeros(400)])
    y = rng.standard_normal(400)
    small = compress(X, y, np.full(400, 1 / 400), True)
    assert small.X.shape == (4, 6)
    x = rng.standard_normal(6)
    found = 0.5 * np.mean((small.y - small.X @ x) ** 2) + small.constant
    exact = loss(X, y, np.full(400, 1 / 400), x, small.intercept(x))
    assert found == pytest.approx(exact, rel=1e-12)


def test_nothing_is_compressed_where_numbers_overflow():
    X = np.full((20, 2), 1e200)
    assert compress(X, np.ones(20), np.full(20, 0.05), False) is None
