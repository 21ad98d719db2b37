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


def agree(X, y, *options, fit=solve, rtol=1e-9, **more):
    """The same fit of X by rows and by columns."""
    found, expected = (fit(Z, y, *options, **more) for Z in (X, np.asfortranarray(X)))
    if fit is path:
        np.testing.assert_allclose(found.coefs, expected.coefs, atol=1e-5)
    else:
        assert found.certificate.reached
        np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6 if rtol < 1e-8 else 1e-2)
        np.testing.assert_allclose(found.objective, expected.objective, rtol=rtol)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("n", [40, 700])
def test_least_squares_do_not_depend_on_the_order_in_memory(route, penalty, n):
    X, y = table(n, np.float64)
    options = {"tol": 1e-10, "tuning": ROUTES[route]}
    for s in (None, np.linspace(0.5, 1.5, n)):
        agree(X, y, "squared", PENALTIES[penalty], sample_weight=s, **options)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("loss", ["logistic", "poisson", Huber(1.0)], ids=str)
@pytest.mark.parametrize("large", [2**21, 0], ids=["copied", "in blocks"])
def test_curved_losses_do_not_depend_on_the_order_in_memory(route, loss, large):
    X, y = table(700, np.float64)
    y = y if isinstance(loss, Huber) else np.where(y > 0, 1.0, -1.0 if loss == "logistic" else 0.0)
    agree(
        X, y, loss, L1(0.01), tol=1e-10, tuning=replace(ROUTES[route], **NO_PRODUCTS, large=large)
    )


@pytest.mark.parametrize("route", ROUTES)
def test_paths_do_not_depend_on_the_order_in_memory(route):
    agree(*table(700, np.float64), fit=path, n_alphas=20, tol=1e-8, tuning=ROUTES[route])


def test_float32_by_rows_meets_its_tolerance():
    tuning = Tuning(**NO_PRODUCTS, cache=0)
    agree(*table(3_000, np.float32), "squared", L1(0.02), tuning=tuning, rtol=1e-4)
