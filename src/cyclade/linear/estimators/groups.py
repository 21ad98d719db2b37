"""Least squares with penalties on groups of coefficients and on rows of several tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.estimators.lasso import LeastSquares
from cyclade.linear.estimators.tasks import Single
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import GroupL2, Rows, SparseGroup

GROUPS = """groups : int or list of lists of int, default=1
        The features of each group, every feature in exactly one, or the size of consecutive
        groups.
    group_weights : array of one number per group, default=None
        w_k >= 0; None takes the square roots of the group sizes."""


@dataclass(eq=False, repr=False, kw_only=True)
class Grouped(LeastSquares):
    """One output, features in groups."""

    groups: Any = 1
    group_weights: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill in what the docstrings share."""
        super().__init_subclass__(**kwargs)
        cls.__doc__ = (cls.__doc__ or "").replace("{groups}", GROUPS)

    def __sklearn_tags__(self) -> Any:
        """One output."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class GroupLassoFamily(Grouped):
    """r = alpha Σ_k w_k ‖x_{G_k}‖."""

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        penalty = GroupL2(1.0, self.groups, self.group_weights)
        penalty.parameters(X.shape[1])  # groups and weights must fit X
        return penalty


@dataclass(eq=False, repr=False)
class GroupLasso(GroupLassoFamily, Single):
    """Least squares that keeps or drops whole groups of features.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_k w_k ‖x_{G_k}‖_2

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    {groups}
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 6))
    >>> y = X[:, 2] - X[:, 3]
    >>> model = GroupLasso(alpha=0.2, groups=[[0, 1], [2, 3], [4, 5]]).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([2, 3])
    """


@dataclass(eq=False, repr=False)
class GroupLassoCV(GroupLassoFamily, CrossValidated):
    """`GroupLasso` with alpha by cross-validation.

    Parameters
    ----------
    {groups}
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class SparseGroupLassoFamily(Grouped):
    """r = alpha Σ_k ((1 − ρ) w_k ‖x_{G_k}‖ + ρ ‖x_{G_k}‖_1)."""

    l1_ratio: float = 0.5

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        penalty = SparseGroup(1.0, self.l1_ratio, self.groups, self.group_weights)
        penalty.parameters(X.shape[1])
        return penalty


@dataclass(eq=False, repr=False)
class SparseGroupLasso(SparseGroupLassoFamily, Single):
    """Least squares that drops whole groups, and features within groups.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² + alpha Σ_k ((1 − ρ) w_k ‖x_{G_k}‖_2 + ρ ‖x_{G_k}‖_1)

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    l1_ratio : float, default=0.5
        ρ, between 0 (group lasso) and 1 (lasso).
    {groups}
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import SparseGroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 6))
    >>> y = 2 * X[:, 2] + 0.1 * rng.standard_normal(50)
    >>> model = SparseGroupLasso(alpha=0.2, groups=2).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([2])
    """


@dataclass(eq=False, repr=False)
class SparseGroupLassoCV(SparseGroupLassoFamily, CrossValidated):
    """`SparseGroupLasso` with alpha by cross-validation, at one `l1_ratio`.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        ρ, between 0 (group lasso) and 1 (lasso).
    {groups}
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """


@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskFamily(LeastSquares):
    """r = alpha Σ_j ‖x_j‖ over the rows of x."""

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        if y.ndim != 2:
            raise ValueError(
                f"y must have shape (n_samples, n_tasks) for {type(self).__name__}, got {y.shape}; "
                "for one task use Lasso"
            )
        return Rows(1.0)

    def __sklearn_tags__(self) -> Any:
        """Several outputs only."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        return tags


@dataclass(eq=False, repr=False)
class MultiTaskLasso(MultiTaskFamily, Single):
    """Least squares for several targets that use the same features.

    F = (1/2Σs_i) Σ s_i ‖y_i − a_i·x − c‖² + alpha Σ_j ‖x_j‖_2 over the rows x_j of x (p, T), the
    objective of scikit-learn's `MultiTaskLasso`.

    Parameters
    ----------
    alpha : float, default=1.0
        λ, > 0.
    {common}

    Attributes
    ----------
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import MultiTaskLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 5))
    >>> Y = np.stack([X[:, 1], X[:, 1] - X[:, 4]], axis=1)
    >>> MultiTaskLasso(alpha=0.3).fit(X, Y).coef_.any(axis=0)
    array([False, True, False, False, True])
    """


@dataclass(eq=False, repr=False)
class MultiTaskLassoCV(MultiTaskFamily, CrossValidated):
    """`MultiTaskLasso` with alpha by cross-validation.

    Parameters
    ----------
    {choice}
    {common}

    Attributes
    ----------
    {chosen}
    {fitted}
    """
