"""X by rows, as NumPy makes it, against the same X by columns: the same solutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cyclade.linear import path, solve
from cyclade.linear.losses import Huber
from cyclade.linear.penalties import L1, MCP, ElasticNet, GroupL2
from cyclade.linear.tuning import CostModel, Tuning

NO_PRODUCTS = {"cost": CostModel(calls=-np.inf)}
TURNED = Tuning(**NO_PRODUCTS, long_run=0)
PICKED = Tuning(**NO_PRODUCTS, huge=0)
ROUTES = {"default": Tuning(), "turned": TURNED, "picked": PICKED}
PENALTIES = {
    "l1": L1(0.02), "elastic net": ElasticNet(0.03, 0.5), "mcp": MCP(0.1, 3.0),
    "groups": GroupL2(0.03, [list(range(k, k + 5)) for k in range(0, 60, 5)]),
}  # fmt: skip


def table(n, dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 60)) + 0.5 * rng.standard_normal((n, 1)) + 1.0
    y = X[:, ::9] @ rng.standard_normal(7) + rng.standard_normal(n)
    return X.astype(dtype), y


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("n", [40, 700])
def test_least_squares_do_not_depend_on_the_order_in_memory(route, penalty, n):
    X, y = table(n, np.float64)
    weights = np.linspace(0.5, 1.5, n)
    for s in (None, weights):
        by_rows, by_columns = (
            solve(Z, y, "squared", PENALTIES[penalty], sample_weight=s, tol=1e-10,
                  tuning=ROUTES[route])
            for Z in (X, np.asfortranarray(X))
        )  # fmt: skip
        assert by_rows.certificate.reached
        np.testing.assert_allclose(by_rows.coef, by_columns.coef, atol=1e-6)
        np.testing.assert_allclose(by_rows.objective, by_columns.objective, rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("loss", ["logistic", "poisson", Huber(1.0)], ids=str)
@pytest.mark.parametrize("large", [2**21, 0], ids=["copied", "in blocks"])
def test_curved_losses_do_not_depend_on_the_order_in_memory(route, loss, large):
    X, y = table(700, np.float64)
    y = y if isinstance(loss, Huber) else np.where(y > 0, 1.0, -1.0 if loss == "logistic" else 0.0)
    tuning = replace(ROUTES[route], **NO_PRODUCTS, large=large)
    by_rows, by_columns = (
        solve(Z, y, loss, L1(0.01), tol=1e-10, tuning=tuning) for Z in (X, np.asfortranarray(X))
    )
    assert by_rows.certificate.reached
    np.testing.assert_allclose(by_rows.coef, by_columns.coef, atol=1e-6)
    np.testing.assert_allclose(by_rows.objective, by_columns.objective, rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_paths_do_not_depend_on_the_order_in_memory(route):
    X, y = table(700, np.float64)
    by_rows, by_columns = (
        path(Z, y, n_alphas=20, tol=1e-8, tuning=ROUTES[route]) for Z in (X, np.asfortranarray(X))
    )
    np.testing.assert_allclose(by_rows.coefs, by_columns.coefs, atol=1e-5)


def test_float32_by_rows_meets_its_tolerance():
    X, y = table(3_000, np.float32)
    tuning = Tuning(**NO_PRODUCTS, cache=0)
    by_rows, by_columns = (
        solve(Z, y, "squared", L1(0.02), tuning=tuning) for Z in (X, np.asfortranarray(X))
    )
    assert by_rows.certificate.reached
    np.testing.assert_allclose(by_rows.objective, by_columns.objective, rtol=1e-4)
