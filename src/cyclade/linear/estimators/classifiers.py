"""Sparse linear classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.tasks import Classifier, Single
from cyclade.linear.losses import Logistic, Loss, Multinomial, SquaredHinge
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import L1, ElasticNet, Rows


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticFamily(Classifier):
    """Two classes: l1 or elastic net. More: the multinomial loss, with rows of coefficients."""

    l1_ratio: float = 1.0

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return Logistic() if len(self.classes_) == 2 else Multinomial()

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        if self.l1_ratio == 1.0:
            return L1(1.0) if len(self.classes_) == 2 else Rows(1.0)
        penalty = ElasticNet(1.0, self.l1_ratio)
        if len(self.classes_) > 2:
            raise ValueError(
                f"l1_ratio must be 1 with more than two classes, got {self.l1_ratio!r}"
            )
        return penalty

    def _probable(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class SparseLogisticRegression(LogisticFamily, Single):
    """Logistic regression with an l1 penalty; with more than two classes, multinomial.

    With two classes F = (1/Σs_i) Σ s_i log(1 + e^{−y_i z_i}) + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²),
    y = ±1; alpha is 1/(nC) for the C of scikit-learn's `LogisticRegression`. With more,
    F = (1/Σs_i) Σ s_i (log Σ_k e^{z_ik} − z_{i y_i}) + alpha Σ_j ‖x_j‖_2 over the rows of x: a
    feature is kept for all classes or for none.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    l1_ratio : float, default=1.0
        ρ, between 0 and 1; must be 1 with more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; they multiply `sample_weight`.
    {common}

    Attributes
    ----------
    classes_ : array
        The labels.
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cyclade.linear import SparseLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SparseLogisticRegression(alpha=0.01).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    """


@dataclass(eq=False, repr=False)
class SparseLogisticRegressionCV(LogisticFamily, CrossValidated):
    """`SparseLogisticRegression` with alpha by cross-validation on stratified folds.

    Scores are minus the mean loss; `scoring="accuracy"` counts hits instead.

    Parameters
    ----------
    l1_ratio : float, default=1.0
        ρ, between 0 and 1; must be 1 with more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; they multiply `sample_weight`.
    {choice}
    {common}

    Attributes
    ----------
    classes_ : array
        The labels.
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class SVCFamily(Classifier):
    """The squared hinge, one class against the rest."""

    l1_ratio: float = 1.0

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return SquaredHinge()

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return L1(1.0) if self.l1_ratio == 1.0 else ElasticNet(1.0, self.l1_ratio)


@dataclass(eq=False, repr=False)
class SparseSVC(SVCFamily, Single):
    """A linear support vector classifier with the squared hinge loss and an l1 penalty.

    F = (1/Σs_i) Σ s_i (1 − y_i z_i)₊² + alpha (ρ ‖x‖_1 + ½ (1 − ρ) ‖x‖²), y = ±1; more than two
    classes are fitted one against the rest. alpha is 1/(nC) for the C of scikit-learn's
    `LinearSVC`, whose intercept however is penalised.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    l1_ratio : float, default=1.0
        ρ, between 0 and 1.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; they multiply `sample_weight`.
    {common}

    Attributes
    ----------
    classes_ : array
        The labels.
    {fitted}

    Examples
    --------
    >>> from cyclade.linear import SparseSVC
    >>> SparseSVC(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[2.5]])
    array([1])
    """


@dataclass(eq=False, repr=False)
class SparseSVCCV(SVCFamily, CrossValidated):
    """`SparseSVC` with alpha by cross-validation on stratified folds.

    Parameters
    ----------
    l1_ratio : float, default=1.0
        ρ, between 0 and 1.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; they multiply `sample_weight`.
    {choice}
    {common}

    Attributes
    ----------
    classes_ : array
        The labels.
    {chosen}
    {fitted}
    """
