"""Least squares with the sorted l1 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade.linear.estimators.checks import numbers
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.lasso import LeastSquares
from cyclade.linear.estimators.tasks import Single
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import Slope


@dataclass(eq=False, repr=False, kw_only=True)
class SlopeFamily(LeastSquares):
    """r = alpha Σ_k w_k |x|_(k)."""

    weights: Any = "bh"
    q: float = 0.1

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        weights = self.weights
        if not (weights is None or isinstance(weights, str)):
            weights = numbers("weights", weights, np.float64)
        penalty = Slope(1.0, weights, self.q)
        self.weights_ = penalty.shape(X.shape[1])
        return penalty


@dataclass(eq=False, repr=False)
class SlopeRegression(SlopeFamily, Single):
    """Least squares with a sorted l1 penalty (SLOPE): large coefficients are penalised more.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_k w_k |x|_(k)

    where |x|_(1) ≥ |x|_(2) ≥ … and w_1 ≥ w_2 ≥ …. Coefficients of correlated columns are drawn
    together to exactly equal size; equal weights give the `Lasso`.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    weights : {"bh", "oscar"} or array of shape (n_features,), default="bh"
        w, which must not increase. "bh" is w_k = Φ⁻¹(1 − kq/2p) / Φ⁻¹(1 − q/2p), after Benjamini
        and Hochberg; "oscar" falls along a line, w_k = (p − k + 1)/p.
    q : float, default=0.1
        Of "bh": the rate of false discoveries, strictly between 0 and 1.
    {common}

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        The weights used.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SlopeRegression
    >>> X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> model = SlopeRegression(alpha=1.0, weights=[1.0, 0.5, 0.0], fit_intercept=False)
    >>> model.fit(X, [6.0, 5.5, 0.0]).coef_
    array([3.5, 3.5, 0. ])
    """


@dataclass(eq=False, repr=False)
class SlopeRegressionCV(SlopeFamily, CrossValidated):
    """`SlopeRegression` with alpha by cross-validation.

    Parameters
    ----------
    weights : {"bh", "oscar"} or array of shape (n_features,), default="bh"
        As in `SlopeRegression`.
    q : float, default=0.1
        Of "bh": the rate of false discoveries.
    {choice}
    {common}

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        The weights used.
    {chosen}
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SlopeRegressionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 10))
    >>> y = X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(60)
    >>> model = SlopeRegressionCV(n_alphas=20, rule="1se").fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([0, 1])
    """
