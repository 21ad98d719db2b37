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


def table(rng):
    """Columns of all scales, twice, constant, with large means, nearly the same, in float32."""
    n, p = int(rng.integers(10, 300)), int(rng.integers(3, 200))
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
    y = X[:, :3] @ rng.standard_normal(3)
    y = y / max(float(y.std()), 1e-12) + rng.random() * rng.standard_normal(n)
    dtype = np.float32 if rng.random() < 0.3 else np.float64
    return np.asarray(X, dtype, order="F" if rng.random() < 0.5 else "C"), y


def unreached(said):
    """The warnings, but for those of columns whose scales differ."""
    return [one for one in said if "in scale" not in str(one.message)]


@pytest.mark.parametrize("kind", [Lasso, ElasticNet, MCPRegression, SparseLogisticRegression])
@pytest.mark.parametrize("seed", range(3))
def test_default_fits_are_certified_or_warn_once(kind, seed):
    rng = np.random.default_rng(seed)
    certified = 0
    for _ in range(15):
        X, y = table(rng)
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


def tall_table(rng):
    """The same with many more rows than columns, and a row or a component that hides the rest."""
    p = int(rng.integers(4, 40))
    n = 150 * p
    X = rng.standard_normal((n, p))
    if rng.random() < 0.3:
        X *= 10 ** rng.uniform(-6.0, 6.0, p)
    if rng.random() < 0.3:
        X[:, rng.integers(p, size=p // 3)] = X[:, rng.integers(p, size=p // 3)]
    if rng.random() < 0.2:
        X[:, 0] = 1.0 + 1e-8 * X[:, 0]
    if rng.random() < 0.3:
        X += rng.standard_normal(p) * 10 ** rng.uniform(0, 5)
    if rng.random() < 0.3:
        X += 10 ** rng.uniform(0, 4) * rng.standard_normal((n, 1))
    if rng.random() < 0.2:
        X[rng.integers(n)] *= 10 ** rng.uniform(2, 6)
    z = X[:, 1:4] @ rng.standard_normal(3)
    return np.asarray(X, order="F" if rng.random() < 0.5 else "C"), (z - z.mean()) / float(z.std())


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
        X, z = tall_table(rng)
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


def test_default_nonconvex_fits_of_tall_tables_are_certified_or_warn_once():
    rng, certified = np.random.default_rng(0), 0
    for _ in range(20):
        X, z = tall_table(rng)
        y = z + rng.standard_normal(len(z))
        alpha = 0.05 * float(np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max()) / len(y)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = MCPRegression(alpha).fit(X, y)
        said = unreached(said)
        assert all(issubclass(one.category, ConvergenceWarning) for one in said)
        assert len(said) == (0 if model.certificate_.reached else 1)
        certified += model.certificate_.reached
    assert certified >= 17
