"""Panels of problems with T outputs: block j is row j of a (p, T) matrix. See `panels`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.blocks import dense, rows
from cyclade.linear.blocks.columns import Columns
from cyclade.linear.blocks.panels import Past, over

Array = NDArray[Any]


class SharedRows:
    """Dense columns and weights (n,) that all outputs share; rows are penalised by their norms."""

    def __init__(self, X: Array, T: int, w: Array, centred: bool) -> None:
        uniform = float(w.min()) == float(w.max())
        self.unit = float(w[0]) if uniform else 1.0
        self.w, self.T = w, T
        self.columns = Columns(X) if uniform else Columns(X, w, centred)
        self.root = w if uniform else np.sqrt(w)
        self.implicit = uniform and centred
        p = X.shape[1]
        self.starts = np.arange(p + 1)
        self.sums, self.L = np.zeros(p), np.zeros(p)
        self.known = np.zeros(p, bool)

    def precision(self, blocks: Array, eps: float, pull: Array) -> bool:
        """Always that of X."""
        return False

    def include(self, blocks: Array) -> None:
        """Gather the columns, their sums and squared norms."""
        new = blocks[~self.known[blocks]]
        if not new.size:
            return
        self.known[new] = True
        self.columns.include(new)
        A, lines = self.columns.A, self.columns.lines
        if self.implicit:
            dense.column_sums(A, lines, self.starts, new, self.sums)
        rows.squares(A, lines, new, self.sums, self.L)

    def start(self, x: Array, pull: Array) -> None:
        """Stand at x."""
        self.x = x.reshape(-1, self.T)
        R = np.zeros((self.T, self.w.size + 1), self.columns.A.dtype)
        R[:, :-1] = over(pull, np.broadcast_to(self.root[:, None], pull.shape)).T
        self.R = R

    def slopes(self, blocks: Array) -> Array:
        """Aᵀ R."""
        out = np.zeros(self.x.shape)
        A = self.columns.A
        chosen = A if A.shape[0] == blocks.size else A[self.columns.lines[blocks]]
        out[blocks] = chosen @ self.R[:, :-1].T
        out[blocks] += self.sums[blocks, None] * self.R[:, -1]
        return out.ravel()

    def choose(self, blocks: Array) -> None:
        """Pad to eights, and make the products of the columns of each eight."""
        self.count = blocks.size
        full = -(-blocks.size // rows.WIDTH) * rows.WIDTH
        self.cols = np.concatenate([blocks, np.full(full - blocks.size, blocks[-1])])
        self.its_lines = self.columns.lines[self.cols]
        A = self.columns.A
        self.G = np.empty((full // rows.WIDTH, rows.WIDTH, rows.WIDTH), A.dtype)
        rows.grams(A, self.its_lines, self.cols, self.sums, self.G)

    def cycles(self, table: Array, most: int, enough: float, past: Past) -> tuple[int, float]:
        """Cycle over the chosen rows."""
        done, largest = rows.shared_cycles(
            self.columns.A, self.R, self.x, self.L, self.sums, self.its_lines, self.cols,
            self.count, self.G, table[:, 0], most, enough, *past,
        )  # fmt: skip
        return int(done), float(largest)

    def _true(self) -> Array:
        return (self.R[:, :-1] + self.R[:, -1:]).astype(np.float64).T

    def loss(self) -> float:
        """½‖R + shift‖²."""
        return 0.5 * float((self._true() ** 2).sum())

    def residual(self) -> Array:
        """τ − z."""
        full = np.broadcast_to(self.w[:, None], (self.w.size, self.T))
        return over(self._true() * self.root[:, None], full)


class WeightedRows:
    """Dense columns and weights W (n, T) that differ by output."""

    unit = 1.0

    def __init__(self, X: Array, W: Array, centred: bool, reg: Any) -> None:
        self.columns = Columns(X)
        self.W = np.ascontiguousarray(W.T.astype(X.dtype))
        self.reg, self.centred = reg, centred
        shape = (X.shape[1], W.shape[1])
        self.D, self.means = np.zeros(shape), np.zeros(shape)
        self.known = np.zeros(shape[0], bool)

    def precision(self, blocks: Array, eps: float, pull: Array) -> bool:
        """Always that of X."""
        return False

    def include(self, blocks: Array) -> None:
        """Gather the columns, their means and curvatures."""
        new = blocks[~self.known[blocks]]
        if not new.size:
            return
        self.known[new] = True
        self.columns.include(new)
        A = self.columns.A[self.columns.lines[new]]
        curvatures = (A * A) @ self.W.T
        if self.centred:
            mass = np.maximum(self.W.sum(axis=1), np.finfo(self.W.dtype).tiny)
            self.means[new] = (A @ self.W.T) / mass
            curvatures = curvatures - self.means[new] ** 2 * mass
        self.D[new] = np.maximum(curvatures, 0.0)

    def start(self, x: Array, pull: Array) -> None:
        """Stand at x."""
        self.x = x.reshape(self.D.shape)
        self.R = np.ascontiguousarray(pull.T.astype(self.W.dtype))

    def slopes(self, blocks: Array) -> Array:
        """Aᵀ U."""
        out = np.zeros(self.x.shape)
        out[blocks] = self.columns.A[self.columns.lines[blocks]] @ self.R.T
        return out.ravel()

    def choose(self, blocks: Array) -> None:
        """The rows to cycle over."""
        self.chosen = blocks

    def cycles(self, table: Array, most: int, enough: float, past: Past) -> tuple[int, float]:
        """Cycle over the chosen rows."""
        done, largest = rows.weighted_cycles(
            self.columns.A, self.columns.lines, self.W, self.R, self.x, self.D, self.means,
            self.chosen, table[:, 0], self.reg.parameters, self.reg.entrywise, most, enough, *past,
        )  # fmt: skip
        return int(done), float(largest)

    def loss(self) -> float:
        """½ Σ U² / W."""
        return 0.5 * float((self.R * over(self.R, self.W)).sum(dtype=np.float64))

    def residual(self) -> Array:
        """τ − z."""
        return over(self.R, self.W).T.astype(np.float64)


class SparseRows:
    """Sparse columns and weights W (n, T); X is used as it is."""

    unit = 1.0

    def __init__(self, X: Any, W: Array, centred: bool, reg: Any) -> None:
        self.X, self.W = (X.data, X.rows, X.starts), np.ascontiguousarray(W)
        self.reg, self.centred = reg, centred
        shape = (X.p, W.shape[1])
        self.D, self.sums, self.means = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.known = np.zeros(X.p, bool)

    def precision(self, blocks: Array, eps: float, pull: Array) -> bool:
        """Always that of X."""
        return False

    def include(self, blocks: Array) -> None:
        """Their means and curvatures."""
        new = blocks[~self.known[blocks]]
        if not new.size:
            return
        self.known[new] = True
        rows.sparse_moments(*self.X, new, self.W, self.sums, self.D)
        if self.centred:
            mass = np.maximum(self.W.sum(axis=0), np.finfo(self.W.dtype).tiny)
            self.means[new] = self.sums[new] / mass
            self.D[new] = np.maximum(self.D[new] - self.means[new] * self.sums[new], 0.0)
        else:
            self.sums[new] = 0.0

    def start(self, x: Array, pull: Array) -> None:
        """Stand at x."""
        self.x = x.reshape(self.D.shape)
        self.R = np.vstack([pull, np.zeros((1, pull.shape[1]))])

    def slopes(self, blocks: Array) -> Array:
        """Aᵀ U."""
        out = np.zeros(self.x.shape)
        rows.sparse_products(*self.X, blocks, self.R, self.sums, out)
        return out.ravel()

    def choose(self, blocks: Array) -> None:
        """The rows to cycle over."""
        self.chosen = blocks

    def cycles(self, table: Array, most: int, enough: float, past: Past) -> tuple[int, float]:
        """Cycle over the chosen rows."""
        done, largest = rows.sparse_cycles(
            *self.X, self.W, self.R, self.x, self.D, self.sums, self.means, self.chosen,
            table[:, 0], self.reg.parameters, self.reg.entrywise, most, enough, *past,
        )  # fmt: skip
        return int(done), float(largest)

    def _true(self) -> Array:
        return np.asarray(self.R[:-1] + self.R[-1] * self.W)

    def loss(self) -> float:
        """½ Σ U² / W."""
        U = self._true()
        return 0.5 * float((U * over(U, self.W)).sum())

    def residual(self) -> Array:
        """τ − z."""
        return over(self._true(), self.W)
