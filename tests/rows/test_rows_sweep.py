"""The linear sweep against the generic one: every iterate of every method."""

from __future__ import annotations

from typing import Any

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


GROUPS = [[4, 0], [1, 5], [2], [3]]
INDEX_LISTS = [[10, 2, 5], [0, 1, 3, 4, 6, 9, 7, 8]]
CASES: list[tuple[str, str, str, dict[str, Any]]] = [  # method, loss, how X is stored, options
    *((method, "logistic", stored, {}) for method in METHODS for stored in STORED),
    *((method, "squared", "csc", {"order": order, "penalty": MCP(0.05, 3.0)})
      for order in ("backward", "shuffled", "random", "greedy")
      for method in ("P-CCD", "SCCD", "VRO-CCD", "VR-CCD")),
    *(("VRO-CCD", "logistic", stored, {"blocks": blocks, "fit_intercept": intercept})
      for blocks in ("coordinates", 1, [3, 7, 1], INDEX_LISTS)
      for stored in ("C", "csr") for intercept in (True, False)),
    *(("VRO-CCD", loss, stored, {"eta": 0.1, "penalty": L1(0.01)})
      for loss in BY_NAME if loss != "multinomial" for stored in ("C", "csr")),
    *((method, loss, stored, {"T": 3, "penalty": Rows(0.02)})
      for loss in ("squared", "multinomial") for method in METHODS for stored in ("C", "csr")),
    *(("VRO-CCD", "squared", "C",
       {"p": 6, "penalty": GroupL2(0.05, groups=GROUPS), "blocks": blocks, "weighted": weighted})
      for blocks in (GROUPS, [[0, 1, 4, 5], [2, 3]]) for weighted in (True, False)),
]  # fmt: skip


@pytest.mark.parametrize(("method", "loss", "stored", "options"), CASES)
def test_every_iterate_is_that_of_the_plain_function(
    method: str, loss: str, stored: str, options: dict[str, Any]
) -> None:
    options = {"penalty": L1(0.02), "p": 11, "T": None} | options
    case = Case(loss, p=options.pop("p"), T=options.pop("T"))
    linear, generic = both(
        case, method, options.pop("penalty"), X=STORED[stored](case.X), **options
    )
    assert apart(linear, generic) < ROUNDING
    if loss not in ("poisson", "gamma"):  # whose steps are short here
        assert np.linalg.norm(linear[-1]) > 0.05  # it did go somewhere


def test_a_group_that_is_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="blocks: group 0 of the penalty is cut"):
        both(Case("squared", p=6), "P-CCD", GroupL2(0.05, groups=3), blocks=[2, 4])


@pytest.mark.parametrize("T", [None, 3])
def test_value_gradient_and_bend_of_a_sweep(T: int | None) -> None:
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
                v, there = rng.normal(size=len(x[index])), x.copy()
                there[index] += v
                np.testing.assert_allclose(at.grad(j), jac(x, idx)[index], atol=1e-13)
                bend = float((jac(there, idx) - jac(x, idx))[index] @ v)
                assert at.bend(j, x[index] + v)[0] == pytest.approx(bend, abs=1e-12)
                assert at.value() == pytest.approx(fun(x, idx), rel=1e-12)  # and it has not moved
                np.testing.assert_array_equal(at.get(j), x[index])


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
