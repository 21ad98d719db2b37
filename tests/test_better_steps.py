"""Steps beyond one number per block: diagonals, matrices, exact minimisation, extrapolation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import suite
from cyclade import (
    L1,
    MCP,
    Box,
    Curvature,
    Layout,
    Matrix,
    NonNegative,
    minimize,
)
from cyclade.run.extrapolation import Anderson
from cyclade.steps.expected import expected_smoothness
from cyclade.steps.scaling import equilibrate
from suite import linear, residual, squared

RNG = np.random.default_rng(0)
A = RNG.standard_normal((30, 5)) * np.array([1.0, 3.0, 1.0, 0.3, 2.0])
Y = RNG.standard_normal(30)
H = A.T @ A / 30
LEAST = np.linalg.lstsq(A, Y)[0]


def fun(x: Any) -> float:
    return float(0.5 * np.mean((A @ x - Y) ** 2))


def jac(x: Any) -> Any:
    return A.T @ (A @ x - Y) / 30


@pytest.mark.parametrize("form", ["list", "dict", "torch"])
def test_diagonals_for_blocks_of_unequal_size(form: str) -> None:
    diagonals = [np.full(2, 9.0), np.full(3, 9.0)]
    if form == "list":
        res = minimize(fun, np.zeros(5), jac=jac, blocks=[2, 3], L=diagonals)
        np.testing.assert_allclose(res.x, LEAST, atol=1e-3)
    elif form == "dict":
        whole = lambda x: np.concatenate([x["a"], x["b"]])  # noqa: E731
        res = minimize(
            lambda x: fun(whole(x)), {"a": np.zeros(2), "b": np.zeros(3)},
            jac=lambda x: dict(zip("ab", np.split(jac(whole(x)), [2]), strict=True)),
            L=dict(zip("ab", diagonals, strict=True)),
        )  # fmt: skip
    else:
        At, Yt = torch.as_tensor(A), torch.as_tensor(Y)
        res = minimize(
            lambda x: 0.5 * ((At @ x - Yt) ** 2).mean(), torch.zeros(5, dtype=torch.float64),
            blocks=[2, 3], L=[torch.as_tensor(d) for d in diagonals],
        )  # fmt: skip
    assert res.success


def test_matrices_by_blocks_and_by_solving() -> None:
    parts = [H[:2, :2], H[2:, 2:]]
    by_matrix = minimize(
        fun, np.zeros(5), jac=jac, blocks=[2, 3], L=[Matrix(p) for p in parts], max_cycles=8,
        tol=None,
    )  # fmt: skip
    solves = [Matrix(solve=lambda v, p=p: np.linalg.solve(p, v)) for p in parts]
    by_solve = minimize(fun, np.zeros(5), jac=jac, blocks=[2, 3], L=solves, max_cycles=8, tol=None)
    np.testing.assert_allclose(by_matrix.x, by_solve.x, atol=1e-12)
    x = np.zeros(5)  # literally: block by block, the exact minimum of a quadratic
    for _ in range(8):
        for part in (slice(0, 2), slice(2, 5)):
            x[part] -= np.linalg.solve(H[part, part], jac(x)[part])
    np.testing.assert_allclose(by_matrix.x, x, atol=1e-12)


@pytest.mark.parametrize("reg", [L1(0.1), NonNegative(), Box(-0.1, 0.1)], ids=repr)
def test_a_matrix_beside_a_regulariser_solves_its_prox(reg: Any) -> None:
    """With Λ = ∇²f one step is the whole solution, so it must be that of many small ones."""
    exact = minimize(fun, np.zeros(5), jac=jac, reg=reg, tol=1e-11, max_cycles=20_000)
    once = minimize(fun, np.zeros(5), jac=jac, reg=reg, L=[Matrix(H)], max_cycles=1, tol=None)
    np.testing.assert_allclose(once.x, exact.x, atol=1e-8)
    assert "upper bound" in once.distance_kind


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: Matrix(np.triu(np.ones((2, 2)) * 2)),
            r"symmetric, .* its transpose by up to 2: gi",
        ),
        (lambda: Matrix(np.diag([1.0, -1.0])), "matrix must be positive definite"),
        (lambda: Matrix(np.ones((2, 3))), "matrix must be a square matrix"),
        (lambda: with_matrix(Matrix(np.eye(3))), r"L\[0\] must be 5 x 5"),
        (lambda: with_matrix(Matrix(solve=lambda v: v), reg=L1(0.1)), "give the matrix"),
        (lambda: with_matrix(Matrix(H), reg=MCP(0.1, 3.0)), "convex regulariser"),
    ],
)
def test_bad_matrices(call: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        call()


def with_matrix(matrix: Matrix, **options: Any) -> Any:
    return minimize(fun, np.zeros(5), jac=jac, L=[matrix], **options)


def test_scaling_evens_out_columns_over_many_decades() -> None:
    scales = 10.0 ** np.linspace(-3, 3, 12)
    B = np.random.default_rng(2).standard_normal((80, 12)) * scales
    found = equilibrate(lambda v: B.T @ (B @ v), np.zeros(12))
    ratio = np.log10(found) - 2 * np.log10(scales)
    assert np.ptp(ratio) < 1.0
    case = linear("", B, B @ (1.0 / scales), squared, residual, None)
    options = {"tol": None, "rtol": 1e-7, "max_cycles": 2000} | case.options()
    scaled = minimize(case.fun, case.x0, L="scaled", **options)
    plain = minimize(case.fun, case.x0, **options)
    assert scaled.success
    assert scaled.cycles < 200
    np.testing.assert_allclose(scaled.x * scales, 1.0, atol=1e-2)
    assert scaled.fun < 1e-4 * plain.fun


def nmf(noise: float = 0.0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(5)
    V = rng.random((20, 3)) @ rng.random((3, 15)) + noise * rng.random((20, 15))
    case = suite.nmf("", V, 3)
    return V, case.x0, case.fun, case.jac


def least_squares(V: Any, share: float = 1.0) -> Any:
    """Alternating least squares; of H only a share."""

    def block_min(j: int, x: Any) -> Any:
        if j == 0:
            return np.linalg.lstsq(x["H"].T, V.T)[0].T
        return share * np.linalg.lstsq(x["W"], V)[0]

    return block_min


def test_exact_block_minimisation_follows_the_literal_loop() -> None:
    V, x0, f, g = nmf()
    iterates: list[Any] = []
    res = minimize(
        f, x0, jac=g, block_min=least_squares(V), tol=None, max_cycles=12,
        callback=lambda report: iterates.append(report.x),
    )  # fmt: skip
    W, K = x0["W"], x0["H"]
    for k in range(12):
        W = np.linalg.lstsq(K.T, V.T)[0].T
        K = np.linalg.lstsq(W, V)[0]
        np.testing.assert_allclose(iterates[k]["W"], W, atol=1e-10)
        np.testing.assert_allclose(iterates[k]["H"], K, atol=1e-10)
    assert res.samples == 12  # an exact minimisation counts like the gradient of its block
    assert res.fun < 1e-12


def test_block_min_is_checked() -> None:
    _, x0, f, g = nmf()
    with pytest.raises(ValueError, match="block_min must return block 0 with shape"):
        minimize(f, x0, jac=g, block_min=lambda j, x: np.zeros(2))
    with pytest.raises(ValueError, match="block_min takes no steps"):
        minimize(f, x0, jac=g, block_min=lambda j, x: x["W"], L=1.0)
    with pytest.raises(ValueError, match="block_min needs a method that sees all of f"):
        minimize(lambda x, i: f(x), x0, jac=lambda x, i: g(x), n=3, block_min=lambda j, x: x["W"])


@pytest.mark.parametrize(("share", "wrong"), [(1.0, ""), (0.98, "block 'H'"), (1.02, "block 'H'")])
def test_a_block_min_that_is_no_minimiser_is_named(share: float, wrong: str) -> None:
    V, x0, f, g = nmf(noise=1.0)  # no product fits it
    res = minimize(f, x0, jac=g, block_min=least_squares(V, share), tol=1e-14, max_cycles=3)
    assert res.status == "max_cycles"
    assert ("block_min may not be the minimiser" in res.message) == bool(wrong)
    assert wrong in res.message


def test_extrapolation_follows_its_literal_twin() -> None:
    """Anderson's formula written out beside plain cycles, kept where F is smaller."""
    L = [float(np.linalg.norm(H[:2, :2], 2)), float(np.linalg.norm(H[2:, 2:], 2))]
    iterates: list[Any] = []
    minimize(
        fun, np.zeros(5), jac=jac, blocks=[2, 3], L=L, accelerate=True, tol=None, max_cycles=40,
        callback=lambda report: iterates.append(report.x),
    )  # fmt: skip
    x, memory, taken = np.zeros(5), [], 0
    for k in range(40):
        for part, Lj in ((slice(0, 2), L[0]), (slice(2, 5), L[1])):
            x = x.copy()
            x[part] -= jac(x)[part] / Lj
        memory.append(x)
        if len(memory) == 6:
            U = np.diff(np.array(memory), axis=0)
            scale = np.trace(U @ U.T)
            c = np.linalg.solve(U @ U.T / scale + 1e-10 * np.eye(5), np.ones(5))
            e = (c / c.sum()) @ np.array(memory[1:])
            memory = []
            if fun(e) < fun(x):
                x, taken = e, taken + 1
        np.testing.assert_allclose(iterates[k], x, atol=1e-9)
    assert taken >= 3


def test_anderson_needs_enough_steps_and_survives_a_standstill() -> None:
    memory, point = Anderson(), Layout.of(np.zeros(2)).point(np.ones(2))
    assert all(memory.see(point) is None for _ in range(20))


def test_smoothness_of_terms_is_that_of_batches_scaled_up() -> None:
    """L² is the square of the mean curvature, and the variance of single terms around it."""

    class Quadratics:
        """The terms ½ h_i x², of which a batch is the mean h."""

        def sweep(self, x: Any, sample: Any) -> Any:
            return SimpleNamespace(hvp=lambda j, v: sample * v)

        def evaluate(self, x: Any, sample: Any) -> Any:
            return 0.0, [sample * xj for xj in x.blocks()]

    for means, size, n, variance in [
        ([2.0], 1, np.inf, 0.0),  # one says nothing of the variance
        ([1.0, 3.0], 1, np.inf, 2 * 1.0),  # two of very many terms: the factor 2/(2 − 1)
        ([1.0, 3.0, 8.0], 1, np.inf, 1.5 * 26 / 3),
        ([1.5, 6.5], 2, 4, 2 * 2 * 1.5 * 6.25),  # two pairs of four terms: (4 − 1)/(4 − 2) too
    ]:
        for m in (1, 9):  # more blocks than are looked at one by one
            x = Layout.of(np.ones(m), "coordinates").point(np.ones(m))
            scaled = [0.1 * mean for mean in means]
            found = expected_smoothness(Quadratics(), x, scaled, size, n, np.random.default_rng(0))
            np.testing.assert_allclose(found.curvature, 0.1 * np.mean(means))
            np.testing.assert_allclose(found.L, 0.1 * np.sqrt(np.mean(means) ** 2 + variance))


def test_a_block_on_which_f_is_flat_gets_the_step_one() -> None:
    steps = Curvature(1, every=1, iterations=1)
    steps.measure(0, SimpleNamespace(get=lambda j: np.ones(2), hvp=lambda j, v: 0.0 * v))
    assert steps.L == [1.0]
