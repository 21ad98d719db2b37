"""Default fits of badly made tables: certified, or one warning."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from cyclade.linear import (
    ElasticNet,
    Lasso,
    MCPRegression,
    PoissonRegressor,
    RobustRegression,
    SparseLogisticRegression,
    solve,
)
from cyclade.linear.losses import Huber
from cyclade.linear.penalties import L1
from cyclade.linear.tuning import CostModel, Tuning


def table(rng, tall=False):
    """Columns of all scales, twice, constant, with large means, nearly the same, in float32.

    Where it is `tall`, in float64, and now and then with a row that hides the rest.
    """
    p = int(rng.integers(4, 40) if tall else rng.integers(3, 200))
    n = 150 * p if tall else int(rng.integers(10, 300))
    X = rng.standard_normal((n, p))
    if rng.random() < 0.3:
        X *= np.exp(rng.uniform(-9.0, 9.0, p))
    if rng.random() < 0.3:
        X[:, rng.integers(p, size=p // 3)] = X[:, rng.integers(p, size=p // 3)]
    if rng.random() < 0.3:
        X[:, rng.integers(p)] = rng.standard_normal() * 10 ** rng.uniform(-3, 5)
    if rng.random() < 0.3:
        X += rng.standard_normal(p) * 10 ** rng.uniform(0, 4)
    if rng.random() < 0.3:
        X += 5.0 * rng.random() * rng.standard_normal((n, 1))
    if tall and rng.random() < 0.2:
        X[:, 0] = 1.0 + 1e-8 * X[:, 0]
    if tall and rng.random() < 0.2:
        X[rng.integers(n)] *= 10 ** rng.uniform(2, 6)
    z = X[:, :3] @ rng.standard_normal(3)
    dtype = np.float32 if not tall and rng.random() < 0.3 else np.float64
    X = np.asarray(X, dtype, order="F" if rng.random() < 0.5 else "C")
    return X, (z - z.mean()) / max(float(z.std()), 1e-12)


def unreached(said):
    """The warnings, but for those of columns whose scales differ."""
    return [one for one in said if "in scale" not in str(one.message)]


@pytest.mark.parametrize(
    ("kind", "tall"),
    [(Lasso, False), (ElasticNet, False), (MCPRegression, False), (MCPRegression, True),
     (SparseLogisticRegression, False)],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_default_fits_are_certified_or_warn_once(kind, tall, seed):
    rng = np.random.default_rng(seed)
    certified = 0
    for _ in range(15):
        X, z = table(rng, tall)
        y = z + rng.random() * rng.standard_normal(len(z))
        fit_intercept, part = bool(rng.random() < 0.8), rng.choice([0.1, 0.01, 0.001])
        alpha = part * float(np.abs(X.T.astype(float) @ (y - y.mean() * fit_intercept)).max())
        target = y > np.median(y) if kind is SparseLogisticRegression else y
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = kind(alpha / len(y), fit_intercept=fit_intercept).fit(X, target)
        said = unreached(said)
        assert all(issubclass(one.category, ConvergenceWarning) for one in said)
        assert len(said) == (0 if model.certificate_.reached else 1)
        certified += model.certificate_.reached
    assert certified >= 12


TALL = {
    "squared": (Lasso, lambda z, rng: z + rng.standard_normal(z.size)),
    "huber": (
        partial(RobustRegression, loss="huber", scale=1.0),
        lambda z, rng: z + rng.standard_t(2, z.size),
    ),
    "logistic": (SparseLogisticRegression, lambda z, rng: z + rng.logistic(size=z.size) > 0),
    "poisson": (PoissonRegressor, lambda z, rng: rng.poisson(np.exp(np.clip(z, -3, 1))) * 1.0),
}
SLOW = Tuning(cost=CostModel(calls=-np.inf))


@pytest.mark.filterwarnings("ignore:.* in scale")
@pytest.mark.parametrize("loss", TALL)
def test_default_fits_of_tall_tables_are_certified_and_right(loss):
    """Losses with a gap: certified every time, and no higher than a tight fit without shortcuts."""
    rng, (kind, targets) = np.random.default_rng(0), TALL[loss]
    for _ in range(12):
        X, z = table(rng, tall=True)
        y = targets(z, rng)
        signs = np.where(y, 1.0, -1.0) if loss == "logistic" else y
        gradient = (X - X.mean(axis=0)).T @ (signs - signs.mean()) / len(y)
        alpha = float(rng.choice([0.1, 0.01])) * 0.5 * float(np.abs(gradient).max())
        model = kind(alpha).fit(X, y)  # a warning is an error
        tight = solve(X, signs, Huber(1.0) if loss == "huber" else loss, L1(alpha),
                      tol=1e-9, tuning=SLOW)  # fmt: skip
        assert model.certificate_.reached
        excess = model.objective_ - tight.objective
        assert -2 * tight.certificate.tolerance <= excess <= model.certificate_.tolerance
