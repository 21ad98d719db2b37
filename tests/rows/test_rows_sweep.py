"""The linear sweep against the generic one: every iterate of every method."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from rows_cases import STORED, Case, apart, both, function

from cyclade.linear.losses import BY_NAME
from cyclade.linear.penalties import L1, MCP, GroupL2, Rows
from cyclade.rows.oracle import Features, LinearOracle
from cyclade.sampling.samplers import ALL

ROUNDING = 1e-12
METHODS = ["P-CCD", "SCCD", "VR-CCD", "VRO-CCD", "PAGE", "SGD"]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_however_x_is_stored(method: str, stored: str) -> None:
    case = Case()
    linear, generic = both(case, method, L1(0.02), X=STORED[stored](case.X))
    assert apart(linear, generic) < ROUNDING
    assert np.linalg.norm(linear[-1]) > 0.05  # it did go somewhere


@pytest.mark.parametrize("order", ["backward", "shuffled", "random", "greedy"])
@pytest.mark.parametrize("method", ["P-CCD", "SCCD", "VRO-CCD", "VR-CCD"])
def test_orders(method: str, order: str) -> None:
    case = Case("squared")
    linear, generic = both(case, method, MCP(0.05, 3.0), X=sp.csc_matrix(case.X), order=order)
    assert apart(linear, generic) < ROUNDING


@pytest.mark.parametrize(
    "blocks", ["coordinates", 1, [3, 7, 1], [[10, 2, 5], [0, 1, 3, 4, 6, 9, 7, 8]]]
)
@pytest.mark.parametrize("stored", ["C", "csr"])
def test_any_blocks(stored: str, blocks: object) -> None:
    case = Case()
    X = STORED[stored](case.X)
    for intercept in (True, False):
        linear, generic = both(
            case, "VRO-CCD", L1(0.02), X=X, blocks=blocks, fit_intercept=intercept, K=10
        )
        assert apart(linear, generic) < ROUNDING


@pytest.mark.parametrize("loss", [name for name in BY_NAME if name != "multinomial"])
def test_every_loss(loss: str) -> None:
    case = Case(loss)
    for X in (case.X, sp.csr_matrix(case.X)):
        linear, generic = both(case, "VRO-CCD", L1(0.01), X=X, eta=0.1)
        assert apart(linear, generic) < ROUNDING


@pytest.mark.parametrize("stored", ["C", "csr"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_several_outputs(loss: str, method: str, stored: str) -> None:
    case = Case(loss, T=3)
    linear, generic = both(case, method, Rows(0.02), X=STORED[stored](case.X))
    assert apart(linear, generic) < ROUNDING


@pytest.mark.parametrize("weighted", [True, False])
def test_groups_that_are_scattered(weighted: bool) -> None:
    case = Case("squared", p=6)
    penalty = GroupL2(0.05, groups=[[4, 0], [1, 5], [2], [3]])
    for blocks in ([[4, 0], [1, 5], [2], [3]], [[0, 1, 4, 5], [2, 3]]):
        linear, generic = both(case, "VRO-CCD", penalty, blocks=blocks, weighted=weighted)
        assert apart(linear, generic) < ROUNDING


def test_a_group_that_is_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="blocks: group 0 of the penalty is cut"):
        both(Case("squared", p=6), "P-CCD", GroupL2(0.05, groups=3), blocks=[2, 4])


@pytest.mark.parametrize("T", [None, 3])
def test_value_gradient_and_curvature_of_a_sweep(T: int | None) -> None:
    case = Case("squared" if T else "logistic", T=T)
    features = Features(11, [4, 7], fit_intercept=True, outputs=T)
    fun, jac = function(case, features, weighted=True)
    rng = np.random.default_rng(1)
    x = rng.normal(size=features.layout.d)
    for X in (case.X, sp.csr_matrix(case.X)):
        oracle = LinearOracle(
            X, case.y, case.loss, features, sample_weight=case.weight, offset=case.offset
        )
        for sample, idx in ((ALL, np.arange(40)), (np.array([3, 9, 30]), np.array([3, 9, 30]))):
            at = oracle.sweep(features.layout.point(x), sample)
            assert at.value() == pytest.approx(fun(x, idx), rel=1e-12)
            for j, index in enumerate(features.layout.flat_index()):
                v = rng.normal(size=len(x[index]))
                ahead, behind = x.copy(), x.copy()
                ahead[index] += 1e-5 * v
                behind[index] -= 1e-5 * v
                slope = (jac(ahead, idx)[index] - jac(behind, idx)[index]) / 2e-5
                np.testing.assert_allclose(at.grad(j), jac(x, idx)[index], atol=1e-13)
                np.testing.assert_allclose(at.hvp(j, v), slope, atol=1e-8)
                there = x.copy()
                there[index] += v
                trial, trial_grad = at.trial(j, x[index] + v), at.trial_grad(j, x[index] + v)
                assert trial == pytest.approx(fun(there, idx), rel=1e-12)
                np.testing.assert_allclose(trial_grad, jac(there, idx)[index], atol=1e-13)
                assert at.value() == pytest.approx(fun(x, idx), rel=1e-12)  # and it has not moved
                np.testing.assert_array_equal(at.get(j), x[index])


def test_a_block_costs_its_own_columns_on_its_own_rows() -> None:
    """The loss is asked about the rows that a move touches, and about none when nothing moves."""
    asked: list[int] = []

    class Watched:
        def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
            asked.append(len(y))
            return z - y

    X = sp.csr_matrix(np.eye(50)[:, :10])
    features = Features(10, "coordinates")
    at = LinearOracle(X, np.ones(50), Watched(), features).sweep(features.point(), ALL)
    asked.clear()
    at.set(3, np.array([1.0]))
    at.grad(3)
    at.set(4, np.array([0.0]))
    assert asked == [1]


@pytest.mark.parametrize("stored", ["C", "csr"])
def test_float32_stays_float32(stored: str) -> None:
    case = Case()
    X = STORED[stored](case.X.astype(np.float32))
    features = Features(11, 3, fit_intercept=True, dtype=np.float32)
    oracle = LinearOracle(X, case.y.astype(np.float32), case.loss, features)
    at = oracle.sweep(features.point(), ALL)
    at.set(0, at.grad(0))
    assert at.grad(1).dtype == np.float32
    assert at.get(0).dtype == np.float32


def test_the_point_goes_in_and_comes_out() -> None:
    features = Features(3, [[2, 0], [1]], fit_intercept=True, outputs=2)
    coef, intercept = np.arange(6.0).reshape(3, 2), np.array([7.0, 8.0])
    x = features.point(coef, intercept)
    np.testing.assert_array_equal(x.get(0), [4.0, 5.0, 0.0, 1.0])
    out, c = features.read(x)
    np.testing.assert_array_equal(out, coef)
    np.testing.assert_array_equal(c, intercept)
