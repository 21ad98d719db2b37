"""Deviance, D² and residuals of fitted models, in the measure of their distribution.

The losses of distributions are half unit deviances, and those of labels minus log-likelihoods. So
the deviance is 2 Σ s_i φ(y_i, z_i). With the expected curvature w = E φ'' over y given z, Pearson's
residual (y − μ)/√V(μ) is −φ'/√w and the working residual is −φ'/w, whatever the link.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from cyclade._checks import choice
from cyclade.linear import distributions, losses
from cyclade.linear.api import solve, unannounced
from cyclade.linear.checks import in_chunks
from cyclade.linear.cox import Cox
from cyclade.linear.losses import Array, Loss

# Distributions whose dispersion is estimated, and those where it is known to be 1.
DISPERSED = (losses.Squared, losses.Gamma, distributions.Tweedie, distributions.InverseGaussian)
KNOWN = (
    losses.Poisson, losses.Logistic, distributions.NegativeBinomial, distributions.Binomial,
    distributions.Probit, distributions.ComplementaryLogLog,
)  # fmt: skip
KINDS = ("response", "pearson", "deviance", "working")


@dataclass(frozen=True)
class FittedRows:
    """Rows as a fitted model sees them: targets y, predictions z, raw weights s."""

    X: Any
    y: Array
    z: Array
    s: Array
    offset: Array
    loss: Loss

    @property
    def family(self) -> bool:
        """Whether the loss is that of a distribution of one number."""
        return isinstance(self.loss, (*DISPERSED, *KNOWN))

    def deviance(self, z: Array) -> float:
        """2 Σ s φ at predictions z; of Cox models above that of a saturated one."""
        if isinstance(self.loss, Cox):
            sets = self.loss.sets(self.y)
            return 2.0 * (float(sets.value(z, sets.at(z)).mean()) * sets.total + saturated(sets))
        if not (self.family or self.loss.softmax):
            raise ValueError(
                f"model: {self.loss!r} is not the loss of a distribution; deviances are of "
                f"{', '.join(kind.__name__ for kind in (*DISPERSED, *KNOWN))}, Multinomial and Cox"
            )
        return 2.0 * float(self.s @ self.loss.value(self.y, z))


def fitted_rows(
    model: Any, X: Any, y: Any, sample_weight: Any = None, offset: Any = None
) -> FittedRows:
    """Checked rows with the predictions of a fitted model, which is left alone."""
    check_is_fitted(model, "coef_")
    twin = copy.copy(model)  # `_data` notes what it sees
    twin.standardize = False
    data = twin._data(X, y, sample_weight, model._offset_for_score(offset))
    if in_chunks(data.X):
        raise ValueError("X must be in memory, not in chunks")
    if len(data.targets) != 1 or data.targets[0].ndim > 1:
        raise ValueError(f"y must be one target, got {len(model.coef_)} outputs or classes")
    if hasattr(model, "classes_") and not np.array_equal(twin.classes_, model.classes_):
        raise ValueError(f"y must hold every class of the fit: {list(model.classes_)}")
    score = getattr(model, "decision_function", model._linear)
    z, b = np.asarray(score(X, offset=data.offset), np.float64), data.offset
    b = np.zeros_like(z) if b is None else b
    s = data.loss.weights if isinstance(data.loss, Cox) else data.weights
    X = data.X.astype(np.float64, copy=False)
    return FittedRows(X, data.targets[0], z, np.asarray(s, np.float64), b, data.loss)


def deviance(model: Any, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
    """Twice the log-likelihood by which a model falls short of a perfect fit of every row.

    Weights count rows; trials of a binomial target are weights. Of a Cox model it is glmnet's: the
    saturated log partial likelihood is −Σ_t W_t log W_t over the times t of events that weigh W_t.

    Examples
    --------
    >>> from cyclade.linear import PoissonRegressor
    >>> X, y = [[0.0], [1.0], [0.0], [1.0]], [1, 4, 3, 4]
    >>> model = PoissonRegressor(alpha=0.0).fit(X, y)
    >>> round(deviance(model, X, y), 4)  # 2 (log ½ + 3 log 3/2)
    1.0465
    """
    rows = fitted_rows(model, X, y, sample_weight, offset)
    return rows.deviance(rows.z)


def d2_score(model: Any, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
    """D² = 1 − deviance / deviance of the best constant: R² for least squares.

    Examples
    --------
    >>> from cyclade.linear import Lasso
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]
    >>> round(d2_score(Lasso(alpha=0.1).fit(X, y), X, y), 4)
    0.9775
    """
    rows = fitted_rows(model, X, y, sample_weight, offset)
    total = rows.deviance(rows.z)
    worst = rows.deviance(null_predictions(rows))
    return 1.0 - total / worst if worst > 0.0 else float(total <= 0.0)


def residuals(model: Any, X: Any, y: Any, kind: str = "deviance", *, offset: Any = None) -> Array:
    """Residuals of every row.

    Parameters
    ----------
    model : estimator
        A fitted one with the loss of a distribution, or a Cox model.
    X, y, offset
        The rows, as for `fit`.
    kind : {"response", "pearson", "deviance", "working"}
        y − μ (of a Cox model the martingale residual: events less those expected), that over √V(μ),
        the signed root of a row's deviance, or y − μ over dμ/dz. Cox models have the first and the
        third.

    Examples
    --------
    >>> from cyclade.linear import PoissonRegressor
    >>> X, y = [[0.0], [1.0], [0.0], [1.0]], [1, 4, 3, 4]
    >>> model = PoissonRegressor(alpha=0.0).fit(X, y)
    >>> residuals(model, X, y, "response").round(3) + 0.0
    array([-1., 0., 1., 0.])
    """
    rows = fitted_rows(model, X, y, None, offset)
    loss, target, z = rows.loss, rows.y, rows.z
    if isinstance(loss, Cox):
        choice("kind", kind, ("response", "deviance"))
        event = loss.y["event"].astype(np.float64)
        left = -loss.gradient(target, z)  # weights are 1
        hazard = np.maximum(event - left, np.finfo(np.float64).tiny)  # that the row went through
        half = -left - event * np.log(hazard)
        return left if kind == "response" else signed_root(left, half)
    choice("kind", kind, KINDS)
    rows.deviance(z)  # refuses what is not a distribution
    if not rows.family:
        raise ValueError("model: residuals are of one number a row, not of several classes")
    if kind == "response":
        y = 0.5 * (target + 1.0) if loss.target == "signs" else target
        return np.asarray(y - loss.mean(z))
    down = -loss.gradient(target, z)
    if kind == "deviance":
        return signed_root(down, loss.value(target, z))
    w = expected_curvature(loss, z)
    return np.asarray(down / (np.sqrt(w) if kind == "pearson" else w))


def expected_curvature(loss: Loss, z: Array) -> Array:
    """E φ''(y, z) over y given z: φ'' is affine in y for numbers, and labels have two values."""
    if loss.target == "signs":
        p, one = loss.mean(z), np.ones_like(z)
        hit, miss = loss.second_derivative(one, z), loss.second_derivative(-one, z)
        return np.asarray(p * hit + (1.0 - p) * miss)
    return loss.second_derivative(loss.mean(z), z)


def null_predictions(rows: FittedRows) -> Array:
    """The best constant beside the offset; of a Cox model the offset."""
    if isinstance(rows.loss, Cox):
        return rows.offset
    nothing, offset = np.zeros((len(rows.y), 1)), rows.offset
    fit = unannounced(solve)(
        nothing, rows.y, rows.loss, "l1", alpha=1.0, sample_weight=rows.s, offset=offset
    )
    return np.asarray(offset + fit.intercept)


def saturated(sets: Any) -> float:
    """The log partial likelihood of a model that gives all hazard to the events of each time."""
    events = np.bincount(sets.group, sets.share, sets.times.size)
    return -float(events @ np.log(events))


def signed_root(sign: Array, half: Array) -> Array:
    """√(2 · half) with a sign."""
    return np.asarray(np.sign(sign) * np.sqrt(2.0 * np.maximum(half, 0.0)))


def pearson(rows: FittedRows, z: Array) -> float:
    """Pearson's χ²: Σ s (y − μ)²/V(μ)."""
    slope, w = rows.loss.gradient(rows.y, z), expected_curvature(rows.loss, z)
    return float(rows.s @ (slope * slope / w))


def products(X: Any, v: Array) -> Array:
    """Xᵀ diag(v) X."""
    if sparse.issparse(X):
        return np.asarray((X.T @ X.multiply(v[:, None]).tocsc()).toarray())
    return np.asarray(X.T @ (X * v[:, None]), np.float64)
