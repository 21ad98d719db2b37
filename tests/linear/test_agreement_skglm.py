"""The same problems solved by skglm.

It compiles for seconds per problem in every process, so it runs uncompiled, in one of its own, on
small problems.
"""

from __future__ import annotations

import numpy as np
import pytest
from agreement import SAME, agree, answers, problem, value

from cyclade.linear import solve
from cyclade.linear.losses import Gamma, Huber, Logistic, Poisson, Squared
from cyclade.linear.penalties import (
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    GroupL2,
    LogSum,
    Rows,
    WeightedL1,
)

P = 8
FACTORS = np.linspace(0.2, 2.0, P)
SIZES = np.full(P // 2, np.sqrt(2.0))
WEIGHTS = np.random.default_rng(1).uniform(0.1, 2.0, 40)
PAIRS = ("WeightedGroupL2", [0.05, "@factors", "@ends", "@indices"])

# name: loss, targets, penalty, what skglm is told (data fit, penalty, solver), arrays
CONVEX = {
    "lasso": (Squared(), "real", L1(0.05), ("Quadratic", []), ("L1", [0.05]), "AndersonCD", {}),
    "elastic net": (
        Squared(), "real", ElasticNet(0.05, 0.4), ("Quadratic", []), ("L1_plus_L2", [0.05, 0.4]),
        "AndersonCD", {},
    ),
    "weighted l1": (
        Squared(), "real", WeightedL1(0.05, FACTORS), ("Quadratic", []),
        ("WeightedL1", [0.05, "@factors"]), "AndersonCD", {"factors": FACTORS},
    ),
    "weighted rows": (
        Squared(), "real", L1(0.05), ("WeightedQuadratic", ["@s"]), ("L1", [0.05]), "AndersonCD",
        {"s": WEIGHTS},
    ),
    "box": (
        Squared(), "real", Box(0.0, 0.4), ("Quadratic", []), ("IndicatorBox", [0.4]), "AndersonCD",
        {"fit_intercept": False},
    ),
    "huber": (
        Huber(0.5), "real", L1(0.05), ("Huber", [0.5]), ("L1", [0.05]), "AndersonCD", {},
    ),
    "logistic": (
        Logistic(), "two", L1(0.03), ("Logistic", []), ("L1", [0.03]), "ProxNewton", {},
    ),
    "poisson": (
        Poisson(), "counts", L1(0.05), ("Poisson", []), ("L1", [0.05]), "ProxNewton",
        {"fit_intercept": False},
    ),
    "gamma": (
        Gamma(), "amounts", L1(0.05), ("Gamma", []), ("L1", [0.05]), "ProxNewton",
        {"fit_intercept": False},
    ),
    "groups": (
        Squared(), "real", GroupL2(0.05, 2), ("QuadraticGroup", ["@ends", "@indices"]), PAIRS,
        "GroupBCD", {"factors": SIZES, "groups": 2},
    ),
    "tasks": (
        Squared(), "table", Rows(0.05), ("QuadraticMultiTask", []), ("L2_1", [0.05]),
        "MultiTaskBCD", {},
    ),
}  # fmt: skip

NONCONVEX = {
    "mcp": (
        Squared(), "real", MCP(0.1, 3.0), ("Quadratic", []), ("MCPenalty", [0.1, 3.0]),
        "AndersonCD", {},
    ),
    "scad": (
        Squared(), "real", SCAD(0.1, 3.7), ("Quadratic", []), ("SCAD", [0.1, 3.7]),
        "AndersonCD", {},
    ),
    "log-sum": (
        Squared(), "real", LogSum(0.02, 0.5), ("Quadratic", []), ("LogSumPenalty", [0.02, 0.5]),
        "AndersonCD", {},
    ),
    "huber mcp": (
        Huber(0.5), "real", MCP(0.1, 3.0), ("Huber", [0.5]), ("MCPenalty", [0.1, 3.0]),
        "AndersonCD", {},
    ),
}  # fmt: skip


def told(_loss, kind, _penalty, datafit, penalty, solver, arrays):
    X, y = problem(kind)
    table = {"X": X, "y": y, "datafit": datafit, "penalty": penalty, "solver": solver}
    return {**table, "fit_intercept": True, **arrays}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    problems = {name: told(*case) for name, case in {**CONVEX, **NONCONVEX}.items()}
    folder = tmp_path_factory.mktemp("skglm")
    return answers("skglm", problems, folder, NUMBA_DISABLE_JIT="1")


@pytest.mark.parametrize("name", CONVEX)
def test_skglm(name, theirs):
    loss, kind, penalty, _, _, _, arrays = CONVEX[name]
    X, y = problem(kind)
    coef, intercept = theirs[name]
    agree(
        X, y, loss, penalty, coef, intercept if arrays.get("fit_intercept", True) else None,
        sample_weight=arrays.get("s"), atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("name", NONCONVEX)
def test_skglm_nonconvex(name, theirs):
    loss, kind, penalty, *_ = NONCONVEX[name]
    X, y = problem(kind)
    coef, intercept = theirs[name]
    other = value(X, y, loss, penalty, coef, intercept)
    # Theirs is stationary for ours too: from there ours does not move.
    there = solve(X, y, loss, penalty, coef=coef, intercept=intercept, tol=1e-7)
    assert there.certificate.reached
    np.testing.assert_allclose(there.coef, coef, atol=1e-6)
    assert abs(there.objective - other) <= SAME * abs(other)
    # On its own ours ends in a minimum that is no worse.
    cold = solve(X, y, loss, penalty, tol=1e-10)
    assert cold.certificate.reached
    assert cold.objective <= other * (1.0 + SAME)
