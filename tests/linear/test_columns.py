"""Few columns of many rows: cycles on products of columns, and the loss looked at once."""

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import losses, solve
from cyclade.linear.loss_at import loss_at
from cyclade.linear.penalties import L1, MCP
from cyclade.linear.problem import as_design


def tall(n=400, p=12, offset=0.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.4) + offset
    y = np.where(X[:, :3].sum(axis=1) + rng.standard_normal(n) > 3 * offset, 1.0, -1.0)
    return X, y, rng


@pytest.mark.parametrize(
    ("storage", "dtype"),
    [
        (np.asfortranarray, np.float64),
        (np.ascontiguousarray, np.float64),
        (sp.csc_matrix, np.float64),
        (sp.csc_matrix, np.float32),
    ],
)
def test_columns_without_weights(storage, dtype):
    X, _, rng = tall()
    X = X.astype(dtype)
    cols, chosen = np.array([1, 4, 5, 9]), np.array([0, 2])
    design = as_design(storage(X))
    columns = design.unweighted(cols, False)
    at, w, x = columns.cols, rng.random(len(X)), rng.standard_normal(2)
    A, tolerance = X[:, at].astype(float), 1e-10 if dtype is np.float64 else 1e-3
    np.testing.assert_allclose(columns.slopes(w), A.T @ w, atol=tolerance)
    some = np.array([2, 0])
    np.testing.assert_allclose(columns.slopes(w, some), (A.T @ w)[some], atol=tolerance)
    B = A[:, chosen]
    for d in (w, w - 0.5):  # of both signs
        np.testing.assert_allclose(columns.products(chosen, d), (B.T * d) @ B, atol=tolerance)
    np.testing.assert_allclose(columns.combine(chosen, x), B @ x, atol=tolerance)
    np.testing.assert_allclose(design.correlate_some(cols, w), X[:, cols].T @ w, atol=tolerance)


def test_one_look_at_the_logistic_loss_is_the_loss():
    z = np.concatenate([np.linspace(-40, 40, 101), [-800.0, 800.0, 0.0]])
    y = np.where(np.arange(z.size) % 2 == 0, 1.0, -1.0)
    s, loss = np.full(z.size, 1 / z.size), losses.get("logistic")
    there = loss_at(loss, y, s, z)
    np.testing.assert_allclose(there.value, s @ loss.value(y, z), rtol=1e-14)
    np.testing.assert_allclose(there.u, loss.gradient(y, z), rtol=1e-14)
    np.testing.assert_allclose(there.second, loss.curvature(y, z), rtol=1e-13)
    np.testing.assert_allclose(there.slopes, s * loss.gradient(y, z), rtol=1e-14)


@pytest.mark.parametrize("storage", [np.asfortranarray, sp.csc_matrix])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "cauchy"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("penalty", [L1(0.02), MCP(0.02, 20.0)])
def test_tall_problems_are_stationary(storage, loss, intercept, offset, penalty):
    X, y, _ = tall(offset=offset * intercept)
    fit = solve(storage(X), y, loss, penalty, fit_intercept=intercept, tol=1e-8)
    assert fit.certificate.reached
    z = X @ fit.coef + fit.intercept
    u = losses.get(loss).gradient(y, z) / len(y)
    g = X.T @ u
    away = [
        penalty.distance(x, slope, j) for j, (x, slope) in enumerate(zip(fit.coef, g, strict=True))
    ]
    assert max(away) < 2e-5 * (1 + offset)
    if intercept:
        assert abs(u.sum()) < 1e-6
