"""Counts and positive amounts, with a logarithmic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade.linear.estimators.checks import check_weights, numbers
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.tasks import Regressor, Single
from cyclade.linear.losses import Gamma, Loss, Poisson
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import ElasticNet


@dataclass(eq=False, repr=False, kw_only=True)
class LogLink(Regressor):
    """Half the deviance, with the elastic net."""

    l1_ratio: float = 1.0
    positive: bool = False

    def _deviance(self) -> Loss:
        raise NotImplementedError

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return self._deviance()

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return ElasticNet(1.0, self.l1_ratio, positive=self.positive)

    def _inverse_link(self, z: Array) -> Array:
        return self._deviance().mean(z)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """D², the fraction of the deviance explained: 1 is best, 0 is the mean of y."""
        z, loss = self._linear(X, offset), self._deviance()
        y = numbers("y", y, np.float64).reshape(z.shape)
        loss.check(y)
        weights = check_weights(sample_weight, len(y), np.float64)
        null = np.log(np.average(y, axis=0, weights=weights))
        model = np.average(loss.value(y, z), weights=weights)
        return float(
            1.0 - model / np.average(loss.value(y, np.zeros_like(z) + null), weights=weights)
        )

    def __sklearn_tags__(self) -> Any:
        """Targets are positive, or at least not negative, and one per row."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.target_tags.multi_output = False
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonFamily(LogLink):
    """Counts."""

    def _deviance(self) -> Loss:
        return Poisson()


@dataclass(eq=False, repr=False)
class PoissonRegressor(PoissonFamily, Single):
    """Regression of counts with a logarithmic link and the elastic net.

    F = (1/Σs_i) Σ s_i (e^{z_i} − y_i z_i + y_i log y_i − y_i)
        + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²), with z = Xx + c + offset. The first part is half the
    mean deviance; `l1_ratio=0` is the objective of scikit-learn's `PoissonRegressor`.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    l1_ratio : float, default=1.0
        ρ, between 0 and 1.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import PoissonRegressor
    >>> X, hours = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([1.0, 1.0, 2.0, 2.0])
    >>> model = PoissonRegressor(alpha=1e-4).fit(X, [1, 4, 2, 8], offset=np.log(hours))
    >>> model.predict([[1.0]], offset=[0.0]).round(1)
    array([4.])
    """


@dataclass(eq=False, repr=False)
class PoissonRegressorCV(PoissonFamily, CrossValidated):
    """`PoissonRegressor` with alpha by cross-validation; scores are minus half the deviance.

    Parameters
    ----------
    l1_ratio : float, default=1.0
        ρ, between 0 and 1; 0 needs `alphas`.
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
class GammaFamily(LogLink):
    """Positive amounts."""

    def _deviance(self) -> Loss:
        return Gamma()


@dataclass(eq=False, repr=False)
class GammaRegressor(GammaFamily, Single):
    """Regression of positive amounts with a logarithmic link and the elastic net.

    F = (1/Σs_i) Σ s_i (y_i e^{−z_i} + z_i − log y_i − 1) + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²), with
    z = Xx + c + offset. The first part is half the mean deviance; `l1_ratio=0` is the objective of
    scikit-learn's `GammaRegressor`.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    l1_ratio : float, default=1.0
        ρ, between 0 and 1.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GammaRegressor
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> GammaRegressor(alpha=1e-5).fit(X, [1.0, 2.0, 3.0, 6.0]).predict([[0.0], [1.0]]).round(1)
    array([2., 4.])
    """


@dataclass(eq=False, repr=False)
class GammaRegressorCV(GammaFamily, CrossValidated):
    """`GammaRegressor` with alpha by cross-validation; scores are minus half the deviance.

    Parameters
    ----------
    l1_ratio : float, default=1.0
        ρ, between 0 and 1; 0 needs `alphas`.
    positive : bool, default=False
        Whether coefficients must be >= 0.
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """
