"""Groups that share features, by copies of these: the latent group lasso."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cyclade._checks import require
from cyclade.linear.checks import named
from cyclade.linear.penalties.joined import GroupL2, has_names
from cyclade.linear.penalties.scalar import BY_NAME, Array

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["OverlappingGroups"]


class OverlappingGroups(GroupL2):
    """The latent group lasso: r(x) is the least λ Σ_k w_k ‖v^k‖_2 over v^k on G_k with Σ_k v^k = x.

    A feature may be in several groups. Those that are zero leave a union of groups, not what is
    outside of one. A column of X is copied for each group that it is in, and coefficients of copies
    are added up: `solve`, `path` and estimators do both. So X takes as much more memory.

    Parameters
    ----------
    lam : float
        λ ≥ 0.
    groups : list of lists of features
        By number, or by name for estimators. Every feature is in at least one.
    weights : sequence of float, optional
        w_k ≥ 0; by default the square roots of the sizes.
    positive : bool
        Whether v ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import solve
    >>> penalty = OverlappingGroups(0.1, [[0, 1], [1, 2], [2, 3]])
    >>> penalty.columns
    array([0, 1, 1, 2, 2, 3])
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> np.flatnonzero(solve(X, X[:, 0] + X[:, 1], "squared", penalty).coef)
    array([0, 1])
    """

    on_copies: ClassVar[bool] = True  # of columns of X

    def __init__(
        self, lam: float = 1.0, groups: Any = ((0,),),
        weights: Sequence[float] | Array | None = None, positive: bool = False,
    ) -> None:  # fmt: skip
        wanted = "a list of lists of features"
        lists = np.iterable(groups) and not isinstance(groups, str)
        require(lists and all(np.ndim(group) == 1 for group in groups), "groups", groups, wanted)
        self.features = [list(group) for group in groups]
        starts = np.cumsum([0, *map(len, self.features)])
        copies = [list(range(a, b)) for a, b in pairwise(starts)]
        super().__init__(lam, copies, weights, positive)
        self._named = has_names(self.features)

    @property
    def columns(self) -> Array:
        """The feature of each copy, group after group."""
        return np.concatenate([np.asarray(group, np.int64) for group in self.features])

    def partition(self, p: int) -> tuple[Array, Array]:
        """The copies, one after another, whatever p is."""
        return super().partition(sum(map(len, self.features)))

    def numbered(self, names: Any) -> Self:
        """The same with names of features turned into their numbers."""
        if not self._named or names is None:
            return self
        found = named(self.features, names)
        other = type(self)(self.lam, found, self.weights, self.positive)
        other.factors = self.factors
        return other

    def checked(self, p: int) -> Array:
        """`columns`; ValueError unless they are features of X, and all of these."""
        if self._named:
            raise ValueError(
                "groups: they hold names; X must be a dataframe that has them (in a pipeline, "
                'call its .set_output(transform="pandas"))'
            )
        columns = self.columns
        if columns.min() < 0 or columns.max() >= p:
            raise ValueError(f"groups: feature {columns.max()} is out of range for {p} features")
        lost = np.setdiff1d(np.arange(p), columns)
        if lost.size:
            raise ValueError(f"groups: feature {lost[0]} is in none of the groups")
        return columns


BY_NAME.update({"overlapping_groups": OverlappingGroups})
