"""Least squares with l1 penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from cyclade.linear.estimators.checks import check_number, numbers
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.tasks import Regressor, Single
from cyclade.linear.losses import Loss, Squared
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import L1, WeightedL1
from cyclade.linear.penalties import ElasticNet as ElasticNetPenalty


@dataclass(eq=False, repr=False, kw_only=True)
class LeastSquares(Regressor):
    """φ = ½ (z − y)²."""

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return Squared()


@dataclass(eq=False, repr=False, kw_only=True)
class LassoFamily(LeastSquares):
    """r = alpha ‖x‖_1."""

    positive: bool = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return L1(1.0, positive=self.positive)


@dataclass(eq=False, repr=False)
class Lasso(LassoFamily, Single):
    """Least squares with an l1 penalty, the objective of scikit-learn's `Lasso`.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha ‖x‖_1

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import Lasso
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> model = Lasso(alpha=0.1).fit(X, [0.0, 1.0, 2.0])
    >>> model.coef_, model.intercept_
    (array([0.85, 0. ]), 0.15)
    >>> model.certificate_.reached
    True
    """


@dataclass(eq=False, repr=False)
class LassoCV(LassoFamily, CrossValidated):
    """`Lasso` with alpha by cross-validation.

    Parameters
    ----------
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import LassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 10))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> model = LassoCV(n_alphas=20, rule="1se").fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([0])
    """


@dataclass(eq=False, repr=False, kw_only=True)
class ElasticNetFamily(LeastSquares):
    """r = alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²)."""

    l1_ratio: float = 0.5
    positive: bool = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return ElasticNetPenalty(1.0, self.l1_ratio, positive=self.positive)


@dataclass(eq=False, repr=False)
class ElasticNet(ElasticNetFamily, Single):
    """Least squares with l1 and l2 penalties, the objective of scikit-learn's `ElasticNet`.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²)

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    l1_ratio : float, default=0.5
        ρ, between 0 (ridge) and 1 (lasso).
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> from cyclade.linear import ElasticNet
    >>> model = ElasticNet(alpha=0.1).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0.0, 1.0, 2.0])
    >>> model.coef_
    array([0.860..., 0. ])
    """


@dataclass(eq=False, repr=False)
class ElasticNetCV(ElasticNetFamily, CrossValidated):
    """`ElasticNet` with alpha by cross-validation, at one `l1_ratio`.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        ρ, between 0 and 1; 0 needs `alphas`, as no alpha makes all coefficients zero.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class WeightedLassoFamily(LeastSquares):
    """r = alpha Σ_j w_j |x_j|."""

    weights: Any = "adaptive"
    gamma: float = 1.0
    positive: bool = False

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        if isinstance(self.weights, str):
            if self.weights != "adaptive":
                raise ValueError(
                    f"weights must be 'adaptive' or one number per feature, got {self.weights!r}"
                )
            weights = self._adapted(X, y, sample_weight)
        else:
            weights = numbers("weights", self.weights, np.float64)
        if weights.shape != (X.shape[1],):
            raise ValueError(
                f"weights must have one entry for each of the {X.shape[1]} features, "
                f"got shape {weights.shape}"
            )
        self.weights_ = weights
        return WeightedL1(1.0, weights, positive=self.positive)

    def _adapted(self, X: Any, y: Array, sample_weight: Array | None) -> Array:
        """|b_j|^−γ of a lightly penalised ridge fit b, scaled to have the median 1."""
        gamma = check_number("gamma", self.gamma)
        total = X.shape[0] if sample_weight is None else float(sample_weight.sum())
        pilot = Ridge(1e-3 * total, fit_intercept=self.fit_intercept, tol=1e-10)
        size = abs(pilot.fit(X, y, sample_weight).coef_)
        size = size if size.ndim == 1 else np.linalg.norm(size, axis=0)
        largest = float(size.max(initial=0.0))
        if largest == 0.0:
            return np.ones(X.shape[1])
        weights = np.maximum(size / largest, 1e-6) ** -gamma
        return np.asarray(weights / np.median(weights), dtype=np.float64)


@dataclass(eq=False, repr=False)
class WeightedLasso(WeightedLassoFamily, Single):
    """Least squares with a weighted l1 penalty; by default the adaptive lasso.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_j w_j |x_j|

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    weights : "adaptive" or array of shape (n_features,), default="adaptive"
        w_j >= 0; zero leaves a coefficient unpenalised. "adaptive" takes |b_j|^−gamma from a
        ridge fit b with penalty 10⁻³, scaled to have the median 1.
    gamma : float, default=1.0
        The exponent of adaptive weights.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        The weights used.
    {fitted}

    Examples
    --------
    >>> from cyclade.linear import WeightedLasso
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0.0, 1.0, 2.0]
    >>> WeightedLasso(alpha=0.1, weights=[2.0, 1.0]).fit(X, y).coef_
    array([0.7, 0. ])
    """


@dataclass(eq=False, repr=False)
class WeightedLassoCV(WeightedLassoFamily, CrossValidated):
    """`WeightedLasso` with alpha by cross-validation; adaptive weights come from all rows.

    Parameters
    ----------
    weights : "adaptive" or array of shape (n_features,), default="adaptive"
        As in `WeightedLasso`.
    gamma : float, default=1.0
        The exponent of adaptive weights.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        The weights used.
    {chosen}
    {fitted}
    """
