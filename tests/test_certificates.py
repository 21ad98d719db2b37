"""Success means that F is stationary: not that steps were small, nor that Λ was large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import L0, L1, Box, LHalf, NonNegative, Regulariser, minimize


def quadratic(**options: Any) -> Any:
    H = np.diag([1.0, 4.0, 9.0])
    return minimize(
        lambda x: 0.5 * float((x - 3) @ H @ (x - 3)), np.zeros(3),
        jac=lambda x: H @ (x - 3), **options,
    )  # fmt: skip


@pytest.mark.parametrize("L", [1e13, [np.full(3, 1e13)]], ids=["number", "diagonal"])
def test_an_inflated_Lambda_certifies_nothing(L: Any) -> None:
    res = quadratic(L=L, max_cycles=30)
    assert not res.success
    assert "times the curvature of f" in res.message
    assert res.dist > 1.0


def test_an_inflated_Lambda_with_a_truly_stationary_point_is_a_success() -> None:
    H = np.diag([1.0, 4.0, 9.0])
    res = minimize(
        lambda x: 0.5 * float((x - 3) @ H @ (x - 3)), np.full(3, 3.0), jac=lambda x: H @ (x - 3),
        L=1e13,
    )  # fmt: skip
    assert res.success


def test_the_three_figures() -> None:
    res = quadratic(L=9.0, max_cycles=25, tol=None)
    gradient = np.array([1.0, 4.0, 9.0]) * (res.x - 3)
    assert res.dist == pytest.approx(np.linalg.norm(gradient))
    assert res.squared_distance == pytest.approx(np.linalg.norm(gradient) ** 2 / 9)
    at_x0 = np.linalg.norm([3.0, 12.0, 27.0])
    assert res.relative == pytest.approx(np.linalg.norm(gradient) / at_x0)
    assert res.history["dist"][-1] == res.dist


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_rtol_does_not_depend_on_units(scale: float) -> None:
    H = scale * np.diag([1.0, 4.0, 9.0])
    res = minimize(
        lambda x: 0.5 * float((x - 3) @ H @ (x - 3)), np.zeros(3), jac=lambda x: H @ (x - 3),
        tol=None, rtol=1e-6,
    )  # fmt: skip
    assert res.success
    assert "rtol" in res.message
    assert res.relative <= 1e-6
    np.testing.assert_allclose(res.x, 3, atol=1e-4)


def test_a_block_on_which_f_is_flat_does_not_stand_in_the_way() -> None:
    res = minimize(
        lambda x: 0.5 * float((x[0] - 1) ** 2), np.zeros(2),
        jac=lambda x: np.array([x[0] - 1, 0.0]), blocks="coordinates", L=[1.0, 1.0], reg=L1(0.1),
    )  # fmt: skip
    assert res.success
    np.testing.assert_allclose(res.x, [0.9, 0.0], atol=1e-6)


def test_a_tolerance_below_rounding_ends_with_a_telling_message() -> None:
    A = np.random.default_rng(0).standard_normal((30, 5))
    res = minimize(
        lambda x: 0.5 * float(np.sum((A @ x - 1) ** 2)), np.zeros(5),
        jac=lambda x: A.T @ (A @ x - 1), tol=1e-300, max_cycles=1000,
    )  # fmt: skip
    assert not res.success
    assert "before the tolerance" in res.message
    assert res.dist < 1e-10


@pytest.mark.parametrize("asked", [{"rtol": 1e-6, "tol": None}, {"tol": float("inf")}], ids=str)
def test_a_start_outside_the_domain_is_no_success(asked: Any) -> None:
    """F is infinite there: a distance of infinity is no measure for those that follow."""
    res = minimize(
        lambda x: 0.5 * float(np.sum((x - 0.3) ** 2)), np.full(3, 5.0), jac=lambda x: x - 0.3,
        reg=Box(0.0, 1.0), **asked,
    )  # fmt: skip
    assert res.success
    assert res.cycles > 0
    assert np.isfinite([res.fun, res.relative]).all()
    assert ((res.x >= 0) & (res.x <= 1)).all()


@pytest.mark.parametrize("tol", [1e308, float("inf")])
def test_a_huge_tolerance_is_met_at_once(tol: float) -> None:
    res = quadratic(tol=tol, L=9.0)
    assert res.success
    assert res.cycles == 0


@pytest.mark.parametrize("reg", [L0(0.1), LHalf(0.1)], ids=repr)
def test_a_zero_that_a_nonconvex_prox_would_leave_is_no_success(reg: Any) -> None:
    """Zero is in the limiting subdifferential of l0 at every zero: that alone is no minimum."""
    res = minimize(
        lambda x: 0.5 * float(np.sum((x - 3) ** 2)), np.zeros(3), jac=lambda x: x - 3, reg=reg
    )
    assert res.success
    assert (res.x > 2.5).all()


def test_an_infeasible_start_is_no_success() -> None:
    res = minimize(
        lambda x: 0.5 * float(x @ x), np.array([-1.0, 2.0]), jac=lambda x: x, reg=NonNegative(),
        max_cycles=0,
    )  # fmt: skip
    assert not res.success
    assert res.dist == np.inf


@pytest.mark.parametrize(
    "asked", [{"change_tol": 1e-8}, {}, {"L": 2.0, "change_tol": 1.0}], ids=str
)
@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_wrong_gradient_is_no_success_of_any_kind(asked: Any, factor: float) -> None:
    """It used to succeed at F = 2: "still"."""
    res = minimize(
        lambda x: float(x @ x), np.ones(2), jac=lambda x: 2 * factor * x,
        **{"tol": None, "max_cycles": 100, **asked},
    )  # fmt: skip
    assert not res.success
    assert "Check that jac is the gradient of fun" in res.message, res.message


@pytest.mark.parametrize("asked", [{"L": 1e14, "change_tol": 1e-6}, {"L": 1e20}], ids=str)
def test_small_steps_of_a_huge_Lambda_are_no_success(asked: Any) -> None:
    res = minimize(
        lambda x: float(x @ x), np.ones(2), jac=lambda x: 2 * x, tol=None, max_cycles=50, **asked
    )
    assert not res.success
    assert "times the curvature of f" in res.message


@pytest.mark.parametrize("method", ["VRO-CCD", "SCCD", "PAGE", "VR-CCD", "SGD"])
def test_a_sampling_method_that_diverges_names_a_wrong_gradient(method: str) -> None:
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((50, 6)), rng.standard_normal(50)
    res = minimize(
        lambda x, i: 0.5 * float(np.mean((A[i] @ x - y[i]) ** 2)), np.ones(6), n=50, blocks=2,
        jac=lambda x, i: -A[i].T @ (A[i] @ x - y[i]) / len(i), method=method,
    )  # fmt: skip
    assert not res.success
    assert "diverged" in res.message
    assert "Check that jac is the gradient of fun" in res.message


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
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((60, 12)), rng.standard_normal(60)
    res = minimize(
        lambda x, i=slice(None): float(0.5 * np.mean((A[i] @ (x["W"] - x["b"]) - y[i]) ** 2)),
        {"W": np.zeros(12), "b": np.full(12, 0.1)},
        jac=lambda x, i=slice(None): {
            name: sign * A[i].T @ (A[i] @ (x["W"] - x["b"]) - y[i]) / len(y[i])
            for name, sign in (("W", 1), ("b", -1))
        },
        reg={"W": Absolute(0.1, factor, claims), "b": L1(1.0)}, n=60, method=method,
        max_cycles=400,
    )  # fmt: skip
    assert res.success == (words == ""), res.message
    assert words in res.message
    assert res.success or "the regulariser of block 'W', contradicts itself" in res.message
    assert not claims or res.status == "wrong_regulariser"


@pytest.mark.parametrize("method", ["P-CCD", "PAGE"])
def test_a_regulariser_of_many_blocks_and_of_a_number_is_asked(method: Any) -> None:
    for x0, blocks in ((np.ones(400), "coordinates"), (np.ones(()), None)):
        for factor in (1.0, 0.5):
            res = minimize(
                lambda x, i=None: 0.5 * float(np.sum((x - 2.0) ** 2)), x0,
                jac=lambda x, i=None: x - 2.0, blocks=blocks, n=9, method=method, L=1.0, eta=1.0,
                reg=Absolute(0.5, factor, claims=factor < 1.0),
            )  # fmt: skip
            assert res.success == (factor == 1.0), res.message
            assert res.success or "the regulariser of block '" in res.message
