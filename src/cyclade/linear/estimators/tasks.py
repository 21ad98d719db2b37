"""Regression and classification over `LinearModel`, and the estimators with one alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from cyclade.linear.estimators.base import LinearModel, is_block
from cyclade.linear.estimators.checks import check_number, check_offset, numbers
from cyclade.linear.estimators.values import Problem
from cyclade.linear.losses import Loss
from cyclade.linear.losses.base import Array


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Targets are numbers. With several outputs and a penalty on coordinates, fits are separate."""

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """The mean of y given X: the inverse link of Xx + c + offset."""
        return np.asarray(self._inverse_link(self._linear(X, offset)))

    def _inverse_link(self, z: Array) -> Array:
        return z

    def _encode(
        self, y: Array, sample_weight: Array | None, dtype: Any
    ) -> tuple[Array, Array | None]:
        return numbers("y", y, dtype), sample_weight

    def _separate(self, y: Array, loss: Loss, penalty: Any) -> list[Array]:
        if y.ndim == 1 or is_block(penalty):
            return [y]
        return [np.ascontiguousarray(column) for column in y.T]

    def _shape(self, coefs: list[Array], intercepts: list[Any]) -> tuple[Array, Any]:
        if len(coefs) > 1:
            return np.stack(coefs), np.array(intercepts)
        coef, intercept = coefs[0], intercepts[0]
        if self._one_column:
            return coef[None, :], np.array([intercept])
        return (coef, float(intercept)) if coef.ndim == 1 else (coef.T, np.asarray(intercept))

    def _problem(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Problem:
        problem = super()._problem(X, y, sample_weight, offset)
        # y of shape (n, 1) gives predictions of that shape, though the fit is that of a vector
        self._one_column = problem.y.ndim == 2 and problem.targets[0].ndim == 1
        return problem

    def __sklearn_tags__(self) -> Any:
        """Several outputs are fine."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _has_probabilities(model: Any) -> bool:
    return bool(model._probable())


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """Targets are labels. Losses of ±1 see more than two classes one against the rest."""

    class_weight: Any = None

    def decision_function(self, X: Any, *, offset: Any = None) -> Array:
        """Xx + c + offset: (n,) with two classes, else one column per class."""
        z = self._linear(X, None)
        z = z[:, 0] if z.shape[1] == 1 else z
        offset = check_offset(offset, z.shape, z.dtype)
        return np.asarray(z if offset is None else z + offset)

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """The likeliest class."""
        z = self.decision_function(X, offset=offset)
        codes = (z > 0).astype(np.intp) if z.ndim == 1 else z.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, offset: Any = None) -> Array:
        """Probabilities of the classes, in the order of `classes_`."""
        z = self.decision_function(X, offset=offset)
        p = self.loss_.mean(z)
        if p.ndim == 1:
            return np.stack([1.0 - p, p], axis=1)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _probable(self) -> bool:
        """Whether the loss knows probabilities."""
        return False

    def _encode(
        self, y: Array, sample_weight: Array | None, dtype: Any
    ) -> tuple[Array, Array | None]:
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
            per_row = per_class[codes].astype(dtype)
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


@dataclass(eq=False, repr=False)
class Single(LinearModel):
    """One alpha."""

    alpha: float = 1.0

    def _choose_and_solve(self, problem: Problem) -> list[Any]:
        return self._solve(problem, check_number("alpha", self.alpha))
