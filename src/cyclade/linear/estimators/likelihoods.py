"""Classes, counts and positive amounts: losses that are likelihoods, and the squared hinge."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from cyclade.linear import penalties
from cyclade.linear.checks import check_weights, numbers
from cyclade.linear.estimators.base import Regressor, Single
from cyclade.linear.estimators.classifier import Classifier
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.least_squares import L1Ratio, Positive
from cyclade.linear.losses import Array, Gamma, Logistic, Loss, Multinomial, Poisson, SquaredHinge


class SparseLogisticRegression(Classifier, Single):
    """Logistic regression with an l1 penalty; with more than two classes, multinomial.

    With two classes F = (1/Σs_i) Σ s_i log(1 + e^{−y_i z_i}) + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²),
    y = ±1; alpha is 1/(nC) for the C of scikit-learn's `LogisticRegression`. With more,
    F = (1/Σs_i) Σ s_i (log Σ_k e^{z_ik} − z_{i y_i}) + alpha Σ_j ‖x_j‖_2 over the rows of x: a
    feature is kept for all classes or for none. A number as `l1_ratio` gives the elastic net of all
    entries instead, as in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cyclade.linear import SparseLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SparseLogisticRegression(alpha=0.01).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    """

    l1_ratio: Annotated[
        Any,
        "float",
        "ρ, between 0 (ridge) and 1 (lasso), of the elastic net on all entries; the twin takes a "
        "list of them too. None is 1 with two classes, and with more it penalises rows of x.",
    ] = None

    positive: Positive = False

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return Logistic() if len(self.classes_) == 2 else Multinomial()

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        if len(self.classes_) > 2 and self.l1_ratio is None:
            if self.positive:
                raise ValueError(
                    "positive must be False for rows of more than two classes; l1_ratio=1.0 "
                    "penalises entries, which may be positive"
                )
            return penalties.Rows(1.0)
        ratio = 1.0 if self.l1_ratio is None else self.l1_ratio
        return penalties.ElasticNet(1.0, ratio, positive=self.positive)

    def _probable(self) -> bool:
        return True


class SparseLogisticRegressionCV(CrossValidated, SparseLogisticRegression):
    """`SparseLogisticRegression` with alpha, and `l1_ratio` of several, by cross-validation."""


class SparseSVC(Classifier, Single):
    """A linear support vector classifier with the squared hinge loss and an l1 penalty.

    F = (1/Σs_i) Σ s_i (1 − y_i z_i)₊² + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²), y = ±1; more than two
    classes are fitted one against the rest. alpha is 1/(nC) for the C of scikit-learn's
    `LinearSVC`, whose intercept however is penalised.

    Examples
    --------
    >>> from cyclade.linear import SparseSVC
    >>> SparseSVC(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[2.5]])
    array([1])
    """

    l1_ratio: L1Ratio = 1.0
    positive: Positive = False

    _phi = SquaredHinge()
    _form = penalties.ElasticNet


class SparseSVCCV(CrossValidated, SparseSVC):
    """`SparseSVC` with alpha, and `l1_ratio` of several, by stratified cross-validation."""


class LogLink(Regressor, Single):
    """Half the deviance, with the elastic net."""

    l1_ratio: L1Ratio = 1.0
    positive: Positive = False

    _form = penalties.ElasticNet
    _positive_only, _multi_output = True, False
    _targets = "rng.gamma(50.0, np.exp(X[:, 0]))"

    def _inverse_link(self, z: Array) -> Array:
        return self._phi.mean(z)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """D², the fraction of the deviance explained: 1 is best, 0 is the mean of y.

        Of a constant y, which leaves nothing to explain: 1 if it is predicted, else 0.
        """
        z, loss = self._linear(X, self._offset_for_score(offset)), self._phi
        y = numbers("y", y, np.float64).reshape(z.shape)
        loss.check(y)
        weights = check_weights(sample_weight, len(y), np.float64)
        null = np.full_like(z, np.log(np.average(y, weights=weights)))
        model, worst = (np.average(loss.value(y, at), weights=weights) for at in (z, null))
        rounding = 1e-14 * max(float(np.abs(y).max()), 1.0)
        if worst <= rounding:
            return float(model <= rounding)
        return float(1.0 - model / worst)


class PoissonRegressor(LogLink):
    """Regression of counts with a logarithmic link and the elastic net.

    F = (1/Σs_i) Σ s_i (e^{z_i} − y_i z_i + y_i log y_i − y_i)
        + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²), with z = Xx + c + offset. The first part is half the
    mean deviance; `l1_ratio=0` is the objective of scikit-learn's `PoissonRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import PoissonRegressor
    >>> X, hours = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([1.0, 1.0, 2.0, 2.0])
    >>> model = PoissonRegressor(alpha=1e-4).fit(X, [1, 4, 2, 8], offset=np.log(hours))
    >>> model.predict([[1.0]], offset=[0.0]).round(1)
    array([4.])
    """

    _phi = Poisson()
    _targets = "rng.poisson(np.exp(X[:, 0]))"


class PoissonRegressorCV(CrossValidated, PoissonRegressor):
    """`PoissonRegressor` with alpha, and `l1_ratio` of several, by cross-validation."""


class GammaRegressor(LogLink):
    """Regression of positive amounts with a logarithmic link and the elastic net.

    F = (1/Σs_i) Σ s_i (y_i e^{−z_i} + z_i − log y_i − 1) + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²), with
    z = Xx + c + offset. The first part is half the mean deviance; `l1_ratio=0` is the objective of
    scikit-learn's `GammaRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GammaRegressor
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> GammaRegressor(alpha=1e-5).fit(X, [1.0, 2.0, 3.0, 6.0]).predict([[0.0], [1.0]]).round(1)
    array([2., 4.])
    """

    _phi = Gamma()


class GammaRegressorCV(CrossValidated, GammaRegressor):
    """`GammaRegressor` with alpha, and `l1_ratio` of several, by cross-validation."""
