"""The quadratic model on the columns of X, ready to be cycled over block by block.

A panel stands at a point x of the model  ½ Σ_it w_it (τ_it − z_it)² + r(x), divided by `unit`. It
holds the residual R that belongs to x, in whatever scaling its kernel wants, and keeps it up to
date; R is linear in x, so both can be extrapolated together. Blocks are numbered as in the penalty,
and the entries of x are in the order of the blocks.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks import dense, sparse
from cyclade.linear.blocks.columns import Columns
from cyclade.linear.blocks.hessians import Hessians, largest_eigenvalue

Array = NDArray[Any]
Past = tuple[Array, Array]

INNER = 30
"""Proximal steps on one block of a sparse group, in memory that the first cache holds."""


COARSE_LEAST = 1_000_000
"""Entries of X from which single precision pays: what the second cache does not hold."""
COARSE_NOISE = 1e-5
"""How far R strays in single precision over some cycles, relatively."""


class Panel(Protocol):
    """What the inner loop asks of a model."""

    x: Array
    R: Array
    unit: float

    def precision(self, blocks: Array, eps: float, pull: Array) -> bool:
        """Choose the arithmetic for an accuracy of eps; whether it is single instead of double."""

    def include(self, blocks: Array) -> None:
        """Prepare these blocks."""

    def start(self, x: Array, pull: Array) -> None:
        """Stand at x, where w (τ − z) is `pull`, (n, T); its columns add up to zero if centred."""

    def slopes(self, blocks: Array) -> Array:
        """Aᵀ R of the blocks (and anything elsewhere): minus the gradient, over `unit`."""

    def choose(self, blocks: Array) -> None:
        """The blocks to cycle over, in that order."""

    def cycles(self, table: Array, most: int, enough: float, past: Past) -> tuple[int, float]:
        """Cycle over them; the number of cycles, and the largest ‖δ_k‖ L_k of the last."""

    def loss(self) -> float:
        """The quadratic part at the present point, over `unit`."""

    def residual(self) -> Array:
        """τ − z at the present point, (n, T); zero where the weight is."""


def over(numerator: Array, weights: Array) -> Array:
    """The quotient, and zero where the weight is."""
    return np.divide(numerator, weights, out=np.zeros_like(numerator), where=weights > 0)


class DenseGroups:
    """Groups of dense columns, one output; uniform weights need no copy of X in column order."""

    def __init__(
        self, X: Array, order: Array, starts: Array, w: Array, centred: bool, rotated: bool
    ) -> None:
        uniform = float(w.min()) == float(w.max())
        self.unit = float(w[0]) if uniform else 1.0
        self.w, self.order, self.starts = w, order, starts
        self.columns = Columns(X) if uniform else Columns(X, w, centred)
        self.root = w if uniform else np.sqrt(w)  # R is w (τ − z) over this
        self.implicit = uniform and centred
        self.sums = np.zeros(order.size)
        self.hessians = Hessians(starts, rotated)
        self.lines = self.columns.lines[order]
        double = X.dtype == np.float64
        self.coarse = Columns(X, dtype=np.float32) if uniform and double else None
        self.in_coarse = np.zeros(starts.size - 1, bool)
        self.own = self.columns  # or the coarse ones

    def precision(self, blocks: Array, eps: float, pull: Array) -> bool:
        """Choose single precision where eps lies far above its rounding; say whether it was.

        Long columns come from main memory, and half as many bytes take half the time. Errors of
        R grow like a random walk over the updates; the point is measured in double afterwards.
        """
        self.own, self.lines = self.columns, self.columns.lines[self.order]
        if self.coarse is None:
            return False
        size = int((self.starts[blocks + 1] - self.starts[blocks]).sum())
        if size * self.w.size < COARSE_LEAST:
            return False
        R = float(np.linalg.norm(pull)) / self.unit
        largest = float(self.hessians.D.max())
        if eps / self.unit < COARSE_NOISE * R * np.sqrt(largest / self.w.size):
            return False
        new = blocks[~self.in_coarse[blocks]]
        if new.size:
            self.in_coarse[new] = True
            self.coarse.include(np.concatenate([self._own(k) for k in new]))
        self.own, self.lines = self.coarse, self.coarse.lines[self.order]
        return True

    def include(self, blocks: Array) -> None:
        """Gather the columns, their sums and Hessians."""
        new = self.hessians.unknown(blocks)
        if not new.size:
            return
        if not self.columns.direct:
            self.columns.include(np.concatenate([self._own(k) for k in new]))
        A, lines, h = self.columns.A, self.columns.lines[self.order], self.hessians
        self.own, self.lines = self.columns, lines  # until `precision` is asked
        if self.implicit:
            dense.column_sums(A, lines, self.starts, new, self.sums)
        dense.grams(A, lines, self.starts, new, self.sums, h.Q, h.q0)
        h.finish(new, self._bound)

    def start(self, x: Array, pull: Array) -> None:
        """Stand at x."""
        self.x = x
        self.R = np.append(over(pull[:, 0], self.root), 0.0).astype(self.own.A.dtype)

    def slopes(self, blocks: Array) -> Array:
        """Aᵀ R."""
        out = np.zeros(self.x.size)
        n = self.w.size
        dense.products(self.own.A, self.lines, self.starts, blocks, n, self.R, self.sums, out)
        return out

    def choose(self, blocks: Array) -> None:
        """The blocks to cycle over."""
        self.chosen = blocks

    def cycles(self, table: Array, most: int, enough: float, past: Past) -> tuple[int, float]:
        """Cycle over the chosen blocks."""
        h = self.hessians
        done, largest = dense.cycles(
            self.own.A, self.R, self.x, self.lines, self.starts, self.sums, self.chosen,
            h.Q, h.q0, h.D, table, h.rotated, INNER, most, enough, *past,
        )  # fmt: skip
        return int(done), float(largest)

    def loss(self) -> float:
        """½‖R + shift‖²."""
        return float(dense.half_square(self.R))

    def residual(self) -> Array:
        """τ − z."""
        true = self.R[:-1].astype(np.float64) + float(self.R[-1])
        return over(true * self.root, self.w)[:, None]

    def _own(self, k: int) -> Array:
        return self.order[self.starts[k] : self.starts[k + 1]]

    def _bound(self, k: int) -> float:
        A = self.columns.A[self.columns.lines[self._own(k)]]
        return largest_eigenvalue(lambda v: A @ (v @ A), len(A))


class SparseGroups:
    """Groups of sparse columns, one output; X is used as it is."""

    unit = 1.0

    def __init__(
        self, X: Any, order: Array, starts: Array, w: Array, centred: bool, rotated: bool
    ) -> None:
        self.X = (X.data, X.rows, X.starts)
        self.order, self.starts, self.w, self.centred = order, starts, w, centred
        self.mass = float(w.sum())
        self.sums = np.zeros(order.size)
        self.hessians = Hessians(starts, rotated)

    def precision(self, blocks: Array, eps: float, pull: Array) -> bool:
        """Always double."""
        return False

    def include(self, blocks: Array) -> None:
        """Their sums and Hessians."""
        new = self.hessians.unknown(blocks)
        if not new.size:
            return
        h = self.hessians
        if self.centred:
            sparse.column_sums(*self.X, self.order, self.starts, new, self.w, self.sums)
        sparse.grams(*self.X, self.order, self.starts, new, self.w, self.mass, self.sums, h.Q, h.q0)
        h.finish(new, self._bound)

    def start(self, x: Array, pull: Array) -> None:
        """Stand at x."""
        self.x, self.R = x, np.append(pull[:, 0], 0.0)

    def slopes(self, blocks: Array) -> Array:
        """Aᵀ R."""
        out = np.zeros(self.x.size)
        sparse.products(*self.X, self.order, self.starts, blocks, self.R, self.sums, out)
        return out

    def choose(self, blocks: Array) -> None:
        """The blocks to cycle over."""
        self.chosen = blocks

    def cycles(self, table: Array, most: int, enough: float, past: Past) -> tuple[int, float]:
        """Cycle over the chosen blocks."""
        h = self.hessians
        done, largest = sparse.cycles(
            *self.X, self.order, self.w, self.mass, self.R, self.x, self.starts, self.sums,
            self.chosen, h.Q, h.q0, h.D, table, h.rotated, INNER, most, enough, *past,
        )  # fmt: skip
        return int(done), float(largest)

    def loss(self) -> float:
        """½ Σ_i U_i² / w_i."""
        U = self.R[:-1] + self.R[-1] * self.w
        return 0.5 * float(U @ over(U, self.w))

    def residual(self) -> Array:
        """τ − z."""
        return over(self.R[:-1] + self.R[-1] * self.w, self.w)[:, None]

    def _bound(self, k: int) -> float:
        # The trace: loose, but sparse groups this large are rare and nearly orthogonal.
        data, _, at = self.X
        own = self.order[self.starts[k] : self.starts[k + 1]]
        spans = [slice(int(at[j]), int(at[j + 1])) for j in own]
        rows = self.X[1]
        return float(sum((data[e] ** 2 * self.w[rows[e]]).sum() for e in spans))
