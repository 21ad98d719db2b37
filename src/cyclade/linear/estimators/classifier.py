"""Classification over `LinearModel`: labels, probabilities, weights of classes."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from cyclade.linear.estimators.base import Encoded, LinearModel
from cyclade.linear.estimators.declare import ClassifierMixin
from cyclade.linear.estimators.fitted import shifted
from cyclade.linear.losses import Array, Logistic, Loss


def _has_probabilities(model: Any) -> bool:
    return bool(model._probable())


class Classifier(ClassifierMixin, LinearModel):
    """Targets are labels. Losses of ±1 see more than two classes one against the rest."""

    class_weight: Annotated[
        Any,
        'dict, "balanced" or None',
        "Weights of the classes, as in scikit-learn; they multiply `sample_weight`.",
    ] = None

    classes_: Annotated[Array, "array", "The labels."] = field(init=False)

    _targets = 'np.where(X[:, 0] > 0, "yes", "no")'

    def decision_function(self, X: Any, *, offset: Any = None) -> Array:
        """Xx + c + offset: (n,) with two classes, else one column per class."""
        z = self._linear(X, None)
        return shifted(z[:, 0] if z.shape[1] == 1 else z, offset)

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """The likeliest class."""
        z = self.decision_function(X, offset=offset)
        codes = (z > 0).astype(np.intp) if z.ndim == 1 else z.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """The part of labels hit; `offset` is that of these rows, needed where the fit had one."""
        from sklearn.metrics import accuracy_score

        predicted = self.predict(X, offset=self._offset_for_score(offset))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, offset: Any = None) -> Array:
        """Probabilities of the classes, in the order of `classes_`."""
        z = self.decision_function(X, offset=offset)
        p = self.loss_.mean(z)
        if p.ndim == 1:
            return np.stack([1.0 - p, p], axis=1)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any, *, offset: Any = None) -> Array:
        """Logarithms of the probabilities of the classes; finite even where those round to zero."""
        z = self.decision_function(X, offset=offset)
        labels: Any = ()
        if self.loss_.softmax:
            labels = range(z.shape[1])
        elif z.ndim == 1 and isinstance(self.loss_, Logistic):
            labels = (-1.0, 1.0)
        if labels:  # these losses are minus the logarithm of the probability of y
            each = [self.loss_.value(np.full(len(z), label), z) for label in labels]
            return -np.stack(each, axis=1)
        with np.errstate(divide="ignore"):  # a probability may be rounded to zero
            return np.asarray(np.log(self.predict_proba(X, offset=offset)))

    def _probable(self) -> bool:
        """Whether the loss knows probabilities."""
        return False

    def _encode(self, y: Array, sample_weight: Array | None) -> Encoded:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        seen = codes if sample_weight is None else codes[sample_weight > 0]
        weighed = self.classes_[np.unique(seen)]
        if len(weighed) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes with rows of positive weight, "
                f"got {len(weighed)} class: {weighed.tolist()[0]!r}"
            )
        if len(weighed) < len(self.classes_):
            lost = np.setdiff1d(self.classes_, weighed).tolist()[0]
            raise ValueError(f"sample_weight: all rows of class {lost!r} have zero weight")
        if self.class_weight is not None:
            per_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            per_row = per_class[codes]
            sample_weight = per_row if sample_weight is None else per_row * sample_weight
        return codes, sample_weight

    def _separate(self, y: Array, loss: Loss, penalty: Any) -> list[Array]:
        self.loss_ = loss
        if loss.target == "classes":
            return [y]
        if len(self.classes_) == 2:
            return [2.0 * y - 1.0]
        return [np.where(y == k, 1.0, -1.0) for k in range(len(self.classes_))]

    def _shape(self, coefs: list[Array], intercepts: list[Any]) -> tuple[Array, Any]:
        if coefs[0].ndim == 1:
            return np.stack(coefs), np.array(intercepts, dtype=coefs[0].dtype)
        return coefs[0].T, np.asarray(intercepts[0])
