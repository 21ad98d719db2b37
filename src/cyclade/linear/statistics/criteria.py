"""Information criteria: alpha chosen along one path, without folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaln
from sklearn.base import clone

from cyclade._checks import choice
from cyclade.linear.cox import Cox
from cyclade.linear.losses import Array, Squared
from cyclade.linear.statistics.deviances import DISPERSED, fitted_rows, pearson

CRITERIA = ("aic", "bic", "ebic")


def cost_of_features(criterion: str, df: Any, n: float, p: int) -> Array:
    """What a model with `df` of p coefficients pays: 2, log n, or log n and 2 log (p over df)."""
    df = np.asarray(df, np.float64)
    if criterion == "aic":
        return np.asarray(2.0 * df)
    count = -betaln(1.0 + p - df, 1.0 + df) - np.log(p + 1.0)  # log of the binomial coefficient
    return np.asarray(np.log(n) * df + (2.0 * count if criterion == "ebic" else 0.0))


def select(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    offset: Any = None,
    criterion: str = "ebic",
    alphas: Any = None,
    alpha_ratio: float = 0.01,
) -> Any:
    """The model at the alpha of the path with the least information criterion, fitted.

    It is −2 log-likelihood + cost of the coefficients that are not zero. For least squares the
    first is n log(RSS/n), so the variance of errors need not be known. For distributions with a
    dispersion it is the deviance over Pearson's estimate at the smallest alpha; n is the number of
    events in a Cox model. Fits with more than n/2 coefficients do not count.

    Parameters
    ----------
    model : estimator
        One with `alpha` and the loss of a distribution, or a Cox model; it is left alone.
    X, y, sample_weight, offset
        As for `fit`.
    criterion : {"aic", "bic", "ebic"}
        2, log n, or log n and the logarithm of the number of supports of that size
        (Chen and Chen 2008), which is for many features.
    alphas : array or int, default=None
        As for `path`.
    alpha_ratio : float, default=0.01
        The smallest alpha over the largest.

    Returns
    -------
    estimator
        A fitted clone, with `alphas_` and `criterion_path_`.

    Examples
    --------
    >>> from cyclade.linear import Lasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 200))
    >>> y = X[:, 3] - X[:, 5] + rng.standard_normal(100)
    >>> np.flatnonzero(select(Lasso(relaxed=True), X, y).coef_)
    array([3, 5])
    """
    choice("criterion", criterion, CRITERIA)
    if "alpha" not in model.get_params():
        raise ValueError(f"model: {type(model).__name__} has no alpha to choose; give one that has")
    path = model.path(X, y, sample_weight, offset=offset, alphas=alphas, alpha_ratio=alpha_ratio)
    given = {"sample_weight": sample_weight, "offset": offset}
    first = clone(model).set_params(alpha=float(path.alphas[0])).fit(X, y, **given)
    rows = fitted_rows(first, X, y, sample_weight, offset)
    points = []
    for k in range(len(path.alphas)):
        z = rows.X @ path.coefs[..., k].T + path.intercepts[..., k]
        points.append(np.reshape(z, rows.z.shape) + rows.offset)
    sizes = np.count_nonzero(path.coefs.reshape(-1, len(path.alphas)), axis=0)
    counted = rows.loss.y["event"] if isinstance(rows.loss, Cox) else np.ones(len(rows.s))
    n, p = float(rows.s @ counted), path.coefs[..., 0].size
    values = np.array([rows.deviance(z) for z in points])
    if isinstance(rows.loss, Squared):
        with np.errstate(divide="ignore"):
            values = n * np.log(values / n)
    elif isinstance(rows.loss, DISPERSED):
        last = int(np.flatnonzero(sizes <= n / 2)[-1])
        values = values * (n - sizes[last] - 1.0) / pearson(rows, points[last])
    values = np.where(sizes <= n / 2, values + cost_of_features(criterion, sizes, n, p), np.inf)
    best = float(path.alphas[int(np.argmin(values))])
    chosen = clone(model).set_params(alpha=best).fit(X, y, **given)
    chosen.alphas_, chosen.criterion_path_ = path.alphas, values
    return chosen
