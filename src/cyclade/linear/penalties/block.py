"""Penalties on groups of coordinates and on the rows of a coefficient matrix."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cyclade.linear.penalties.scalar import BY_NAME, Array, AtLam, fraction, nonnegative_vector
from cyclade.regularisers._index_lists import index_lists, require_cover
from cyclade.regularisers.elementwise import l1_residual, soft_threshold
from cyclade.regularisers.groups import shrink

__all__ = ["BlockPenalty", "GroupL2", "Rows", "SparseGroup"]

Groups = int | Sequence[Sequence[int]]


class BlockPenalty(AtLam):
    """λ Σ_k ((1 − ρ) w_k ‖x_{G_k}‖_2 + ρ ‖x_{G_k}‖_1) on disjoint groups of coordinates, or rows.

    `value`, `prox` and `distance` act on the block with number k. ρ is `l1_ratio`, and the weights
    w_k are 1 unless a subclass says otherwise.
    """

    convex: ClassVar[bool] = True
    joins_outputs: ClassVar[bool] = True
    l1_ratio: float = 0.0

    @abc.abstractmethod
    def partition(self, p: int) -> tuple[Array, Array]:
        """The blocks of p coordinates: `order, starts`; block k is order[starts[k]:starts[k+1]].

        It raises ValueError if the groups do not partition 0, …, p − 1.
        """

    def group_weights(self, p: int) -> Array:
        """w_k for the blocks of p features."""
        return np.ones(p)

    def _weight(self, k: int) -> float:
        return 1.0

    def _levels(self, k: int) -> tuple[float, float]:
        """The factors of the two norms on block k."""
        return self.lam * (1.0 - self.l1_ratio) * self._weight(k), self.lam * self.l1_ratio

    def parameters(self, p: int) -> Array:
        """The table the kernels read: the factors of the two norms, a row for every block."""
        weights = self.group_weights(p)
        l1 = np.full_like(weights, self.lam * self.l1_ratio)
        return np.stack([self.lam * (1.0 - self.l1_ratio) * weights, l1], axis=1)

    def value(self, x: Array, k: int) -> float:
        """λ ((1 − ρ) w_k ‖x‖_2 + ρ ‖x‖_1)."""
        x = np.asarray(x)
        l2, l1 = self._levels(k)
        return l2 * float(np.linalg.norm(x)) + l1 * float(np.abs(x).sum())

    def prox(self, u: Array, t: float, k: int) -> Array:
        """Soft thresholding of the entries, then of the norm."""
        l2, l1 = self._levels(k)
        return shrink(soft_threshold(np.asarray(u), l1 * t), l2 * t)

    def distance(self, x: Array, g: Array, k: int) -> float:
        """The distance from −g to ∂r_k(x)."""
        x, g = np.asarray(x), np.asarray(g)
        l2, l1 = self._levels(k)
        norm = float(np.linalg.norm(x))
        if norm > 0.0:
            return float(np.linalg.norm(l1_residual(x, g + (l2 / norm) * x, l1)))
        return max(float(np.linalg.norm(soft_threshold(g, l1))) - l2, 0.0)

    def total(self, x: Array) -> float:
        """r(x), summed over the blocks."""
        x = np.asarray(x)
        order, starts = self.partition(len(x))
        blocks = np.split(x[order], starts[1:-1])
        return float(sum(self.value(block, k) for k, block in enumerate(blocks)))


class GroupL2(BlockPenalty):
    """The group lasso, r(x) = λ Σ_k w_k ‖x_{G_k}‖_2.

    `groups` is a list of lists of feature numbers that partition the features, or a number s for
    consecutive groups of s. `weights` defaults to the square roots of the group sizes.

    Examples
    --------
    >>> penalty = GroupL2(1.0, groups=[[0, 2], [1]], weights=[5.0, 1.0])
    >>> penalty.prox([6.0, 8.0], 1.0, 0)
    array([3., 4.])
    >>> penalty.total([3.0, -1.0, 4.0])
    26.0
    """

    def __init__(
        self, lam: float, groups: Groups, weights: Sequence[float] | Array | None = None
    ) -> None:
        owner = type(self).__name__
        self._set_lam(lam)
        self.groups = size_or_lists(owner, groups)
        self.weights = None if weights is None else nonnegative_vector(owner, "weights", weights)
        if self.weights is not None and not isinstance(self.groups, int):
            self._check_weights(len(self.groups))
        self._found: dict[int, tuple[Array, Array]] = {}

    def partition(self, p: int) -> tuple[Array, Array]:
        """The groups of p features: `order, starts`. Found once, for this and every other λ."""
        if p not in self._found:
            self._found[p] = partition(type(self).__name__, self.groups, p)
        return self._found[p]

    def group_weights(self, p: int) -> Array:
        """w_k for the groups of p features."""
        _, starts = self.partition(p)
        if self.weights is None:
            return np.sqrt(np.diff(starts).astype(np.float64))
        self._check_weights(len(starts) - 1)
        return self.weights

    def lam_max(self, g0: Array) -> float:
        """The largest root over the penalised groups of ‖soft(g0_{G_k}, λρ)‖ = λ (1 − ρ) w_k.

        The left side is convex and decreasing in λ, so Newton from λ = 0 climbs to the root; for
        ρ = 0 the first step is there.
        """
        g0 = np.asarray(g0, dtype=np.float64)
        order, starts = self.partition(len(g0))
        sizes, weights = np.diff(starts), (1.0 - self.l1_ratio) * self.group_weights(len(g0))
        size = np.abs(g0[order])
        pulled = (np.maximum.reduceat(size, starts[:-1]) > 0) & (
            (weights > 0) | (self.l1_ratio > 0)
        )
        lam = np.zeros(len(sizes))
        for _ in range(100):
            excess = np.maximum(size - self.l1_ratio * np.repeat(lam, sizes), 0.0)
            norm = np.sqrt(np.add.reduceat(excess**2, starts[:-1]))
            moving = pulled & (norm > lam * weights * (1.0 + 4e-16))
            if not moving.any():
                break
            safe = np.where(norm > 0, norm, 1.0)
            drop = self.l1_ratio * np.add.reduceat(excess, starts[:-1]) / safe + weights
            step = np.where(moving, (norm - lam * weights) / np.where(moving, drop, 1.0), 0.0)
            if np.all(step <= 1e-16 * lam):
                break
            lam = lam + step
        return float(lam.max())

    def _weight(self, k: int) -> float:
        if self.weights is not None:
            return float(self.weights[k])
        return math.sqrt(self.groups if isinstance(self.groups, int) else len(self.groups[k]))

    def _check_weights(self, count: int) -> None:
        assert self.weights is not None
        if len(self.weights) != count:
            raise ValueError(
                f"{type(self).__name__}: weights must have one entry for each of the {count} "
                f"groups, got {len(self.weights)}"
            )

    def _shown(self) -> list[str]:
        groups = self.groups if isinstance(self.groups, int) else f"<{len(self.groups)} lists>"
        return [f"groups={groups}"]


class SparseGroup(GroupL2):
    """The sparse group lasso, r(x) = λ Σ_k ((1 − ρ) w_k ‖x_{G_k}‖_2 + ρ ‖x_{G_k}‖_1).

    ρ is `l1_ratio`: 0 gives the group lasso and 1 the lasso.

    Examples
    --------
    >>> SparseGroup(2.0, 0.5, groups=2, weights=[1.0]).prox([4.0, -0.5], 1.0, 0)
    array([2., 0.])
    """

    def __init__(
        self,
        lam: float,
        l1_ratio: float,
        groups: Groups,
        weights: Sequence[float] | Array | None = None,
    ) -> None:
        super().__init__(lam, groups, weights)
        self.l1_ratio = fraction("SparseGroup: l1_ratio", l1_ratio)

    def _shown(self) -> list[str]:
        return [*super()._shown(), f"l1_ratio={self.l1_ratio:g}"]


class Rows(BlockPenalty):
    """The multi-task penalty, r(x) = λ Σ_j ‖x_j‖_2 over the rows of a (p, T) matrix.

    Examples
    --------
    >>> Rows(5.0).prox([6.0, 8.0], 1.0, 0)
    array([3., 4.])
    """

    def __init__(self, lam: float) -> None:
        self._set_lam(lam)

    def partition(self, p: int) -> tuple[Array, Array]:
        """Every row is a block."""
        return np.arange(p), np.arange(p + 1)

    def total(self, x: Array) -> float:
        """λ times the sum of the row norms."""
        return self.lam * float(_row_norms(x).sum())

    def lam_max(self, g0: Array) -> float:
        """The largest row norm of g0."""
        return float(_row_norms(g0).max())


def _row_norms(x: Array) -> Array:
    return np.linalg.norm(np.asarray(x).reshape(len(x), -1), axis=1)


def size_or_lists(owner: str, groups: Any) -> int | list[Array]:
    """`groups` as a size or a list of int64 vectors; ValueError if they can fit no X at all."""
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        if groups < 1:
            raise ValueError(f"{owner}: groups given as a size must be >= 1, got {groups}")
        return int(groups)
    return index_lists(owner, groups, "a group size or a list of index lists", "feature")


def partition(owner: str, groups: int | list[Array], p: int) -> tuple[Array, Array]:
    """The groups of p features as `order, starts`; ValueError if they do not partition them."""
    if isinstance(groups, int):
        if p % groups:
            raise ValueError(
                f"{owner}: groups of {groups} do not divide the {p} features; give lists of indices"
            )
        return np.arange(p), np.arange(0, p + 1, groups)
    order = np.concatenate(groups)
    require_cover(owner, order, p, "feature", "features")
    return order, np.cumsum([0] + [len(group) for group in groups])


BY_NAME.update({"group_l2": GroupL2, "sparse_group": SparseGroup, "rows": Rows})
