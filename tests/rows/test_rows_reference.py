"""The literal twin of the engine: against loops written out by hand, and by where it ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from literal_ccd import run
from rows_cases import Case

from cyclade.linear.penalties import (
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    GroupL2,
    LogSum,
    ScalarPenalty,
    SparseGroup,
    WeightedL1,
)  # fmt: skip
from cyclade.rows.oracle import Features, by_blocks


def test_weighted_lasso_by_hand() -> None:
    case, lam = Case("squared"), 0.03
    X, s = case.X, case.weight
    seen = run(X, case.y, case.loss, L1(lam), sample_weight=s, K=12)
    w, x = s / s.sum(), np.zeros(X.shape[1])
    for k in range(1, 13):
        for j in range(len(x)):
            L = float(w @ X[:, j] ** 2)
            if L > 0:
                u = x[j] + X[:, j] @ (w * (case.y - X @ x)) / L
                x[j] = np.sign(u) * max(abs(u) - lam / L, 0.0)
        np.testing.assert_allclose(seen[k].coef, x, atol=1e-13)
        F = 0.5 * w @ (X @ x - case.y) ** 2 + lam * np.abs(x).sum()
        assert seen[k].objective == pytest.approx(F, rel=1e-13)


PENALTIES = [
    L1(0.02),
    L1(0.02, positive=True),
    ElasticNet(0.05, 0.5),
    WeightedL1(0.02, np.linspace(0.0, 2.0, 12)),
    Box(-0.1, 0.3, lam=0.01),
    MCP(0.05, 3.0),
    SCAD(0.05, 3.7),
    LogSum(0.02, 0.5),
    GroupL2(0.02, groups=3),
    SparseGroup(0.02, 0.5, groups=[[0, 11], [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "cauchy"])
def test_it_ends_where_F_is_stationary(loss: str, penalty: object) -> None:
    case = Case(loss, n=60, p=12)
    seen = run(
        case.X, case.y, case.loss, penalty, sample_weight=case.weight, offset=case.offset,
        fit_intercept=True, K=400,
    )  # fmt: skip
    objectives = [now.objective for now in seen]
    assert all(b <= a + 1e-14 for a, b in pairwise(objectives))
    assert seen[-1].distance < 1e-3 * seen[0].distance


class Cubed(ScalarPenalty):
    """A user's penalty: λ|x|³/3."""

    convex = True

    def __init__(self, lam: float) -> None:
        self.lam = lam

    def value(self, x: float, j: int) -> float:
        return self.lam * abs(x) ** 3 / 3

    def prox(self, u: float, t: float, j: int) -> float:
        size = ((1 + 4 * self.lam * t * abs(u)) ** 0.5 - 1) / (2 * self.lam * t)
        return size if u > 0 else -size

    def distance(self, x: float, g: float, j: int) -> float:
        return abs(g + self.lam * x * abs(x))


@pytest.mark.parametrize(
    "penalty", [*PENALTIES[:8], Cubed(0.4)], ids=lambda one: type(one).__name__
)
def test_compiled_proxes_are_the_literal_ones(penalty: object) -> None:
    features = Features(12, [5, 7], fit_intercept=True, outputs=2)
    slow, fast = by_blocks(penalty, features), by_blocks(penalty, features, fast=True)
    rng = np.random.default_rng(0)
    for j, size in enumerate(features.layout.sizes):
        u = rng.normal(size=size)
        for t in (0.3, rng.uniform(0.1, 5.0, size=size)):
            np.testing.assert_allclose(fast.prox(j, u, t), slow.prox(j, u, t), rtol=1e-14)
