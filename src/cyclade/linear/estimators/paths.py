"""Coefficients along alpha, and the alphas of a path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from cyclade._checks import require, whole_number
from cyclade.linear.api import lam_max
from cyclade.linear.checks import between, numbers
from cyclade.linear.losses.base import Array
from cyclade.linear.results import worst

if TYPE_CHECKING:
    from cyclade.linear.estimators.base import Data


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


def alpha_grid(model: Any, data: Data, alphas: Any, n_alphas: int, alpha_ratio: float) -> Array:
    """Descending alphas; one grid for all separate fits."""
    if not hasattr(data.penalty, "scaled"):
        name = type(data.penalty).__name__
        raise ValueError(f"penalty: {name} lacks scaled(lam), which a path needs")
    if isinstance(alphas, Integral):
        n_alphas, alphas = int(alphas), None
    if alphas is not None:
        given = numbers("alphas", alphas, np.float64)
        valid = given.ndim <= 1 and given.size > 0 and bool((given > 0).all())
        require(valid, "alphas", alphas, "one or more numbers > 0 in one list")
        return np.ascontiguousarray(np.unique(given)[::-1])
    count = whole_number("n_alphas", n_alphas, 1)
    between("alpha_ratio", alpha_ratio)
    return np.asarray(largest_alpha(model, data) * np.geomspace(1.0, alpha_ratio, count))


def largest_alpha(model: Any, data: Data, name: str = "alphas") -> float:
    """The smallest alpha at which all coefficients of all separate fits are zero."""
    if not hasattr(data.penalty, "lam_max"):
        penalty = type(data.penalty).__name__
        raise ValueError(f"{name} must be given: {penalty} lacks lam_max(g0)")
    weights, intercept = data.sample_weight, model.fit_intercept
    largest = max(
        lam_max(data.X, y, data.loss, data.penalty, weights, data.offset_of(k), intercept)
        for k, y in enumerate(data.targets)
    )
    if largest == np.inf:
        raise ValueError(f"{name} must be given: no alpha makes all coefficients zero")
    return largest or 1.0  # zero: all coefficients are zero at every alpha
