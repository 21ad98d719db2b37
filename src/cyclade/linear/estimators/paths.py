"""Solutions along alpha."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cyclade.linear.losses.base import Array


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
