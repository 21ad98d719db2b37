"""Any loss with any penalty, the user's own included."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

from cyclade.linear import losses, penalties
from cyclade.linear.checks import as_groups
from cyclade.linear.estimators.base import LinearModel, Regressor
from cyclade.linear.estimators.classifier import Classifier
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.losses import Array, Loss, LossLike, LossName

GROUPED = ("group_l2", "sparse_group", "group_mcp", "group_scad", "overlapping_groups")
LossText = Annotated[
    LossName | LossLike,
    "str or Loss",
    "φ: a name of `cyclade.linear.losses`, or an object, which may be of your own writing.",
]


GroupsText = Annotated[
    Any,
    "int, list of int, array of labels, list of lists or dict",
    "Of penalties on groups by name (" + ", ".join(f'"{name}"' for name in GROUPED) + "), as in "
    "`GroupLasso`.",
]


def named_penalty(model: Any, p: int, **options: Any) -> Any:
    """The penalty of an estimator at λ = 1: by name with its groups, or an object."""
    names, penalty = getattr(model, "feature_names_in_", None), model.penalty
    if isinstance(penalty, str):
        if penalty in GROUPED:
            options["groups"] = as_groups(model.groups, p, names)
        return penalties.get(penalty, 1.0, **options)
    penalty = penalties.get(penalty)
    return penalty.numbered(names) if hasattr(penalty, "numbered") else penalty


class Pair(LinearModel):
    """A loss and a penalty."""

    loss: LossText = field(default="squared", kw_only=False)
    penalty: Annotated[
        Any,
        "str or penalty",
        "r: a name of `cyclade.linear.penalties`, or an object, which may be of your own writing.",
    ] = field(default="l1", kw_only=False)
    alpha: Annotated[
        Any,
        "float",
        "λ, for penalties with `scaled`. None leaves a penalty object as it is; with one "
        "given by name it takes a tenth of the smallest λ at which all coefficients are zero. 0 "
        "leaves all coefficients unpenalised.",
    ] = field(default=None, kw_only=False)

    groups: GroupsText = 1

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return named_penalty(self, X.shape[1])


class GeneralizedLinear(Regressor, Pair):
    """Regression with any loss and any penalty.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset.

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

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        loss = losses.get(self.loss)
        if loss.target != "real":
            raise ValueError(f"loss: {loss!r} is for labels; use GeneralizedLinearClassifier")
        return loss

    def _inverse_link(self, z: Array) -> Array:
        return losses.get(self.loss).mean(z)


class GeneralizedLinearCV(CrossValidated, GeneralizedLinear):
    """`GeneralizedLinear` with alpha by cross-validation; the penalty needs `scaled(lam)`."""


class GeneralizedLinearClassifier(Classifier, Pair):
    """Classification with any loss of labels and any penalty.

    F = (1/Σs_i) Σ s_i φ(y_i, z_i) + r(x), z = Xx + c + offset. Losses whose `target` is "signs" see
    labels −1 and 1 (more than two classes one against the rest), those with "classes" see codes
    0, …, T − 1 and T predictions at once.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cyclade.linear import GeneralizedLinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GeneralizedLinearClassifier("logistic", "mcp", alpha=0.02).fit(X, y == 2)
    >>> round(model.score(X, y == 2), 2)
    0.96
    """

    loss: LossText = field(default="logistic", kw_only=False)

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        loss = losses.get(self.loss)
        if loss.target == "real":
            raise ValueError(
                f"loss: {loss!r} is for numbers; a classifier needs target = 'signs' or 'classes'"
            )
        own, blocks = self.penalty, isinstance(self.penalty, penalties.BlockPenalty)
        known = own != "slope" if isinstance(own, str) else blocks or hasattr(own, "kind")
        if loss.target == "classes" and not known:
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


class GeneralizedLinearClassifierCV(CrossValidated, GeneralizedLinearClassifier):
    """`GeneralizedLinearClassifier` with alpha by cross-validation on stratified folds."""
