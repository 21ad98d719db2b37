"""The line search: never blames a right gradient, always a wrong one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cyclade import L1, Backtracking, minimize
from small import bowl, squares
from suite import CASES, Case

BLAME = "the gradient"


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("tol", [1e-6, 1e-9, 1e-12, 0.0])
def test_a_constant_that_hides_the_values_is_no_contradiction(constant: float, tol: float) -> None:
    fun, jac = squares(40, 12, 1, weight=1.0)
    res = minimize(
        lambda x: fun(x) + constant, np.zeros(12), jac=jac, blocks=3, reg=L1(0.5), tol=tol,
        max_cycles=2000,
    )  # fmt: skip
    assert BLAME not in res.message, res.message
    assert res.dist < 1e-3


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_right_gradients_are_never_blamed(case: Case) -> None:
    for dtype, tol in ((np.float32, 0.0), (np.float64, 1e-9)):
        res = minimize(
            case.fun, case.start(dtype), method="P-CCD", n=case.n, tol=tol, max_cycles=40,
            check_grad=True, **case.options(),
        )  # fmt: skip
        assert BLAME not in res.message, res.message


def wrong(how: Any, jac: Any) -> Any:
    if how == "sign":
        return lambda x: -jac(x)
    if isinstance(how, float):
        return lambda x: how * jac(x)
    if how == "one block":
        return lambda x: jac(x) * np.where(np.arange(12) // 4 == 1, -0.5, 1.0)
    return lambda x: jac(x).reshape(3, 4).T.reshape(-1)  # transposed


def smooth(loss: str, seed: int) -> tuple[Any, Any, float]:
    """A function, its gradient, and a weight of l1 that leaves some entries."""
    if loss == "squares":
        return *squares(60, 12, seed), 0.05
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((60, 12)), rng.standard_normal(60)
    B = np.sign(y)[:, None] * A
    logistic = lambda x: np.mean(np.logaddexp(0, -B @ x))  # noqa: E731
    return logistic, lambda x: -B.T @ (1 / (1 + np.exp(B @ x))) / 60, 0.02


@pytest.mark.parametrize("factor", [0.99, 1.0, 1.01])
@pytest.mark.parametrize("blocks", [None, 3, "coordinates"])
@pytest.mark.parametrize("loss", ["squares", "logistic"])
@pytest.mark.parametrize("seed", range(4))
def test_one_block_one_percent_off_is_caught(
    seed: int, loss: str, blocks: Any, factor: float
) -> None:
    """Its error must not hide behind the other blocks, nor behind a curvature taken for noise."""
    fun, jac, lam = smooth(loss, seed)
    share = np.where(np.arange(12) // 4 == 1, factor, 1.0)
    res = minimize(fun, np.zeros(12), jac=lambda x: share * jac(x), blocks=blocks, reg=L1(lam))
    assert res.success == (factor == 1.0), res.message
    assert res.success or "Check that jac is the gradient of fun" in res.message


@pytest.mark.parametrize("how", [0.5, 0.8, 1.2, 2.0, "sign", "one block", "transposed"])
@pytest.mark.parametrize("start", ["zeros", "far", "near the minimum"])
@pytest.mark.parametrize("options", [{}, {"blocks": 3}, {"blocks": 3, "L": 60.0}], ids=str)
def test_a_wrong_gradient_is_caught(how: Any, start: str, options: dict[str, Any]) -> None:
    fun, jac = squares(40, 12, 3, weight=1.0)
    least = minimize(fun, np.zeros(12), jac=jac, tol=1e-9).x
    x0 = {"zeros": np.zeros(12), "far": np.full(12, 50.0), "near the minimum": least + 1e-3}[start]
    settings: dict[str, Any] = {"jac": wrong(how, jac), "reg": L1(1.0), "max_cycles": 3000}
    res = minimize(fun, x0, **settings, **options)
    assert not res.success
    if how != "sign" or "L" not in options:  # up the hill with given steps: it diverges instead
        assert "Check that jac is the gradient of fun" in res.message, res.message
    with pytest.raises(ValueError, match="jac is not the gradient of fun"):
        minimize(fun, x0, check_grad=True, **settings, **options)


def test_a_function_that_ends_is_not_stationary_at_its_edge() -> None:
    """NaN for x ≤ 0.5: it used to be "stationary" at 0.5."""

    def fun(x: Any) -> float:
        return float(np.sum(x)) if (x > 0.5).all() else float("nan")

    res = minimize(fun, np.ones(1), jac=np.ones_like)
    assert not res.success
    assert "not finite" in res.message
    assert res.dist == pytest.approx(1.0)


def test_the_certificate_is_measured_with_curvature_that_was_seen() -> None:
    """However large L_j a search leaves behind, the metric stays at the curvature of f."""
    problem = bowl(np.arange(1.0, 5.0))
    res = minimize(
        lambda x: problem["fun"](x) + 1e5, np.ones(4), jac=problem["jac"], tol=0.0, max_cycles=300
    )
    assert all(L <= 4.0 * 1.001 for L in res.Lambda)


def test_half_the_curvature_is_not_accepted() -> None:
    """f is quadratic with curvature 8: a step passes with L = 8 and not with L = 4."""
    steps = Backtracking([4.0], shrink=1.0)
    res = minimize(x0=np.array([1.0, -2.0]), **bowl(8.0), L=steps, max_cycles=1, tol=None)
    assert res.Lambda[0] == pytest.approx(8.0)
    np.testing.assert_allclose(res.x, 0.0, atol=1e-12)


def test_noisy_values_are_believed_less_not_blamed() -> None:
    """Values with an error of 1e-9, as a simulator or an iterative solver inside fun gives them."""
    rng = np.random.default_rng(4)
    fun, jac = squares(30, 6, 4)
    res = minimize(
        lambda x: fun(x) + 1e-9 * rng.standard_normal(), np.zeros(6), jac=jac, blocks=2, tol=1e-8
    )
    assert BLAME not in res.message
    assert res.dist < 1e-5
    assert 1e-10 < res.state.steps["noise"] < 1e-7


def in_single_precision(kind: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """A function whose arithmetic is in single precision though x is double, and its gradient."""
    A = rng.standard_normal((200, 8)).astype("f4")
    y = np.sign(rng.standard_normal(200)).astype("f4")
    if kind == "squares":
        b = 10 * y
        return (
            lambda x: 0.5 * float(np.mean((A @ x.astype("f4") - b) ** 2)),
            lambda x: (A.T @ (A @ x.astype("f4") - b) / 200).astype(float),
        )
    margins = lambda x: y * (A @ x.astype("f4"))  # noqa: E731
    lam = 0.01 if kind == "with a double part" else 0.0
    return (
        lambda x: float(np.mean(np.logaddexp(0, -margins(x)))) + 0.5 * lam * float(x @ x),
        lambda x: A.T @ (-y / (1 + np.exp(margins(x)))) / 200 + lam * x,
    )


@pytest.mark.parametrize("kind", ["logistic", "squares", "with a double part"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 113, 124])
def test_a_fun_in_single_precision_is_not_blamed(kind: str, seed: int) -> None:
    fun, jac = in_single_precision(kind, np.random.default_rng(seed))
    res = minimize(fun, np.zeros(8), jac=jac, blocks=2)
    assert res.success, res.message
    turned = minimize(fun, np.zeros(8), jac=lambda x: -jac(x), blocks=2)
    assert "Check that jac is the gradient of fun" in turned.message
    short = minimize(fun, np.zeros(8), jac=lambda x: 0.7 * jac(x), blocks=2)
    assert not short.success or abs(short.fun - res.fun) < 3e-7 * abs(res.fun)


KINKS: dict[str, tuple[Any, Any]] = {
    "norm": (
        lambda x: float(np.linalg.norm(x - 1)),
        lambda x: (x - 1) / max(np.linalg.norm(x - 1), 1e-300),
    ),
    "1.5": (
        lambda x: float(np.sum(abs(x - 1) ** 1.5)),
        lambda x: 1.5 * np.sign(x - 1) * abs(x - 1) ** 0.5,
    ),
}


@pytest.mark.parametrize("kink", KINKS)
@pytest.mark.parametrize("blocks", [None, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_kink_is_not_called_a_wrong_gradient(kink: str, blocks: Any, seed: int) -> None:
    fun, jac = KINKS[kink]
    x0 = np.random.default_rng(seed).standard_normal(3)
    res = minimize(fun, x0, jac=jac, blocks=blocks, max_cycles=200)
    assert "contradicts" not in res.message, res.message
    assert res.fun < 1e-6
    if not res.success:
        assert "fun has a kink here, or jac is wrong" in res.message


def test_the_evidence_for_a_kink_is_both_slopes() -> None:
    fun, jac = KINKS["norm"]
    res = minimize(fun, np.zeros(3), jac=jac, max_cycles=200, accelerate=False)
    assert not res.success
    assert "changes at the rate -1 behind x and 1 ahead, the gradient says" in res.message
    with pytest.raises(ValueError, match="fun has a kink, or jac is not the gradient of fun: at"):
        minimize(lambda x: abs(x[0]), np.zeros(1), jac=lambda x: np.ones(1), check_grad=True)


def test_a_stop_beside_the_kinks_of_absolute_values_is_no_success() -> None:
    """The search goes on shortening steps there, and a certificate by its Λ is tiny anywhere."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((50, 6)), np.random.default_rng(1).standard_normal(50)
    for blocks in (None, 3):
        res = minimize(
            lambda x: float(np.sum(abs(A @ x - y))), np.zeros(6), blocks=blocks, max_cycles=100,
            jac=lambda x: A.T @ np.sign(A @ x - y),
        )  # fmt: skip
        assert not res.success
        assert "contradicts" not in res.message
        assert blocks or "fun has a kink here, or jac is wrong" in res.message


@pytest.mark.parametrize("L", [None, 60.0])
def test_a_gradient_that_turns_nan_ends_the_run_by_name(L: Any) -> None:
    (fun, jac), calls = squares(50, 6, weight=1.0), iter(range(10**6))
    res = minimize(
        fun, np.ones(6), blocks=2, L=L, jac=lambda x: jac(x) * (np.nan if next(calls) > 12 else 1.0)
    )
    assert not res.success
    assert "the gradient of fun turned NaN or infinite" in res.message
    assert res.fun == fun(res.x) <= fun(np.ones(6))
    assert L is not None or res.fun < fun(np.ones(6))


def test_the_wrong_block_among_many_is_named() -> None:
    wrong = bowl() | {"jac": lambda x: np.where(np.arange(80) == 37, 2.0, 1.0) * x}
    with pytest.raises(ValueError, match="at x0, along a random direction of block '37' f"):
        minimize(x0=np.ones(80), check_grad=True, blocks="coordinates", L=1.0, **wrong)
    found = minimize(
        lambda x: 0.5 * float(x["W"] @ x["W"] + x["H"] @ x["H"]),
        {"W": np.ones(2), "H": np.ones(2)},
        jac=lambda x: {"W": x["W"], "H": -x["H"]},
    )
    assert found.status == "wrong_gradient"
    assert found.message.endswith("Block 1 is 'H'")
