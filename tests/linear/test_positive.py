"""`positive=True` in every estimator that has it: the bounded minimum, against L-BFGS-B."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from cyclade import linear

rng = np.random.default_rng(0)
n, p, ALPHA = 300, 8, 0.02
X = rng.standard_normal((n, p))
Z = X @ np.array([1.0, -1.0, 0.5, 0.0, 0.0, -0.3, 0.2, 0.0])
REAL, SIGNS = Z + rng.standard_normal(n), np.where(Z + rng.logistic(size=n) > 0, 1.0, -1.0)
COUNTS = rng.poisson(np.exp(0.5 * Z)).astype(float)
AMOUNTS = np.exp(0.5 * Z) * rng.gamma(5.0, 0.2, n)
ROWS = {
    "Lasso": (linear.Lasso(ALPHA, positive=True), REAL),
    "ElasticNet": (linear.ElasticNet(ALPHA, l1_ratio=0.5, positive=True), REAL),
    "WeightedLasso": (linear.WeightedLasso(ALPHA, weights=np.ones(p), positive=True), REAL),
    "SparseLogisticRegression": (linear.SparseLogisticRegression(ALPHA, positive=True), SIGNS),
    "SparseSVC": (linear.SparseSVC(ALPHA, positive=True), SIGNS),
    "PoissonRegressor": (linear.PoissonRegressor(ALPHA, positive=True), COUNTS),
    "GammaRegressor": (linear.GammaRegressor(ALPHA, positive=True), AMOUNTS),
    "huber": (linear.RobustRegression(ALPHA, loss="huber", scale=1.0, positive=True), REAL),
    "cauchy": (linear.RobustRegression(ALPHA, scale=3.0, positive=True), REAL),
    "quantile": (linear.QuantileRegression(ALPHA, smoothing=0.5, positive=True), REAL),
    "groups": (linear.GroupLasso(ALPHA, groups=1, positive=True), REAL),
    "sparse groups": (linear.SparseGroupLasso(ALPHA, groups=1, positive=True), REAL),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("store", [np.asarray, sparse.csc_array])
def test_coefficients_are_the_bounded_minimum(name, store):
    model, y = ROWS[name]
    model = model.set_params(tol=1e-9).fit(store(X), y)
    loss, ratio = model._loss(y, None), getattr(model, "l1_ratio", None)
    ratio = 1.0 if ratio is None or "groups" in name else ratio

    def F(point):
        x, c = point[:p], point[p]
        z = X @ x + c
        u = loss.gradient(y, z) / n
        value = loss.value(y, z).mean() + ALPHA * (ratio * x.sum() + 0.5 * (1 - ratio) * x @ x)
        return value, np.append(X.T @ u + ALPHA * (ratio + (1 - ratio) * x), u.sum())

    start = np.zeros(p + 1)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    best = minimize(F, start, jac=True, method="L-BFGS-B", options=options,
                    bounds=[(0, None)] * p + [(None, None)])  # fmt: skip
    coef = np.ravel(model.coef_)
    assert model.certificate_.reached
    assert coef.min() == 0.0 < coef.max()
    assert model.objective_ == pytest.approx(best.fun, rel=1e-7)
    np.testing.assert_allclose(coef, best.x[:p], atol=1e-4)


def test_every_estimator_with_positive_is_here():
    tested = {type(model).__name__ for model, _ in ROWS.values()}
    others = {"MCPRegression", "SCADRegression", "LogSumRegression", "SqrtLasso"}  # other tests
    named = [getattr(linear, name) for name in linear.__all__ if not name.endswith("CV")]
    have = {one.__name__ for one in named if "positive" in getattr(one, "__dataclass_fields__", {})}
    assert have - others == tested


def test_rows_of_classes_and_sorted_coefficients_have_no_positive():
    y = np.arange(n) % 3
    with pytest.raises(ValueError, match="positive must be False for rows of more than two"):
        linear.SparseLogisticRegression(0.1, positive=True).fit(X, y)
    model = linear.SparseLogisticRegression(0.01, l1_ratio=1.0, positive=True).fit(X, y)
    assert model.coef_.min() == 0.0
    with pytest.raises(TypeError, match=r"penalty 'slope' cannot be built .*positive"):
        linear.penalties.get("slope", 0.1, positive=True)
