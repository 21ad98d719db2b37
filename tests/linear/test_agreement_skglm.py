"""The same problems solved by skglm, beyond those of scikit-learn and statsmodels.

It compiles for seconds per problem in every process, so it runs uncompiled on small problems: this
file as a script, `python test_agreement_skglm.py ANSWERS.npz`, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from agreement import SAME, agree, problem, value

from cyclade.linear import solve
from cyclade.linear.losses import Gamma, Huber, Poisson, Squared
from cyclade.linear.penalties import (
    L1,
    MCP,
    SCAD,
    Box,
    GroupL2,
    LogSum,
    WeightedL1,
)

P = 8
FACTORS = np.linspace(0.2, 2.0, P)
SIZES = np.full(P // 2, np.sqrt(2.0))
WEIGHTS = np.random.default_rng(1).uniform(0.1, 2.0, 40)
PAIRS = ("WeightedGroupL2", [0.05, "@factors", "@ends", "@indices"])

# name: loss, targets, penalty, what skglm is told (data fit, penalty, solver), arrays
CONVEX = {
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


CASES = CONVEX | NONCONVEX


def skglm(X, y, datafit, penalty, solver, arrays):
    """One of its solvers, as tightly as it goes. `datafit` and `penalty` are names and arguments.

    An argument "@key" is the array of that key.
    """
    import numba

    numba.types.bool_ = np.bool_  # numba's own is no dtype where nothing is compiled
    from skglm import datafits, penalties, solvers

    # A target it cannot round to is asked for, so that it goes as far as it can.
    warnings.simplefilter("ignore")
    ends = np.arange(0, P + 1, arrays.get("groups", 1), dtype=np.int32)
    arrays = {**arrays, "ends": ends, "indices": np.arange(P, dtype=np.int32)}

    def make(module, name, arguments):
        given = [arrays[a[1:]] if isinstance(a, str) else a for a in arguments]
        return getattr(module, name)(*given)

    loss, reg = make(datafits, *datafit), make(penalties, *penalty)
    intercept = arrays.get("fit_intercept", True)
    one = getattr(solvers, solver)(tol=1e-12, max_iter=200, fit_intercept=intercept)
    found = one.solve(np.asfortranarray(X), np.asfortranarray(y), loss, reg)[0]
    return found[:P], (found[P] if intercept else 0.0)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    pytest.importorskip("skglm")
    answers = tmp_path_factory.mktemp("skglm") / "answers.npz"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, __file__, answers], check=True, timeout=300, env=environment)
    with np.load(answers) as found:
        return {name: (found[f"{name}/coef"], found[f"{name}/intercept"]) for name in CASES}


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


if __name__ == "__main__":
    found = {}
    for name, (_, kind, _, *told) in CASES.items():
        found[f"{name}/coef"], found[f"{name}/intercept"] = skglm(*problem(kind), *told)
    np.savez(sys.argv[1], **found)
