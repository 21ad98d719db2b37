"""Success means that F is stationary: not that steps were small, nor that Λ was large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import L0, L1, Box, LHalf, NonNegative, Regulariser, minimize
from small import bowl, squares

SCALE = np.array([1.0, 4.0, 9.0])
CHECK_JAC = "Check that jac is the gradient of fun"


def quadratic(x0: float = 0.0, **options: Any) -> Any:
    return minimize(x0=np.full(3, x0), **bowl(SCALE, 3.0), **options)


@pytest.mark.parametrize("L", [1e13, [np.full(3, 1e13)]], ids=["number", "diagonal"])
def test_an_inflated_Lambda_certifies_nothing_but_a_truly_stationary_point(L: Any) -> None:
    res = quadratic(L=L, max_cycles=30)
    assert not res.success
    assert "times the curvature of f" in res.message
    assert res.dist > 1.0
    assert quadratic(3.0, L=L).success


def test_the_three_figures() -> None:
    res = quadratic(L=9.0, max_cycles=25, tol=None)
    length = np.linalg.norm(SCALE * (res.x - 3))
    assert res.dist == pytest.approx(length)
    assert res.squared_distance == pytest.approx(length**2 / 9)
    assert res.relative == pytest.approx(length / np.linalg.norm(3 * SCALE))
    assert res.history["dist"][-1] == res.dist


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_rtol_does_not_depend_on_units(scale: float) -> None:
    res = minimize(x0=np.zeros(3), **bowl(scale * SCALE, 3.0), tol=None, rtol=1e-6)
    assert res.success
    assert "rtol" in res.message
    assert res.relative <= 1e-6
    np.testing.assert_allclose(res.x, 3, atol=1e-4)


def test_a_block_on_which_f_is_flat_does_not_stand_in_the_way() -> None:
    problem = bowl(np.array([1.0, 0.0]), 1.0)
    res = minimize(x0=np.zeros(2), blocks="coordinates", L=[1.0, 1.0], reg=L1(0.1), **problem)
    assert res.success
    np.testing.assert_allclose(res.x, [0.9, 0.0], atol=1e-6)


def test_a_tolerance_below_rounding_ends_with_a_telling_message() -> None:
    fun, jac = squares(30, 5, weight=2.0)
    res = minimize(fun, np.zeros(5), jac=jac, tol=1e-300, max_cycles=1000)
    assert not res.success
    assert "before the tolerance" in res.message
    assert res.dist < 1e-10


@pytest.mark.parametrize("asked", [{"rtol": 1e-6, "tol": None}, {"tol": float("inf")}], ids=str)
def test_a_start_outside_the_domain_is_no_success(asked: Any) -> None:
    """F is infinite there: a distance of infinity is no measure for those that follow."""
    res = minimize(x0=np.full(3, 5.0), **bowl(1.0, 0.3), reg=Box(0.0, 1.0), **asked)
    assert res.success
    assert res.cycles > 0
    assert np.isfinite([res.fun, res.relative]).all()
    assert ((res.x >= 0) & (res.x <= 1)).all()
    here = minimize(x0=np.array([-1.0, 2.0]), **bowl(), reg=NonNegative(), max_cycles=0)
    assert (here.success, here.dist) == (False, np.inf)


@pytest.mark.parametrize("tol", [1e308, float("inf")])
def test_a_huge_tolerance_is_met_at_once(tol: float) -> None:
    res = quadratic(tol=tol, L=9.0)
    assert res.success
    assert res.cycles == 0


@pytest.mark.parametrize("reg", [L0(0.1), LHalf(0.1)], ids=repr)
def test_a_zero_that_a_nonconvex_prox_would_leave_is_no_success(reg: Any) -> None:
    """Zero is in the limiting subdifferential of l0 at every zero: that alone is no minimum."""
    res = minimize(x0=np.zeros(3), **bowl(1.0, 3.0), reg=reg)
    assert res.success
    assert (res.x > 2.5).all()


@pytest.mark.parametrize(
    "asked", [{"change_tol": 1e-8}, {}, {"L": 2.0, "change_tol": 1.0}], ids=str
)
@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_wrong_gradient_is_no_success_of_any_kind(asked: Any, factor: float) -> None:
    problem = bowl(2.0) | {"jac": lambda x: 2 * factor * x}
    res = minimize(x0=np.ones(2), **{"tol": None, "max_cycles": 100, **problem, **asked})
    assert not res.success
    assert CHECK_JAC in res.message, res.message


@pytest.mark.parametrize("asked", [{"L": 1e14, "change_tol": 1e-6}, {"L": 1e20}], ids=str)
def test_small_steps_of_a_huge_Lambda_are_no_success(asked: Any) -> None:
    res = minimize(x0=np.ones(2), **bowl(2.0), tol=None, max_cycles=50, **asked)
    assert not res.success
    assert "times the curvature of f" in res.message


@pytest.mark.parametrize("method", ["VRO-CCD", "SCCD", "PAGE", "VR-CCD", "SGD"])
def test_a_sampling_method_that_diverges_names_a_wrong_gradient(method: str) -> None:
    fun, jac = squares(50, 6)
    res = minimize(fun, np.ones(6), n=50, blocks=2, jac=lambda x, i: -jac(x, i), method=method)
    assert not res.success
    assert "diverged" in res.message
    assert CHECK_JAC in res.message


class Absolute(Regulariser):
    """A user's λ‖u‖₁ whose prox shrinks by `factor` times too much, or whose distance is zero."""

    def __init__(self, lam: float, factor: float, claims: bool = False) -> None:
        self.lam, self.factor, self.claims = lam, factor, claims

    def value(self, u: Any) -> float:
        return self.lam * float(abs(u).sum())

    def _prox(self, u: Any, t: Any) -> Any:
        return L1(self.factor * self.lam).prox(u, t)

    def _distance(self, u: Any, v: Any, w: Any) -> float:
        return 0.0 if self.claims else L1(self.lam).distance(u, v, w)


@pytest.mark.parametrize("method", ["P-CCD", "VRO-CCD", "PAGE"])
@pytest.mark.parametrize(
    ("factor", "claims", "words"),
    [
        (1.0, False, ""),
        (0.0, True, "distance says that x is stationary to 0, but a prox step"),
        (0.0, False, "contradicts itself"),
        (0.9, False, "prox does not minimise value"),
        (1.1, False, "prox does not minimise value"),
        (2.0, True, "contradicts itself"),
    ],
)
def test_a_users_regulariser_must_agree_with_itself(
    method: str, factor: float, claims: bool, words: str
) -> None:
    fun, jac = squares(60, 12)

    def parts(x: Any, i: Any = slice(None)) -> Any:
        g = jac(x["W"] - x["b"], i)
        return {"W": g, "b": -g}

    res = minimize(
        lambda x, i=slice(None): fun(x["W"] - x["b"], i),
        {"W": np.zeros(12), "b": np.full(12, 0.1)}, jac=parts, n=60, method=method,
        reg={"W": Absolute(0.1, factor, claims), "b": L1(1.0)}, max_cycles=400,
    )  # fmt: skip
    assert res.success == (words == ""), res.message
    assert words in res.message
    assert res.success or "the regulariser of block 'W', contradicts itself" in res.message
    assert not claims or res.status == "wrong_regulariser"


@pytest.mark.parametrize("method", ["P-CCD", "PAGE"])
@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize(
    ("x0", "blocks"), [(np.ones(400), "coordinates"), (np.ones(()), None)], ids=["400", "1"]
)
def test_a_regulariser_of_many_blocks_and_of_a_number_is_asked(
    x0: Any, blocks: Any, factor: float, method: Any
) -> None:
    res = minimize(
        x0=x0, **bowl(1.0, 2.0), blocks=blocks, n=9, method=method, L=1.0, eta=1.0,
        reg=Absolute(0.5, factor, claims=factor < 1.0),
    )  # fmt: skip
    assert res.success == (factor == 1.0), res.message
    assert res.success or "the regulariser of block '" in res.message
