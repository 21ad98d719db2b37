"""Penalties that join coordinates: groups, rows of a matrix, and the sorted l1 norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cyclade._checks import above, fraction, require
from cyclade.linear.checks import between, named
from cyclade.linear.penalties import formulas
from cyclade.linear.penalties.scalar import BY_NAME, Array, AtLam, nonnegative_vector
from cyclade.regularisers._index_lists import index_lists, require_cover
from cyclade.regularisers.elementwise import l1_residual, soft_threshold

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "BlockPenalty", "GroupL2", "GroupMCP", "GroupSCAD", "OverlappingGroups", "Rows", "Slope",
    "SparseGroup",
]  # fmt: skip


def norm_table(
    lam: Array, nu: Array | float = 0.0, kind: int = formulas.L1, gamma: float = 1.0,
    positive: bool = False,
) -> Array:  # fmt: skip
    """What the kernels read, a row for every block: λ_k, γ, the lowest entry, ν_k, the kind."""
    table = np.empty((lam.size, 5))
    table[:, 0], table[:, 3] = lam, nu
    table[:, [1, 2, 4]] = gamma, 0.0 if positive else -np.inf, kind
    return table


class BlockPenalty(AtLam):
    """λ Σ_k ((1 − ρ) w_k ‖x_{G_k}‖_2 + ρ ‖x_{G_k}‖_1) on disjoint groups of coordinates, or rows.

    `value`, `prox` and `distance` act on the block with number k. ρ is `l1_ratio`. The norm may be
    under a formula of scalar penalties, `norm_kind` with its γ, and with `positive` entries are
    ≥ 0. `groups` and `weights` are those of `GroupL2`.
    """

    convex: ClassVar[bool] = True
    joins_outputs: ClassVar[bool] = True
    norm_kind: ClassVar[int] = formulas.L1
    gamma: float = 1.0
    l1_ratio: float = 0.0
    factors: Array | None = None  # of λ, by blocks

    def __init__(
        self, lam: float = 1.0, groups: Any = 1, weights: Sequence[float] | Array | None = None,
        positive: bool = False,
    ) -> None:  # fmt: skip
        owner = type(self).__name__
        self._set_lam(lam)
        self.positive = bool(positive)
        self._named = has_names(groups)
        self.groups: Any
        if self._named:
            self.groups = [list(group) for group in groups]
        elif isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
            if groups < 1:
                raise ValueError(f"{owner}: groups given as a size must be >= 1, got {groups}")
            self.groups = int(groups)
        else:
            wanted = "a group size or a list of index lists"
            self.groups = index_lists(owner, groups, wanted, "feature")
        self.weights = None if weights is None else nonnegative_vector(owner, "weights", weights)
        if not isinstance(self.groups, int):
            self._check_weights(len(self.groups))
        self._found: dict[int, tuple[Array, Array]] = {}

    def partition(self, p: int) -> tuple[Array, Array]:
        """The blocks of p coordinates: `order, starts`; block k is order[starts[k]:starts[k+1]].

        They are found once, for this and every other λ. It raises ValueError if the groups do not
        partition 0, …, p − 1.
        """
        if p in self._found:
            return self._found[p]
        groups, owner = self.groups, type(self).__name__
        self._require_numbers()
        if not isinstance(groups, int):
            order = np.concatenate(groups)
            require_cover(owner, order, p, "feature", "features")
            starts = np.cumsum([0] + [len(group) for group in groups])
        elif p % groups == 0:
            order, starts = np.arange(p), np.arange(0, p + 1, groups)
        else:
            many = f"groups of {groups} do not divide the {p} features"
            raise ValueError(f"{owner}: {many}; give lists of indices")
        self._found[p] = order, starts
        return self._found[p]

    def blocks(self, p: int) -> list[Array]:
        """The blocks of p coordinates, one after another."""
        order, starts = self.partition(p)
        return np.split(order, starts[1:-1])

    def numbered(self, names: Any) -> Self:
        """The same with names of features turned into their numbers."""
        if not self._named or names is None:
            return self
        other, groups = copy(self), named(self.groups, names)
        other.groups, other._named = index_lists(type(self).__name__, groups, "names"), False
        return other

    def group_weights(self, p: int) -> Array:
        """w_k for the groups of p features."""
        sizes = np.diff(self.partition(p)[1])
        self._check_weights(sizes.size)
        return np.sqrt(sizes.astype(np.float64)) if self.weights is None else self.weights

    def weighted(self, weights: Array) -> Self:
        """The same with λ w_k for λ in block k, beside the weights that it has."""
        other = copy(self)
        other.factors = weights if self.factors is None else weights * self.factors
        return other

    def parameters(self, p: int) -> Array:
        """The table the kernels read: the factors of the two norms, a row for every block."""
        lam = self.lam if self.factors is None else self.lam * self.factors
        l2 = (1.0 - self.l1_ratio) * lam * self.group_weights(p)
        return norm_table(l2, self.l1_ratio * lam, self.norm_kind, self.gamma, self.positive)

    def _in_norm(self, k: int) -> tuple[formulas.Parameters, float]:
        """The formula in the norm of block k, and the factor of ‖x‖_1."""
        lam = self.lam if self.factors is None else self.lam * float(self.factors[k])
        if self.weights is not None:
            weight = float(self.weights[k])
        else:
            weight = math.sqrt(self.groups if isinstance(self.groups, int) else len(self.groups[k]))
        l2 = lam * (1.0 - self.l1_ratio) * weight
        return (self.norm_kind, np.array([[l2, self.gamma, 0.0]])), lam * self.l1_ratio

    def value(self, x: Array, k: int) -> float:
        """h_k(‖x‖_2) + λρ ‖x‖_1; h_k(‖x‖) is λ (1 − ρ) w_k ‖x‖ unless a subclass bends it."""
        x = np.asarray(x)
        if self.positive and (x < 0).any():
            return math.inf
        h, l1 = self._in_norm(k)
        return formulas.value(h, float(np.linalg.norm(x)), 0) + l1 * float(np.abs(x).sum())

    def prox(self, u: Array, t: float, k: int) -> Array:
        """Soft thresholding of the entries, which are clipped if `positive`; then of the norm."""
        h, l1 = self._in_norm(k)
        v = soft_threshold(np.asarray(u), l1 * t)
        v = np.maximum(v, 0.0) if self.positive else v
        norm = float(np.linalg.norm(v))
        return v if norm == 0.0 else v * (formulas.prox(h, norm, t, 0) / norm)

    def distance(self, x: Array, g: Array, k: int) -> float:
        """The distance from −g to ∂r_k(x)."""
        x, g = np.asarray(x), np.asarray(g)
        if self.positive and (x < 0).any():
            return math.inf
        h, l1 = self._in_norm(k)
        norm = float(np.linalg.norm(x))
        # The derivative of h_k is its distance from a gradient of zero.
        along = g if norm == 0.0 else g + (formulas.distance(h, norm, 0.0, 0) / norm) * x
        rest = l1_residual(x, along, l1)
        if self.positive:
            rest = np.where(x == 0.0, np.maximum(-along - l1, 0.0), rest)
        size = float(np.linalg.norm(rest))
        return size if norm > 0.0 else max(size - formulas.threshold(h, 0), 0.0)

    def total(self, x: Array) -> float:
        """r(x), summed over the blocks."""
        x = np.asarray(x)
        return float(sum(self.value(x[at], k) for k, at in enumerate(self.blocks(len(x)))))

    def lam_max(self, g0: Array) -> float:
        """The largest root over the penalised groups of ‖soft(g0_{G_k}, λρ)‖ = λ (1 − ρ) w_k.

        The left side is convex and decreasing in λ, so Newton from λ = 0 climbs to the root; for
        ρ = 0 the first step is there.
        """
        g0 = np.asarray(g0, dtype=np.float64)
        order, starts = self.partition(len(g0))
        weights = (1.0 - self.l1_ratio) * self.group_weights(len(g0))
        g0, starts = g0[order].reshape(-1), starts * (g0.size // len(g0))  # all outputs of a group
        sizes, size = np.diff(starts), np.maximum(-g0, 0.0) if self.positive else np.abs(g0)
        pulled = (np.maximum.reduceat(size, starts[:-1]) > 0) & (
            (weights > 0) | (self.l1_ratio > 0)
        )
        lam = np.zeros(len(sizes))
        for _ in range(100):
            excess = np.maximum(size - self.l1_ratio * np.repeat(lam, sizes), 0.0)
            norm = np.sqrt(np.add.reduceat(excess**2, starts[:-1]))
            moving = pulled & (norm > lam * weights * (1.0 + 4e-16))
            safe = np.where(norm > 0, norm, 1.0)
            drop = self.l1_ratio * np.add.reduceat(excess, starts[:-1]) / safe + weights
            step = np.where(moving, (norm - lam * weights) / np.where(moving, drop, 1.0), 0.0)
            if np.all(step <= 1e-16 * lam):
                break
            lam = lam + step
        if self.factors is None:
            return float(lam.max())
        some = self.factors > 0  # the others are not penalised
        return float((lam[some] / self.factors[some]).max(initial=0.0))

    def _check_weights(self, count: int) -> None:
        if self.weights is not None and len(self.weights) != count:
            raise ValueError(
                f"{type(self).__name__}: weights must have one entry for each of the {count} "
                f"groups, got {len(self.weights)}"
            )

    def _require_numbers(self) -> None:
        if self._named:
            raise ValueError(
                f"{type(self).__name__}: groups hold names; X must be a dataframe that has them "
                '(in a pipeline, call its .set_output(transform="pandas"))'
            )

    def _shown(self) -> list[str]:
        groups = self.groups if isinstance(self.groups, int) else f"<{len(self.groups)} lists>"
        return [f"groups={groups}", *["positive=True"] * self.positive]


def has_names(groups: Any) -> bool:
    """Whether lists of features hold a name."""
    if isinstance(groups, str) or not np.iterable(groups):
        return False
    lists = (group for group in groups if np.iterable(group) and not isinstance(group, str))
    return any(isinstance(name, str) for group in lists for name in group)


class GroupL2(BlockPenalty):
    """The group lasso, r(x) = λ Σ_k w_k ‖x_{G_k}‖_2.

    `groups` is a list of lists of feature numbers that partition the features, or a number s for
    consecutive groups of s. Names of features are for estimators, which know those of X. `weights`
    defaults to the square roots of the group sizes. With `positive`, x ≥ 0.

    Examples
    --------
    >>> penalty = GroupL2(1.0, groups=[[0, 2], [1]], weights=[5.0, 1.0])
    >>> penalty.prox([6.0, 8.0], 1.0, 0)
    array([3., 4.])
    >>> penalty.total([3.0, -1.0, 4.0])
    26.0
    """


class SparseGroup(BlockPenalty):
    """The sparse group lasso, r(x) = λ Σ_k ((1 − ρ) w_k ‖x_{G_k}‖_2 + ρ ‖x_{G_k}‖_1).

    ρ is `l1_ratio`: 0 gives the group lasso and 1 the lasso.

    Examples
    --------
    >>> SparseGroup(2.0, 0.5, groups=2, weights=[1.0]).prox([4.0, -0.5], 1.0, 0)
    array([2., 0.])
    """

    def __init__(
        self, lam: float = 1.0, l1_ratio: float = 0.5, groups: Any = 1,
        weights: Sequence[float] | Array | None = None, positive: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(lam, groups, weights, positive)
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
        super().__init__(lam)

    def _shown(self) -> list[str]:
        return []


class ConcaveGroups(BlockPenalty):
    """Σ_k h(‖x_{G_k}‖_2; λ w_k, γ) with h concave; the other arguments are those of `GroupL2`."""

    convex: ClassVar[bool] = False
    least: ClassVar[float]  # γ is above it

    def __init__(
        self, lam: float = 1.0, gamma: float = 3.0, groups: Any = 1,
        weights: Sequence[float] | Array | None = None, positive: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(lam, groups, weights, positive)
        self.gamma = above(f"{type(self).__name__}: gamma", gamma, self.least)

    def straighter(self, times: float) -> Self:
        """The same with γ so many times as large: less nonconvex."""
        other = copy(self)
        other.gamma = times * self.gamma
        return other

    def _shown(self) -> list[str]:
        return [f"gamma={self.gamma:g}", *super()._shown()]


class GroupMCP(ConcaveGroups):
    """The minimax concave penalty of the norms of groups.

    r(x) = Σ_k h(‖x_{G_k}‖_2), where h(u) = λ_k u − u²/(2γ) up to u = γ λ_k and constant beyond,
    with λ_k = λ w_k. γ > 1; large values approach the group lasso.

    Examples
    --------
    >>> penalty = GroupMCP(1.0, gamma=2.0, groups=2, weights=[1.0])
    >>> penalty.prox([0.9, 1.2], 1.0, 0)  # of norm 1.5
    array([0.6, 0.8])
    >>> penalty.prox([6.0, 8.0], 1.0, 0)
    array([6., 8.])
    """

    norm_kind = formulas.MCP
    least = 1.0


class GroupSCAD(ConcaveGroups):
    """The smoothly clipped absolute deviation of the norms of groups.

    r(x) = Σ_k h(‖x_{G_k}‖_2), where h has the slope λ_k up to λ_k, 0 beyond γ λ_k, and falls on a
    line in between, with λ_k = λ w_k. γ > 2; large values approach the group lasso.

    Examples
    --------
    >>> GroupSCAD(1.0, groups=2, weights=[1.0]).prox([6.0, 8.0], 1.0, 0)
    array([6., 8.])
    """

    norm_kind = formulas.SCAD
    least = 2.0

    def __init__(
        self, lam: float = 1.0, gamma: float = 3.7, groups: Any = 1,
        weights: Sequence[float] | Array | None = None, positive: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(lam, gamma, groups, weights, positive)


class OverlappingGroups(BlockPenalty):
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
        self._require_numbers()
        columns = self.columns
        if columns.min() < 0 or columns.max() >= p:
            raise ValueError(f"groups: feature {columns.max()} is out of range for {p} features")
        lost = np.setdiff1d(np.arange(p), columns)
        if lost.size:
            raise ValueError(f"groups: feature {lost[0]} is in none of the groups")
        return columns


class Slope(AtLam):
    """The sorted l1 norm, r(x) = λ Σ_k w_k |x|_(k) with |x|_(1) ≥ |x|_(2) ≥ … and w_1 ≥ w_2 ≥ ….

    Coefficients of nearly equal effect are drawn together to exactly equal size (clusters), and
    with the weights of Benjamini and Hochberg selection controls the rate of false discoveries
    under orthogonal designs. Equal weights give the lasso.

    Parameters
    ----------
    lam : float
        λ ≥ 0.
    weights : {"bh", "oscar"} or decreasing sequence of p numbers ≥ 0, default="bh"
        "bh" is w_k = Φ⁻¹(1 − kq/2p) / Φ⁻¹(1 − q/2p), Φ the normal distribution function; "oscar"
        falls along a line, w_k = (p − k + 1)/p. None is "bh".
    q : float
        Of "bh": the rate, strictly between 0 and 1.

    Examples
    --------
    >>> penalty = Slope(1.0, weights=[3.0, 2.0, 1.0])
    >>> penalty.value([1.0, -4.0, 0.0])
    14.0
    >>> penalty.prox([6.0, -5.5, 0.5], 1.0)
    array([ 3.25, -3.25,  0.  ])
    >>> Slope(0.5, q=0.2).sequence(3).round(3)
    array([0.5  , 0.409, 0.349])
    """

    convex = True

    def __init__(
        self, lam: float, weights: str | Sequence[float] | Array | None = None, q: float = 0.1
    ) -> None:
        self._set_lam(lam)
        self.q = between("Slope: q", q)
        self.weights: str | Array = "bh" if weights is None else weights
        if isinstance(self.weights, str):
            known = "'bh', 'oscar' or a decreasing list of numbers"
            require(self.weights in ("bh", "oscar"), "Slope: weights", weights, known)
        else:
            self.weights = nonnegative_vector("Slope", "weights", weights)
            rises = np.flatnonzero(np.diff(self.weights) > 0)
            if rises.size:
                k = int(rises[0])
                raise ValueError(
                    f"Slope: weights must not increase, but entry {k + 1} is "
                    f"{self.weights[k + 1]:g} after {self.weights[k]:g}"
                )
            if not self.weights[0] > 0:
                raise ValueError("Slope: the first of the weights must be > 0")
        self._found: dict[int, Array] = {}

    def shape(self, p: int) -> Array:
        """w_1, …, w_p; ValueError if weights were given for another number of coordinates."""
        if not isinstance(self.weights, str):
            if self.weights.size != p:
                raise ValueError(
                    f"Slope: weights must have one entry for each of the {p} columns of X, "
                    f"got {self.weights.size}"
                )
            return self.weights
        if p not in self._found:
            k = np.arange(1, p + 1)
            if self.weights == "oscar":
                w = p - k + 1.0
            else:
                from scipy.special import ndtri

                w = -ndtri(k * (self.q / (2 * p)))
            self._found[p] = w / w[0]
        return self._found[p]

    def sequence(self, p: int) -> Array:
        """λ w_1, …, λ w_p."""
        return np.asarray(self.lam * self.shape(p))

    def value(self, x: Array) -> float:
        """λ Σ_k w_k |x|_(k)."""
        x = np.asarray(x, np.float64)
        return float(self.sequence(x.size) @ np.sort(np.abs(x))[::-1])

    total = value

    def prox(self, u: Array, t: float) -> Array:
        """The minimiser over v of r(v) + ‖v − u‖² / (2t): exact, by pooling adjacent violators."""
        from cyclade.linear.kernels.sorted_l1 import prox

        u = np.asarray(u, np.float64)
        return prox(u, t * self.sequence(u.size))

    def distances(self, x: Array, g: Array) -> Array:
        """The entries of −g − P(−g), where P projects onto ∂r(x); in the order of x.

        ∂r(x) is a product over clusters of equal |x|, each in its own part of the sequence.
        """
        from cyclade.linear.kernels.sorted_l1 import residuals

        x = np.asarray(x, np.float64)
        return residuals(x, np.asarray(g, np.float64), self.sequence(x.size))

    def distance(self, x: Array, g: Array) -> float:
        """The distance from −g to ∂r(x) in the Euclidean norm."""
        return float(np.linalg.norm(self.distances(x, g)))

    def dual_norm(self, v: Array) -> float:
        """max_k Σ_{i≤k} |v|_(i) / Σ_{i≤k} λ w_i: at most 1 just where r*(v) = 0."""
        from cyclade.linear.kernels.sorted_l1 import dual_norm

        return dual_norm(np.asarray(v, np.float64), self.sequence(np.size(v)))

    def conjugate(self, v: Array) -> float:
        """r*(v): zero in the unit ball of the dual norm, else infinite."""
        return 0.0 if self.dual_norm(v) <= 1.0 else np.inf

    def lam_max(self, g0: Array) -> float:
        """The dual norm of g0 at λ = 1; the largest over columns where g0 has several."""
        from cyclade.linear.kernels.sorted_l1 import dual_norm

        g0 = np.asarray(g0, np.float64)
        columns = g0.reshape(g0.shape[0], -1).T
        return max(dual_norm(column, self.shape(g0.shape[0])) for column in columns)

    def _shown(self) -> list[str]:
        if not isinstance(self.weights, str):
            return [f"weights=<{self.weights.size}>"]
        rate = [f"q={self.q:g}"] if self.weights == "bh" else []
        return [f"weights={self.weights!r}", *rate]


BY_NAME.update({
    "group_l2": GroupL2, "sparse_group": SparseGroup, "rows": Rows, "group_mcp": GroupMCP,
    "group_scad": GroupSCAD, "overlapping_groups": OverlappingGroups, "slope": Slope,
})  # fmt: skip
