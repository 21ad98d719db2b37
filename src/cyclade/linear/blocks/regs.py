"""The two kinds of penalty on blocks, as the engine sees them: norms of blocks, and entries.

Both speak of the blocks of a flat vector x, block k being x[starts[k]:starts[k + 1]].
"""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks import measures
from cyclade.linear.kernels import columns
from cyclade.linear.penalties import BlockPenalty, formulas

Array = NDArray[Any]


class Reg(Protocol):
    """r, by blocks."""

    penalty: Any
    order: Array  # the features, block after block
    starts: Array
    blocks: Array  # their numbers
    convex: bool
    has_dual: bool

    def at(self, penalty: Any) -> Reg:
        """The same blocks with another penalty of the same kind, as along a path."""

    def total(self, x: Array, blocks: Array | None = None) -> float:
        """r(x), or the part of it on these blocks."""

    def distances(self, x: Array, g: Array, blocks: Array, unit: float = 1.0) -> Array:
        """The distance from −g to ∂r(x)/unit, for each of the blocks."""

    def dual_norm(self, g: Array) -> float:
        """The largest τ with g/τ in the domain of r* (where there is a dual)."""

    def scale(self) -> float:
        """λ: the slope that holds a block at zero, at its largest."""


class Norms:
    """λ_k‖x_k‖_2 + ν_k‖x_k‖_1 on groups of features, or on rows of T entries."""

    entrywise = False

    def __init__(self, penalty: BlockPenalty, p: int, T: int) -> None:
        self.penalty, self.convex = penalty, penalty.convex
        self.order, starts = penalty.partition(p)
        self.identity = bool((self.order == np.arange(p)).all())
        self.starts = T * starts.astype(np.int64)
        self.blocks = np.arange(starts.size - 1)
        self.parameters = (formulas.L1, np.zeros((1, 1)))  # unused: the rows have norms
        self._tabulate()

    def _tabulate(self) -> None:
        self.table = np.ascontiguousarray(self.penalty.parameters(self.order.size))
        self.rotated = not self.table[:, 1].any()
        levels = self.table[:, 0] + self.table[:, 1]
        self.has_dual = self.convex and bool(levels.min() > 0)
        self.top = float(levels.max())

    def at(self, penalty: BlockPenalty) -> Norms:
        """The same blocks under another λ."""
        other = copy(self)
        other.penalty = penalty
        other._tabulate()
        return other

    def total(self, x: Array, blocks: Array | None = None) -> float:
        """r(x), or the part of it on these blocks."""
        blocks = self.blocks if blocks is None else blocks
        return float(measures.total(x, self.starts, self.table, blocks))

    def distances(self, x: Array, g: Array, blocks: Array, unit: float = 1.0) -> Array:
        """The distance from −g to ∂r(x)/unit, for each of the blocks."""
        out = np.empty(blocks.size)
        table = self.table if unit == 1.0 else self.table / unit
        measures.distances(x, g, self.starts, table, blocks, out)
        return out

    def dual_norm(self, g: Array) -> float:
        """r is linear in λ, so this is λ_max(g)/λ; g is in the order of the features."""
        if self.rotated:
            blocks = np.ascontiguousarray(g if self.identity else g[self.order])
            return float(measures.largest_norm(blocks.reshape(-1), self.starts, self.table))
        return self.penalty.lam_max(g) / self.penalty.lam

    def scale(self) -> float:
        """The largest λ_k + ν_k."""
        return self.top


class Entries:
    """A scalar penalty on every entry of a (p, T) matrix; a block is a row."""

    entrywise = True
    rotated = True

    def __init__(self, penalty: Any, p: int, T: int) -> None:
        self.penalty, self.convex, self.T = penalty, bool(penalty.convex), T
        self.order, self.identity = np.arange(p), True
        self.starts = T * np.arange(p + 1)
        self.blocks = np.arange(p)
        self.parameters = (penalty.kind, penalty.parameters(p))
        table = self.parameters[1]
        self.table = np.zeros((p, 2))
        self.has_dual = self.convex and penalty.kind == formulas.L1 and bool((table > 0).all())

    def at(self, penalty: Any) -> Entries:
        """The same rows under another λ."""
        return Entries(penalty, self.order.size, self.T)

    def total(self, x: Array, blocks: Array | None = None) -> float:
        """r(x), or the part of it on these rows."""
        blocks = self.blocks if blocks is None else blocks
        return float(measures.entry_total(self.parameters, x.reshape(-1, self.T), blocks))

    def distances(self, x: Array, g: Array, blocks: Array, unit: float = 1.0) -> Array:
        """The largest distance of an entry, for each of the rows."""
        assert unit == 1.0
        out = np.empty(blocks.size)
        shape = (-1, self.T)
        measures.entry_distances(self.parameters, x.reshape(shape), g.reshape(shape), blocks, out)
        return out

    def dual_norm(self, g: Array) -> float:
        """The largest over the outputs."""
        largest = max(float(self.penalty.lam_max(column)) for column in g.T)
        return largest / float(self.penalty.lam)

    def scale(self) -> float:
        """The largest finite threshold of an entry."""
        out = np.empty(self.order.size)
        columns.thresholds(self.parameters, out)
        finite = out[np.isfinite(out)]
        return float(finite.max(initial=0.0))
