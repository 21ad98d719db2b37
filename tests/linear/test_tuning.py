"""Constants of the engine: other ones may be given, and change how a fit goes but not where to."""

import numpy as np
import pytest

from cyclade.linear import path, solve
from cyclade.linear.penalties import L1, GroupL2, Slope
from cyclade.linear.tuning import DEFAULT, CostModel, Tuning
from cyclade.linear.working_set import STRATEGIES, table

ODD = Tuning(
    near=0.99, room=1, forcing=0.5, rough=0.9,
    lam_step=0.8, inner_part=0.9, burst=1, cost=CostModel(row=1e6),
)  # fmt: skip


@pytest.mark.parametrize("penalty", [L1(0.1), GroupL2(0.1, 5), Slope(0.1)], ids=repr)
@pytest.mark.parametrize("loss", ["squared", "huber", "cauchy"])
def test_the_solution_is_the_same_under_other_constants(penalty, loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 100))
    y = X[:, :4].sum(axis=1) + rng.standard_normal(60)
    usual = solve(X, y, loss, penalty, tol=1e-9)
    other = solve(X, y, loss, penalty, tol=1e-9, tuning=ODD)
    assert usual.certificate.reached
    assert other.certificate.reached
    assert len(other.history) != len(usual.history) or (other.passes != usual.passes)
    assert other.objective == pytest.approx(usual.objective, rel=1e-6)
    assert path(X, y, loss, penalty, n_alphas=5, alpha_ratio=0.2, tuning=ODD).reached


@pytest.mark.parametrize("front", [solve, path])
def test_tuning_must_be_one(front):
    with pytest.raises(TypeError, match="tuning: must be a Tuning or None, got dict"):
        front(np.eye(3), np.ones(3), "squared", L1(0.1), tuning={"near": 0.5})


def test_the_table_has_every_strategy():
    assert Tuning() == DEFAULT
    assert [line.split()[0] for line in table().splitlines()] == [row.name for row in STRATEGIES]
