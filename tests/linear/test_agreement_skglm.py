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
from cyclade.linear.losses import Huber, Squared
from cyclade.linear.penalties import L1, MCP, SCAD, GroupL2, LogSum, WeightedL1

X, Y = problem("real")
P = X.shape[1]
ARRAYS = {
    "factors": np.linspace(0.2, 2.0, P), "roots": np.full(P // 2, np.sqrt(2.0)),
    "weights": np.random.default_rng(1).uniform(0.1, 2.0, len(Y)),
    "ends": np.arange(0, P + 1, 2, dtype=np.int32), "indices": np.arange(P, dtype=np.int32),
}  # fmt: skip
SQUARES, L1_TOLD, MCP_TOLD = ("Quadratic", []), ("L1", [0.05]), ("MCPenalty", [0.1, 3.0])

# name: loss and penalty, and both as skglm is told: names and arguments, "@key" is an array
CONVEX = {
    "weighted l1": (
        Squared(), WeightedL1(0.05, ARRAYS["factors"]), SQUARES,
        ("WeightedL1", [0.05, "@factors"]),
    ),
    "weighted rows": (Squared(), L1(0.05), ("WeightedQuadratic", ["@weights"]), L1_TOLD),
    "huber": (Huber(0.5), L1(0.05), ("Huber", [0.5]), L1_TOLD),
    "groups": (
        Squared(), GroupL2(0.05, 2), ("QuadraticGroup", ["@ends", "@indices"]),
        ("WeightedGroupL2", [0.05, "@roots", "@ends", "@indices"]),
    ),
}  # fmt: skip
NONCONVEX = {
    "mcp": (Squared(), MCP(0.1, 3.0), SQUARES, MCP_TOLD),
    "scad": (Squared(), SCAD(0.1, 3.7), SQUARES, ("SCAD", [0.1, 3.7])),
    "log-sum": (Squared(), LogSum(0.02, 0.5), SQUARES, ("LogSumPenalty", [0.02, 0.5])),
    "huber mcp": (Huber(0.5), MCP(0.1, 3.0), ("Huber", [0.5]), MCP_TOLD),
}


def skglm(name, datafit, penalty):
    """Coefficients and intercept by one of its solvers, as tightly as it goes."""
    import numba

    numba.types.bool_ = np.bool_  # numba's own is no dtype where nothing is compiled
    from skglm import datafits, penalties, solvers

    # A target it cannot round to is asked for, so that it goes as far as it can.
    warnings.simplefilter("ignore")

    def make(module, told):
        given = [ARRAYS[a[1:]] if isinstance(a, str) else a for a in told[1]]
        return getattr(module, told[0])(*given)

    solver = solvers.GroupBCD if name == "groups" else solvers.AndersonCD
    one = solver(tol=1e-12, max_iter=200, fit_intercept=True)
    return one.solve(np.asfortranarray(X), Y, make(datafits, datafit), make(penalties, penalty))[0]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    pytest.importorskip("skglm")
    answers = tmp_path_factory.mktemp("skglm") / "answers.npz"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, __file__, answers], check=True, timeout=300, env=environment)
    with np.load(answers) as found:
        return {name: (found[name][:P], float(found[name][P])) for name in found}


@pytest.mark.parametrize("name", CONVEX)
def test_skglm(name, theirs):
    weights = ARRAYS["weights"] if name == "weighted rows" else None
    agree(X, Y, *CONVEX[name][:2], *theirs[name], sample_weight=weights, atol=1e-5)


@pytest.mark.parametrize("name", NONCONVEX)
def test_skglm_nonconvex(name, theirs):
    loss, penalty, *_ = NONCONVEX[name]
    coef, intercept = theirs[name]
    other = value(X, Y, loss, penalty, coef, intercept)
    # Theirs is stationary for ours too: from there ours does not move.
    there = solve(X, Y, loss, penalty, coef=coef, intercept=intercept, tol=1e-7)
    assert there.certificate.reached
    np.testing.assert_allclose(there.coef, coef, atol=1e-6)
    assert abs(there.objective - other) <= SAME * abs(other)
    # On its own ours ends in a minimum that is no worse.
    cold = solve(X, Y, loss, penalty, tol=1e-10)
    assert cold.certificate.reached
    assert cold.objective <= other * (1.0 + SAME)


if __name__ == "__main__":
    both = CONVEX | NONCONVEX
    np.savez(sys.argv[1], **{name: skglm(name, *case[2:]) for name, case in both.items()})
