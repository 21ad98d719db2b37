"""What passes between an estimator and the solver: a checked problem, and what is kept of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade.linear.losses import Loss
from cyclade.linear.losses.base import Array


@dataclass(frozen=True)
class Problem:
    """Data that passed all checks. Each of the `targets` is a separate fit over the same X."""

    X: Any
    y: Array  # as given, for scorers
    targets: list[Array]
    sample_weight: Array | None
    offset: Array | None
    loss: Loss
    penalty: Any  # at some λ; `at` sets it

    def at(self, alpha: float | None) -> Any:
        """The penalty at λ = alpha."""
        return self.penalty if alpha is None else self.penalty.scaled(alpha)

    def part(self, rows: Array) -> Problem:
        """The same on some of the rows."""
        return Problem(
            self.X[rows],
            self.y[rows],
            [target[rows] for target in self.targets],
            None if self.sample_weight is None else self.sample_weight[rows],
            None if self.offset is None else self.offset[rows],
            self.loss,
            self.penalty,
        )

    def offset_of(self, k: int) -> Array | None:
        """The offset of fit k, in the shape of its predictions."""
        if self.offset is None or self.offset.ndim == 1 or len(self.targets) == 1:
            return self.offset
        return self.offset[:, k]


@dataclass(frozen=True)
class Fit:
    """What is kept of a solution."""

    coef: Array
    intercept: Any
    objective: float
    certificate: Any
    passes: int

    @staticmethod
    def on(path: Any, k: int) -> Fit:
        """The k-th solution of a path, with all the passes that led there."""
        return Fit(
            np.ascontiguousarray(path.coefs[..., k]),
            path.intercepts[..., k],
            float(path.objectives[k]),
            path.certificates[k],
            int(path.passes[: k + 1].sum()),
        )
