"""The choice of λ from scores on held-out folds: the best one, or the one-standard-error rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cyclade.linear.losses.base import Array


@dataclass(frozen=True)
class Choice:
    """Scores of every λ on every fold, and what two rules make of them.

    Attributes
    ----------
    lams : array of shape (L,)
        Descending.
    scores : array of shape (L, K)
        On the K held-out folds; higher is better.
    weights : array of shape (K,)
        What the rows of each fold weigh.

    Examples
    --------
    >>> choice = Choice(np.array([2.0, 1.0]), np.array([[1.0, 2.0], [1.0, 3.0]]), np.ones(2))
    >>> choice.mean, choice.std
    (array([1.5, 2. ]), array([0.5, 1. ]))
    >>> choice.index("min"), choice.index("1se")
    (1, 0)
    """

    lams: Array
    scores: Array
    weights: Array

    @cached_property
    def mean(self) -> Array:
        """The mean score of every λ, folds weighted by their rows."""
        return np.asarray(np.average(self.scores, axis=1, weights=self.weights))

    @cached_property
    def std(self) -> Array:
        """The standard error of that mean, from how the folds differ."""
        squares = (self.scores - self.mean[:, None]) ** 2
        variance = np.average(squares, axis=1, weights=self.weights)
        return np.asarray(np.sqrt(variance / max(self.scores.shape[1] - 1, 1)))

    def index(self, rule: str) -> int:
        """Where the λ of that rule is: "min", the best mean, or "1se", the largest near it.

        Means that agree to seven digits count as equal, and the largest λ of the best is taken:
        fits are no more exact than that, and rounding would choose among them.
        """
        if np.isnan(self.mean).all():
            raise ValueError("scoring: every alpha has a fold whose score is NaN")
        largest = np.nanmax(self.mean)
        best = int(np.argmax(self.mean >= largest - 1e-7 * abs(largest)))
        if rule == "min":
            return best
        return int(np.argmax(self.mean >= self.mean[best] - self.std[best]))
