"""What passes between an estimator and the solver: checked data, and what is kept of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cyclade.linear.losses import Loss
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import Box


@dataclass(frozen=True)
class Data:
    """Data that passed all checks. Each of the `targets` is a separate fit over the same X."""

    X: Any
    y: Array  # as given, for scorers
    targets: list[Array]
    sample_weight: Array | None
    offset: Array | None
    loss: Loss
    penalty: Any  # at some λ; `at` sets it
    groups: Array | None = None  # for splitters
    checkpoint: str | None = None  # where a path over these data keeps what is done
    gathered: Array | None = None  # weights on the client, for tables in chunks

    @property
    def weights(self) -> Array:
        """Sample weights, ones where none were given."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @property
    def client_weights(self) -> Array:
        """The same on the client, for data that lie in chunks."""
        return self.weights if self.gathered is None else self.gathered

    def at(self, alpha: float | None) -> Any:
        """The penalty at λ = alpha; at zero only the sign of coefficients can be constrained."""
        if alpha == 0.0 and not isinstance(self.penalty, Box):
            return Box(0.0 if getattr(self.penalty, "positive", False) else -np.inf, np.inf)
        return self.penalty if alpha is None else self.penalty.scaled(alpha)

    def part(self, rows: Array) -> Data:
        """The same on some of the rows."""
        return replace(
            self,
            X=rows_of(self.X, rows),
            y=self.y[rows],
            targets=[target[rows] for target in self.targets],
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
            offset=None if self.offset is None else self.offset[rows],
        )

    def offset_of(self, k: int) -> Array | None:
        """The offset of fit k, in the shape of its predictions."""
        if self.offset is None or self.offset.ndim == 1 or len(self.targets) == 1:
            return self.offset
        return self.offset[:, k]


def rows_of(X: Any, rows: Array) -> Any:
    """Some rows of X; dense columns that lie in a row still do so, and need no further copy."""
    by_columns = isinstance(X, np.ndarray) and X.flags.f_contiguous
    return X.T.take(rows, axis=1).T if by_columns else X[rows]


@dataclass(frozen=True)
class CoefficientPath:
    """Coefficients at many alphas.

    Attributes
    ----------
    alphas : array of shape (L,)
        Descending.
    coefs : array of shape (p, L), or (n_outputs, p, L)
        Coefficients.
    intercepts : array of shape (L,), or (n_outputs, L)
        Intercepts.
    certificates : list of L
        The certificate of each solution; of several separate fits, the worst.
    feature_names : array of p names, or None
        As the columns of X were called.
    """

    alphas: Array
    coefs: Array
    intercepts: Array
    certificates: list[Any]
    feature_names: Array | None = None

    @staticmethod
    def of(
        alphas: Array,
        results: list[Any],
        shape: Callable[[list[Array], list[Any]], tuple[Array, Any]],
        feature_names: Array | None = None,
    ) -> CoefficientPath:
        """Put the paths of separate fits together; `shape` makes coef_ and intercept_ of them."""
        points = [
            shape([r.coefs[..., k] for r in results], [r.intercepts[..., k] for r in results])
            for k in range(len(alphas))
        ]
        columns = zip(*(result.certificates for result in results), strict=True)
        return CoefficientPath(
            alphas,
            np.stack([coef for coef, _ in points], axis=-1),
            np.stack([np.asarray(intercept) for _, intercept in points], axis=-1),
            [worst(list(column)) for column in columns],
            feature_names,
        )

    @property
    def l1_norms(self) -> Array:
        """‖coef‖_1 at each alpha."""
        return np.asarray(abs(self.coefs).reshape(-1, len(self.alphas)).sum(axis=0))

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it; see `cyclade.linear.plots.plot_path`."""
        from cyclade.linear.plots import plot_path

        return plot_path(self, ax=ax, **options)


def worst(certificates: list[Any]) -> Any:
    """The certificate that is furthest from its tolerance."""
    return max(certificates, key=lambda c: c.value / c.tolerance if c.tolerance else c.value)
