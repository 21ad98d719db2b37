"""A penalty bound to p features and T outputs, as the engine and the kernels see it.

x is one flat vector, block after block. A scalar penalty has blocks of one coordinate; groups of
features and rows of T outputs are blocks of several; sorted l1 is one block of all columns.
Kernels of scalar penalties are compiled once for all shipped ones, and again for a user's own class
(`kernels/penalties.py`).
"""

from __future__ import annotations

import abc
import math
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import columns, group
from cyclade.linear.kernels.penalties import SHIPPED, compiled_for, numbers_of
from cyclade.linear.kernels.sorted_l1 import dual_norm, pool, sorted_residuals
from cyclade.linear.penalties import BlockPenalty, Slope, formulas

Array = NDArray[Any]
NONE = np.empty(0, np.int64)


class Candidates(NamedTuple):
    """Blocks for a working set, by number, each with a rank: the larger, the sooner."""

    support: Array
    violating: Array
    violation: Array
    close: Array  # zeros that are close to violating
    pull: Array
    together: int = 0


class BoundPenalty(abc.ABC):
    """r(x) for a flat x. `cols` are numbers of blocks: for scalar penalties, coordinates."""

    penalty: Any  # the one that was bound
    convex: bool
    is_scalar: ClassVar[bool] = False  # whether blocks are single coordinates
    is_sorted: ClassVar[bool] = False  # whether it is sorted l1
    is_norm: bool = False  # whether r is a weighted l1 norm
    shipped: bool = True  # whether kernels know it without compiling
    parameters: Any = (formulas.L1, np.zeros((1, 1)))  # what kernels of scalar penalties read
    functions: dict[str, Any] = SHIPPED
    zero_threshold: Array  # scalar: the largest |g| at which a zero stays zero; −1 where unknown
    has_dual: bool  # whether r* can be evaluated, and is finite around zero
    scale: float  # the largest finite |g| (of a block, its norm) that keeps a zero; 0 if none
    blocks: int  # how many
    size: float = 1.0  # columns of a block, on average
    order: Array | None = None  # features, block after block; None where x is in their order
    T: int = 1  # entries of x per feature

    @property
    def unpenalised(self) -> Array:
        """By blocks, whether r does nothing but bound them."""
        return np.zeros(self.blocks, np.bool_)

    @abc.abstractmethod
    def at(self, penalty: Any) -> BoundPenalty:
        """Another penalty of the same kind, as along a path."""

    @abc.abstractmethod
    def total(self, cols: Array, x: Array) -> float:
        """r on the blocks `cols`. x: scalar and sorted l1, its entries there; else all of it."""

    @abc.abstractmethod
    def distances(self, cols: Array, x: Array, g: Array) -> Array:
        """dist(−g, ∂r(x)) for each of the blocks `cols`; x and g as for `total`."""

    def derivatives(self, cols: Array, x: Array) -> tuple[Array, Array]:
        """r_j' and r_j'' where x_j ≠ 0, for scalar penalties."""
        raise TypeError(f"{type(self).__name__} has no derivatives by coordinates")

    @abc.abstractmethod
    def check(self, x: Array, g: Array) -> tuple[Array, float, float, bool]:
        """dist(−g, ∂r(x)) by blocks, the largest of them, r(x), and whether g is finite."""

    @abc.abstractmethod
    def excess(self, g: Array) -> float:
        """The largest τ with −g/τ not inside the domain of r*: how often too large g is."""

    def conjugate(self, g: Array, factor: float) -> float:
        """r*(−factor · g), where that is finite: zero for a norm."""
        return 0.0

    @abc.abstractmethod
    def candidates(
        self, x: Array, g: Array, distances: Array, near: float, before: BoundPenalty | None
    ) -> Candidates:
        """What the next working set is chosen from.

        A zero is close to violating if it would with a g larger by 1/near, or (strong rule) if its
        g grew by as much as λ fell since the penalty `before`, on a path.
        """

    def project(self, x: Array) -> None:  # noqa: B027
        """Move x, in place, into the domain of r, if that is not everything."""

    def features(self, cols: Array) -> Array:
        """The features in these blocks, in order."""
        return cols

    def by_blocks(self, x: Array) -> Array:
        """A (p,) or (p, T) array by features as one flat vector, block after block."""
        return np.ascontiguousarray(x if self.order is None else x[self.order]).reshape(-1)

    def by_features(self, x: Array) -> Array:
        """The reverse; (p,) where there is one output."""
        if self.T > 1:
            x = x.reshape(-1, self.T)
        if self.order is None:
            return x
        out = np.empty_like(x)
        out[self.order] = x
        return out


class BoundScalar(BoundPenalty):
    """r(x) = Σ_j r_j(x_j)."""

    is_scalar = True

    def __init__(self, penalty: Any, p: int) -> None:
        self.shipped = hasattr(penalty, "kind")
        if self.shipped:
            self.parameters = (penalty.kind, penalty.parameters(p))
        else:
            self.functions, self.parameters = compiled_for(penalty), numbers_of(penalty)
        self.penalty, self.convex, self.blocks = penalty, bool(penalty.convex), p
        self.is_norm = self.shipped and bool(self.parameters[0] == formulas.L1)
        self.zero_threshold = np.full(p, -1.0)
        if "thresholds" in self.functions:
            self.functions["thresholds"](self.parameters, self.zero_threshold)

    @cached_property
    def scale(self) -> float:  # type: ignore[override]
        return float(self.zero_threshold[np.isfinite(self.zero_threshold)].max(initial=0.0))

    @property
    def unpenalised(self) -> Array:
        if not (self.shipped and self.convex):
            return np.zeros(self.blocks, np.bool_)
        free = ~self.parameters[1][:, :2].any(axis=1)  # of an l1 norm, λ is all there is
        return np.asarray(np.broadcast_to(free, self.blocks))

    def at(self, penalty: Any) -> BoundScalar:
        return BoundScalar(penalty, self.blocks)

    def total(self, cols: Array, x: Array) -> float:
        return float(self.functions["total"](self.parameters, cols, x))

    def distances(self, cols: Array, x: Array, g: Array) -> Array:
        out = np.empty(cols.size)
        self.functions["distances"](self.parameters, cols, x, g, self.zero_threshold, out)
        return out

    def check(self, x: Array, g: Array) -> tuple[Array, float, float, bool]:
        """Of all coordinates. Shipped penalties are zero at zero: their support gives r(x)."""
        out = np.empty(x.size)
        found = self.functions["check"](
            self.parameters, x, g, self.zero_threshold, not self.shipped, out
        )
        return out, *found

    def derivatives(self, cols: Array, x: Array) -> tuple[Array, Array]:
        """r_j' and r_j'' where x_j ≠ 0; r'' = inf marks a kink, such as an active bound.

        r' is read off the distance of 0 from ∂r_j, which shipped penalties, growing in |x|, allow;
        r'' is a difference of it and need not be precise: it only shapes a Newton matrix.
        """
        zero, h = np.zeros(x.size), 1e-6 * np.abs(x)
        first = np.copysign(self.distances(cols, x, zero), x)
        ahead = np.copysign(self.distances(cols, x + h, zero), x)
        behind = np.copysign(self.distances(cols, x - h, zero), x)
        with np.errstate(invalid="ignore"):
            second = (ahead - behind) / (2.0 * h)
        flat = (ahead == 0) & (behind == 0)  # a lone zero borders on a kink
        return first, np.where(np.isfinite(second) & (flat | (behind != 0)), second, np.inf)

    def project(self, x: Array) -> None:
        """Move x, in place, into the domain of r; zero is known to be in it unless −1."""
        if x.any() or float(self.zero_threshold.min()) < 0:
            self.functions["project"](self.parameters, x)

    @cached_property
    def has_dual(self) -> bool:  # type: ignore[override]
        inside = self.shipped and self.convex
        return inside and all(float(limit.min()) > 0 for limit in self.dual_limits)

    @cached_property
    def dual_limits(self) -> tuple[Array, Array]:
        """How far v_j may go below and above zero with r_j*(v_j) finite."""
        if self.is_norm:
            return self.zero_threshold, self.zero_threshold
        kind, table = self.parameters
        down = up = np.broadcast_to(table[:, 0], self.blocks)
        if kind == formulas.BOXED:
            curved = table[:, 1] > 0
            down = np.where(curved | np.isfinite(table[:, 2]), math.inf, down)
            up = np.where(curved | np.isfinite(table[:, 3]), math.inf, up)
        return down, up

    def excess(self, g: Array) -> float:
        """The largest |g_j| over its limit."""
        down, up = self.dual_limits
        return float(columns.excess(g, up, down))  # of −g, so the limits change places

    def conjugate(self, g: Array, factor: float) -> float:
        """Σ_j r_j*(−factor · g_j)."""
        return float(self.functions["conjugates"](self.parameters, g, -factor))

    def candidates(
        self, x: Array, g: Array, distances: Array, near: float, before: BoundPenalty | None
    ) -> Candidates:
        """By distance, and by the part of the threshold that |g_j| comes to."""
        limits = self.zero_threshold
        support, violate = np.flatnonzero(x), (distances > 0.0) & (x == 0.0)
        violating = np.flatnonzero(violate)
        rest = np.flatnonzero((limits > 0.0) & (x == 0.0) & ~violate)
        close = rest[np.abs(g[rest]) > near * limits[rest]]
        pull = np.abs(g[close]) / limits[close]
        return Candidates(support, violating, distances[violating], close, pull)


class BoundBlocks(BoundPenalty):
    """Blocks of several entries: block k is x[starts[k]:starts[k + 1]], all of it, everywhere."""

    starts: Array
    table: Array  # λ_k, γ_k, the lowest entry, ν_k, the kind of h_k: see `kernels.group.Blocks`
    entrywise: ClassVar[bool]  # whether r falls apart into entries
    rotated: bool  # whether kernels may work in the eigenbasis of a block's Hessian

    def _count(self, starts: Array) -> None:
        self.starts, self.blocks = starts, starts.size - 1
        self.numbers, self.size = np.arange(self.blocks), starts[-1] / self.T / self.blocks
        self.zero_threshold = NONE

    def occupied(self, x: Array) -> Array:
        """Which blocks are not zero."""
        return np.asarray(np.logical_or.reduceat(x.reshape(-1) != 0, self.starts[:-1]))

    def check(self, x: Array, g: Array) -> tuple[Array, float, float, bool]:
        far = self.distances(self.numbers, x, g)
        finite = bool(np.isfinite(far).all())
        return far, float(far.max(initial=0.0)), self.total(self.numbers, x), finite

    def candidates(
        self, x: Array, g: Array, distances: Array, near: float, before: BoundPenalty | None
    ) -> Candidates:
        """By distance."""
        inside = self.occupied(x)
        violating = np.flatnonzero(~inside & (distances > 0))
        return Candidates(
            np.flatnonzero(inside), violating, distances[violating], NONE, np.empty(0)
        )

    def features(self, cols: Array) -> Array:
        inside = np.zeros(self.blocks, bool)
        inside[cols] = True
        chosen = np.repeat(inside, np.diff(self.starts) // self.T)
        return np.flatnonzero(chosen) if self.order is None else np.sort(self.order[chosen])


class BoundGroups(BoundBlocks):
    """h_k(‖x_k‖_2) + ν_k‖x_k‖_1 on groups of features, or on rows of T entries."""

    entrywise = False

    def __init__(self, penalty: BlockPenalty, p: int, T: int = 1) -> None:
        self.convex, self.T, self.p = penalty.convex, T, p
        self.columns, starts = penalty.partition(p)  # features, block after block
        self.order = None if bool((self.columns == np.arange(p)).all()) else self.columns
        self._count(T * starts.astype(np.int64))
        self._tabulate(penalty)

    def _tabulate(self, penalty: BlockPenalty) -> None:
        self.penalty = penalty
        self.table = np.ascontiguousarray(penalty.parameters(self.p))
        self.rotated = not self.table[:, 3].any() and bool(np.isneginf(self.table[:, 2]).all())
        levels = self.table[:, 0] + self.table[:, 3]
        self.has_dual = self.convex and bool(levels.min() > 0)
        self.scale = float(levels.max())

    @property
    def unpenalised(self) -> Array:
        return np.asarray(~self.table[:, [0, 3]].any(axis=1))

    def at(self, penalty: BlockPenalty) -> BoundGroups:
        other = copy(self)
        other._tabulate(penalty)
        return other

    def project(self, x: Array) -> None:
        if self.penalty.positive:
            np.maximum(x, 0.0, out=x)

    def total(self, cols: Array, x: Array) -> float:
        return float(group.total(x, self.starts, self.table, cols))

    def distances(self, cols: Array, x: Array, g: Array) -> Array:
        """In the Euclidean norm."""
        out = np.empty(cols.size)
        group.distances(x, g, self.starts, self.table, cols, out)
        return out

    def excess(self, g: Array) -> float:
        """The dual norm: r is linear in λ, so this is λ_max(g)/λ."""
        if self.rotated:
            size, lam = np.sqrt(np.add.reduceat(g * g, self.starts[:-1])), self.table[:, 0]
            return float((size[lam > 0] / lam[lam > 0]).max(initial=0.0))
        return float(self.penalty.lam_max(self.by_features(g)) / self.penalty.lam)


class BoundEntries(BoundBlocks):
    """A scalar penalty on every entry of a (p, T) matrix; a block is a row."""

    entrywise = True
    rotated = True

    def __init__(self, penalty: Any, p: int, T: int) -> None:
        if not hasattr(penalty, "kind"):
            raise TypeError(
                f"penalty: {type(penalty).__name__} cannot be used with several classes; "
                "use Rows or a shipped penalty on single coefficients"
            )
        self.scalar = BoundScalar(penalty, p)  # on one output
        self.penalty, self.convex, self.T = penalty, self.scalar.convex, T
        self.parameters, self.scale = self.scalar.parameters, self.scalar.scale
        self.has_dual, self.columns = self.scalar.has_dual, np.arange(p)
        self.table = np.zeros((p, 5))
        self._count(T * np.arange(p + 1))

    @property
    def unpenalised(self) -> Array:
        return self.scalar.unpenalised

    def at(self, penalty: Any) -> BoundEntries:
        return BoundEntries(penalty, self.blocks, self.T)

    def total(self, cols: Array, x: Array) -> float:
        """Σ_jt r_j(x_jt) over the rows j."""
        return self.scalar.total(np.repeat(cols, self.T), x.reshape(-1, self.T)[cols].reshape(-1))

    def distances(self, cols: Array, x: Array, g: Array) -> Array:
        """The largest of an entry, for each of the rows."""
        own, entries = (v.reshape(-1, self.T)[cols].reshape(-1) for v in (x, g))
        far = self.scalar.distances(np.repeat(cols, self.T), own, entries)
        return np.asarray(far.reshape(-1, self.T).max(axis=1, initial=0.0))

    def excess(self, g: Array) -> float:
        """The largest over the outputs."""
        return max(self.scalar.excess(part) for part in self._outputs(g))

    def conjugate(self, g: Array, factor: float) -> float:
        """The sum over the outputs."""
        return sum(self.scalar.conjugate(part, factor) for part in self._outputs(g))

    def _outputs(self, g: Array) -> Array:
        return np.ascontiguousarray(g.reshape(-1, self.T).T)


class BoundSorted(BoundPenalty):
    """Σ_k λ_k |x|_(k) with λ_1 ≥ λ_2 ≥ … ≥ λ_p."""

    is_sorted = True

    def __init__(self, penalty: Slope, p: int) -> None:
        self.penalty, self.convex, self.blocks = penalty, True, p
        self.lam = penalty.sequence(p)
        self.scale = float(self.lam[0])
        self.has_dual, self.zero_threshold = self.scale > 0, NONE

    def at(self, penalty: Slope) -> BoundSorted:
        return BoundSorted(penalty, self.blocks)

    def total(self, cols: Array, x: Array) -> float:
        """Σ_k λ_k |x|_(k); coordinates other than `cols` are zero and come last."""
        return float(self.lam[: x.size] @ np.sort(np.abs(x))[::-1])

    def check(self, x: Array, g: Array) -> tuple[Array, float, float, bool]:
        """By coordinates: the entries of −g less its projection onto ∂r(x)."""
        if not np.isfinite(g).all():
            return g, np.inf, np.inf, False
        far, support = self.distances(NONE, x, g), np.flatnonzero(x)
        return far, float(far.max()), self.total(support, x[support]), True

    def distances(self, cols: Array, x: Array, g: Array) -> Array:
        """The same for some, where all other coordinates are zero and come last."""
        order, residuals = sorted_residuals(x, g, self.lam[: x.size])
        far = np.empty(x.size)
        far[order] = np.abs(residuals)
        return far

    def excess(self, g: Array) -> float:
        """The dual norm."""
        return dual_norm(g, self.lam)

    def candidates(
        self, x: Array, g: Array, distances: Array, near: float, before: BoundPenalty | None
    ) -> Candidates:
        """By |g|. With |g| sorted, zeros move in pools where |g| exceeds λ on average.

        The first pool must come in as a whole: part of it may be pulled less than its share of λ.
        """
        support, zeros = np.flatnonzero(x), np.flatnonzero(x == 0)
        if not zeros.size:
            return Candidates(support, NONE, np.empty(0), NONE, np.empty(0))
        zeros = zeros[np.argsort(-np.abs(g[zeros]), kind="stable")]
        pull, tail = np.abs(g[zeros]), self.lam[support.size :]
        fit = np.empty(zeros.size)
        pool(pull - tail, fit)
        first = int(np.searchsorted(-fit, -fit[0], side="right")) if fit[0] > 0 else 0
        moving = int(np.count_nonzero(fit > 0))
        grown = pull / near
        if isinstance(before, BoundSorted):
            grown = pull + (before.lam[support.size :] - tail)
        pool(grown - tail, fit)
        nearly = max(int(np.count_nonzero(fit > 0)), moving)
        return Candidates(
            support, zeros[:moving], pull[:moving], zeros[moving:nearly], pull[moving:nearly], first
        )


def bind(penalty: Any, p: int, outputs: int | None = None) -> BoundPenalty:
    """The penalty for p features; `outputs`, if not None, is the number of columns of z."""
    if isinstance(penalty, BlockPenalty):
        return BoundGroups(penalty, p, outputs or 1)
    if outputs is not None:
        return BoundEntries(penalty, p, outputs)
    return BoundSorted(penalty, p) if isinstance(penalty, Slope) else BoundScalar(penalty, p)
