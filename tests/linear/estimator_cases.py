"""One small problem for every estimator, and F written out from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from cyclade import linear

TIGHT = {"tol": 1e-12}


def data(kind: str, n: int = 40, p: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X with correlated columns, and targets of that kind."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X[rng.random((n, p)) < 0.3] = 0.0
    z = X[:, 0] - 2.0 * X[:, 1] + 0.5 * X[:, p // 2] + 0.3
    noise = 0.3 * rng.standard_normal(n)
    targets: dict[str, Any] = {
        "real": lambda: z + noise,
        "table": lambda: np.stack([z + noise, -z + X[:, 3], 0.1 * z], axis=1),
        "counts": lambda: rng.poisson(np.exp(0.4 * z)).astype(float),
        "amounts": lambda: np.exp(0.4 * z + noise),
        "two": lambda: np.where(z + 8 * noise > 0, "yes", "no"),
        "three": lambda: np.digitize(z + 8 * noise, [-1.0, 1.0]),
    }
    return X, targets[kind]()


CASES: dict[str, tuple[Any, str]] = {
    "lasso": (linear.Lasso(0.1), "real"),
    "lasso without intercept": (linear.Lasso(0.1, fit_intercept=False), "real"),
    "lasso of several outputs": (linear.Lasso(0.1), "table"),
    "elastic net": (linear.ElasticNet(0.1), "real"),
    "ridge": (linear.ElasticNet(0.1, l1_ratio=0.0), "real"),
    "weighted": (linear.WeightedLasso(0.1, weights=np.arange(1.0, 9.0) / 4), "real"),
    "adaptive": (linear.WeightedLasso(0.05), "real"),
    "groups": (linear.GroupLasso(0.1, groups=2), "real"),
    "sparse groups": (linear.SparseGroupLasso(0.1, groups=4), "real"),
    "tasks": (linear.MultiTaskLasso(0.1), "table"),
    "logistic": (linear.SparseLogisticRegression(0.03), "two"),
    "logistic elastic net": (linear.SparseLogisticRegression(0.03, l1_ratio=0.5), "two"),
    "multinomial": (linear.SparseLogisticRegression(0.05), "three"),
    "hinge": (linear.SparseSVC(0.1), "two"),
    "hinge one against the rest": (linear.SparseSVC(0.1), "three"),
    "mcp": (linear.MCPRegression(0.1), "real"),
    "scad": (linear.SCADRegression(0.1), "real"),
    "log-sum": (linear.LogSumRegression(0.1), "real"),
    "huber": (linear.RobustRegression(0.1, loss="huber", scale=0.5), "real"),
    "cauchy": (linear.RobustRegression(0.1), "real"),
    "welsch mcp": (linear.RobustRegression(0.1, loss="welsch", penalty="mcp"), "real"),
    "geman-mcclure": (linear.RobustRegression(0.1, loss="geman_mcclure"), "real"),
    "tukey": (linear.RobustRegression(0.1, loss="tukey"), "real"),
    "quantile": (linear.QuantileRegression(0.05, quantile=0.7, smoothing=0.3), "real"),
    "poisson": (linear.PoissonRegressor(0.1), "counts"),
    "poisson elastic net": (linear.PoissonRegressor(0.1, l1_ratio=0.3), "counts"),
    "gamma": (linear.GammaRegressor(0.1), "amounts"),
    "pair": (linear.GeneralizedLinear("huber", "scad", alpha=0.1), "real"),
    "pair of labels": (
        linear.GeneralizedLinearClassifier("logistic", "log_sum", alpha=0.05),
        "two",
    ),
}


POSITIVE = {
    f"positive {name}": (clone(model).set_params(positive=True), kind)
    for name, (model, kind) in CASES.items()
    if "positive" in model.get_params() and name != "multinomial"
}


def dense(X: Any) -> np.ndarray:
    return X if isinstance(X, np.ndarray) else X.toarray()


def same_predictions(a: Any, b: Any, rtol: float = 1e-7) -> None:
    """Labels are equal, numbers are close."""
    if np.asarray(a).dtype.kind == "f":
        np.testing.assert_allclose(a, b, rtol=rtol)
    else:
        np.testing.assert_array_equal(a, b)


def weighs_and_reads(model: Any, X: Any, y: Any, atol: float) -> Any:
    """A weight of 2 is the row twice, and sparse columns are dense ones: both of the former."""
    X, times = X * (abs(X) > 0.5), 1 + np.arange(len(X)) % 3
    offset = 0.5 * X[:, 2]
    once = clone(model).fit(X, y, times, offset=offset)
    rows = np.repeat(np.arange(len(X)), times)
    others = [clone(model).fit(X[rows], y[rows], offset=offset[rows])]
    for form in (sparse.csr_array, sparse.csc_array, np.asfortranarray):
        others.append(clone(model).fit(form(X), y, times, offset=offset))
    for other in others:
        np.testing.assert_allclose(other.coef_, once.coef_, atol=atol)
    return others[0], once


def pieces(model: Any, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> list[Any]:
    """(loss, penalty, target, weights, coefficients, intercept, offset) of each separate fit."""
    given = model._data(X, y, sample_weight, offset)
    penalty = given.at(model.alpha)
    n = X.shape[0]
    s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    found = []
    for k, target in enumerate(given.targets):
        if len(given.targets) > 1:
            coef, intercept = model.coef_[k], model.intercept_[k]
        elif given.loss.target == "classes" or target.ndim == 2:
            coef, intercept = model.coef_.T, model.intercept_
        else:
            coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        found.append(
            (given.loss, penalty, target, s / s.sum(), coef, intercept, given.offset_of(k))
        )
    return found


def objective(model: Any, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
    """F from its definition, on a dense copy of X."""
    total = 0.0
    for loss, r, target, s, coef, intercept, b in pieces(model, X, y, sample_weight, offset):
        z = dense(X) @ coef + intercept + (0.0 if b is None else b)
        total += float(s @ loss.value(target, z)) + r.total(coef)
    return total


def distances(model: Any, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
    """The largest dist(−g, ∂r) over blocks and intercepts."""
    largest = 0.0
    for loss, r, target, s, coef, intercept, b in pieces(model, X, y, sample_weight, offset):
        z = dense(X) @ coef + intercept + (0.0 if b is None else b)
        u = (loss.gradient(target, z).T * s).T
        g = dense(X).T @ u
        if hasattr(r, "partition"):
            order, starts = r.partition(len(coef))
            blocks = np.split(order, starts[1:-1])
            found = [r.distance(coef[at].ravel(), g[at].ravel(), k) for k, at in enumerate(blocks)]
        else:
            found = [
                r.distance(float(xj), float(gj), j)
                for j, (xj, gj) in enumerate(zip(coef, g, strict=True))
            ]
        largest = max(largest, *found)
        if model.fit_intercept:
            largest = max(largest, float(abs(u.sum(axis=0)).max()))
    return largest
