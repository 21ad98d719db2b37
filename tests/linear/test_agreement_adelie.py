"""The same problems solved by adelie (which needs NumPy 1, so it runs in its own interpreter)."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, answers, problem

from cyclade.linear.losses import Logistic, Multinomial, Poisson, Squared
from cyclade.linear.penalties import L1, ElasticNet, GroupL2, Rows, WeightedL1

LAM = 0.03
P, K = 8, 3
ONE_BY_ONE = {"groups": np.arange(P), "factors": np.ones(P)}
IN_PAIRS = {"groups": np.arange(0, P, 2), "factors": np.full(P // 2, np.sqrt(2.0))}
FACTORS = np.linspace(0.2, 2.0, P)
WEIGHTS = np.random.default_rng(1).uniform(0.1, 2.0, 40)
OFFSET = 0.3 * np.random.default_rng(2).standard_normal(40)

# name: loss, targets, family, penalty, what adelie is told
CASES = {
    "lasso": (Squared(), "real", "gaussian", L1(LAM), ONE_BY_ONE),
    "lasso without intercept": (
        Squared(), "real", "gaussian", L1(LAM), {**ONE_BY_ONE, "intercept": False},
    ),
    "elastic net": (
        Squared(), "real", "gaussian", ElasticNet(LAM, 0.4), {**ONE_BY_ONE, "alpha": 0.4},
    ),
    "factors": (
        Squared(), "real", "gaussian", WeightedL1(LAM, FACTORS),
        {"groups": np.arange(P), "factors": FACTORS},
    ),
    "groups, weights, offset": (
        Squared(), "real", "gaussian", GroupL2(LAM, 2),
        {**IN_PAIRS, "weights": WEIGHTS, "offset": OFFSET},
    ),
    "logistic": (Logistic(), "two", "binomial", L1(LAM), ONE_BY_ONE),
    "logistic groups": (
        Logistic(), "two", "binomial", GroupL2(LAM, 2), {**IN_PAIRS, "weights": WEIGHTS},
    ),
    "poisson": (Poisson(), "counts", "poisson", L1(LAM), {**ONE_BY_ONE, "offset": OFFSET}),
    "poisson groups": (Poisson(), "counts", "poisson", GroupL2(LAM, 2), IN_PAIRS),
    "tasks": (Squared(), "table", "multigaussian", Rows(LAM), {**ONE_BY_ONE, "weights": WEIGHTS}),
    "multinomial": (Multinomial(), "three", "multinomial", Rows(LAM), ONE_BY_ONE),
}  # fmt: skip


def told(loss, kind, family, _penalty, options):
    """The problem as adelie has it: labels 0 and 1, classes one-hot, outputs averaged."""
    X, y = problem(kind)
    weights = np.asarray(options.get("weights", np.ones(len(y))), float)
    lam = LAM / K if family.startswith("multi") else LAM
    if kind == "two":
        y = (y > 0).astype(float)
    if kind == "three":
        y = np.eye(K)[y]
    table = {**options, "weights": weights / weights.sum()}
    return {"X": X, "y": y, "family": family, "lam": lam, **table}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    problems = {name: told(*case) for name, case in CASES.items()}
    return answers("adelie", problems, tmp_path_factory.mktemp("adelie"))


@pytest.mark.parametrize("name", CASES)
def test_adelie(name, theirs):
    loss, kind, _, penalty, options = CASES[name]
    X, y = problem(kind)
    coef, intercept = theirs[name]
    agree(
        X, y, loss, penalty, coef, intercept if options.get("intercept", True) else None,
        sample_weight=options.get("weights"), offset=options.get("offset"),
        atol=None if kind == "three" else 1e-5,
    )  # fmt: skip
