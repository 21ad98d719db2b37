"""Any loss with any penalty, the user's own included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclade.linear import losses
from cyclade.linear.estimators.base import LinearModel, is_block
from cyclade.linear.estimators.checks import check_number
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.penalised import any_penalty
from cyclade.linear.estimators.tasks import Classifier, Regressor
from cyclade.linear.estimators.values import Problem
from cyclade.linear.losses import Loss
from cyclade.linear.losses.base import Array

PAIR = """loss : str or Loss
        φ: a name of `cyclade.linear.losses`, or an object, which may be of your own writing.
    penalty : str or penalty, default="l1"
        r: a name of `cyclade.linear.penalties`, or an object, which may be of your own writing."""


@dataclass(eq=False, repr=False)
class Pair(LinearModel):
    """A loss and a penalty."""

    loss: Any = "squared"
    penalty: Any = "l1"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill in what the docstrings share."""
        super().__init_subclass__(**kwargs)
        cls.__doc__ = (cls.__doc__ or "").replace("{pair}", PAIR)

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return any_penalty(self.penalty)


@dataclass(eq=False, repr=False)
class SinglePair(Pair):
    """One alpha, or the penalty as it is."""

    alpha: float | None = None

    def _choose_and_solve(self, problem: Problem) -> list[Any]:
        if self.alpha is None:
            return self._solve(problem, None)
        if not hasattr(problem.penalty, "scaled"):
            name = type(problem.penalty).__name__
            raise ValueError(f"alpha must be None: {name} lacks scaled(lam) and has its own λ")
        return self._solve(problem, check_number("alpha", self.alpha))


@dataclass(eq=False, repr=False)
class PairRegressor(Regressor, Pair):
    """A loss of numbers."""

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        loss = losses.get(self.loss)
        if loss.target != "real":
            raise ValueError(f"loss: {loss!r} is for labels; use GeneralizedLinearClassifier")
        return loss

    def _inverse_link(self, z: Array) -> Array:
        return losses.get(self.loss).mean(z)

    def __sklearn_tags__(self) -> Any:
        """What y may be depends on the loss."""
        tags = super().__sklearn_tags__()
        positive = (losses.Poisson, losses.Gamma)
        if self.loss in ("poisson", "gamma") or isinstance(self.loss, positive):
            tags.target_tags.positive_only = True
            tags.target_tags.multi_output = False
        return tags


@dataclass(eq=False, repr=False)
class GeneralizedLinear(PairRegressor, SinglePair):
    """Regression with any loss and any penalty.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset.

    Parameters
    ----------
    {pair}
    alpha : float, default=None
        λ > 0, for penalties with `scaled`. None leaves the penalty as it is; one given by name
        then has λ = 1.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GeneralizedLinear
    >>> from cyclade.linear.losses import Huber
    >>> from cyclade.linear.penalties import Box
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> GeneralizedLinear(Huber(1.0), Box(0.0, 0.5)).fit(X, [0.0, 1.0, 2.0]).coef_
    array([0.5, 0. ])
    """


@dataclass(eq=False, repr=False)
class GeneralizedLinearCV(PairRegressor, CrossValidated):
    """`GeneralizedLinear` with alpha by cross-validation; the penalty needs `scaled(lam)`.

    Parameters
    ----------
    {pair}
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False)
class PairClassifier(Classifier, Pair):
    """A loss of labels."""

    loss: Any = "logistic"

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        loss = losses.get(self.loss)
        if loss.target == "real":
            raise ValueError(
                f"loss: {loss!r} is for numbers; a classifier needs target = 'signs' or 'classes'"
            )
        penalty = any_penalty(self.penalty)
        if loss.target == "classes" and not (is_block(penalty) or hasattr(penalty, "kind")):
            raise ValueError(
                f"penalty must be 'rows' or another shipped one with {loss!r}, got {self.penalty!r}"
            )
        return loss

    def _probable(self) -> bool:
        try:
            loss = losses.get(self.loss)
        except ValueError:  # fit will say so
            return False
        return type(loss).mean is not Loss.mean or "mean" in vars(loss)


@dataclass(eq=False, repr=False)
class GeneralizedLinearClassifier(PairClassifier, SinglePair):
    """Classification with any loss of labels and any penalty.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset. Losses whose `target` is "signs" see
    labels −1 and 1 (more than two classes one against the rest), those with "classes" see codes
    0, …, T − 1 and T predictions at once.

    Parameters
    ----------
    {pair}
    alpha : float, default=None
        λ > 0, for penalties with `scaled`. None leaves the penalty as it is; one given by name
        then has λ = 1.
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
    >>> from cyclade.linear import GeneralizedLinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GeneralizedLinearClassifier("logistic", "mcp", alpha=0.02).fit(X, y == 2)
    >>> round(model.score(X, y == 2), 2)
    0.96
    """


@dataclass(eq=False, repr=False)
class GeneralizedLinearClassifierCV(PairClassifier, CrossValidated):
    """`GeneralizedLinearClassifier` with alpha by cross-validation on stratified folds.

    Parameters
    ----------
    {pair}
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
