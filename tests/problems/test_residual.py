"""`Linear` goes the way of the same f as a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_matrix

import cyclade
from cyclade import L1, Linear, NonNegative, minimize
from cyclade.linear import losses

RNG = np.random.default_rng(0)
A = RNG.standard_normal((60, 9)) * (RNG.random((60, 9)) < 0.6)
Y = A @ RNG.standard_normal(9) + RNG.standard_normal(60)


def as_function(loss: Any, y: Any) -> dict[str, Any]:
    """f and its gradient in plain NumPy."""

    def fun(x: Any, idx: Any = slice(None)) -> float:
        return float(loss.value(y[idx], A[idx] @ x).mean())

    def jac(x: Any, idx: Any = slice(None)) -> Any:
        return A[idx].T @ loss.gradient(y[idx], A[idx] @ x) / len(y[idx])

    return {"fun": fun, "jac": jac}


@pytest.mark.parametrize("blocks", [None, 3, "coordinates", [[0, 4, 8], [1, 2, 3, 5, 6, 7]]])
@pytest.mark.parametrize("method", ["P-CCD", "VRO-CCD", "VR-CCD", "PAGE", "SGD"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_it_goes_the_way_of_the_function(loss: str, method: str, blocks: Any) -> None:
    phi = losses.get(loss)
    y = np.sign(Y) if loss == "logistic" else Y
    options = {"n": 60, "blocks": blocks, "method": method, "reg": L1(0.01), "tol": None}
    if method == "P-CCD":  # a search on a quadratic turns on the last bit
        options["L"] = 5.0
    common = {"x0": np.full(9, 0.1), "max_cycles": 12, "returns": "last", **options}
    literal = minimize(**as_function(phi, y), **common)
    for table in (A, csr_matrix(A)):
        found = minimize(Linear(table, y, loss), **common)
        np.testing.assert_allclose(found.x, literal.x, rtol=1e-6, atol=1e-9)
        assert found.fun == pytest.approx(literal.fun, rel=1e-9)


def test_non_negative_least_squares_are_those_of_scipy() -> None:
    for blocks in (None, 3, "coordinates"):
        res = minimize(Linear(A, Y), np.zeros(9), reg=NonNegative(), blocks=blocks, tol=1e-10)
        assert res.success
        np.testing.assert_allclose(res.x, nnls(A, Y)[0], atol=1e-8)


def test_what_does_not_fit_is_refused_by_name() -> None:
    assert "Linear" not in vars(cyclade)  # loaded when it is used
    with pytest.raises(ValueError, match="one array of 9 numbers"):
        minimize(Linear(A, Y), np.zeros(8))
    with pytest.raises(ValueError, match="several outputs"):
        Linear(A, Y, "multinomial")
    with pytest.raises(ValueError, match="y"):
        Linear(A, Y[:-1])
    with pytest.raises(ValueError, match="leave jac"):
        minimize(Linear(A, Y), np.zeros(9), jac=lambda x: x)
