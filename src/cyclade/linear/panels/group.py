"""Panels that are cycled over block by block: groups of columns, or rows of T outputs.

Each stands at a point x, flat and block after block, of the model ½‖R‖² + r(x) with R = √w (t − z).
R is linear in x, so both can be extrapolated together.

=============  =====================================  ========================================
`GroupPanel`   groups of columns, one output          exact step in the eigenbasis of a group
`RowPanel`     T outputs, the same weights, dense     eight rows at a time
`OutputPanel`  T outputs, weights by output           a row at a time, dense or sparse
`ClassPanel`   T classes, the whole Hessian           a row at a time, under a diagonal above it
=============  =====================================  ========================================
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import classes, group, rows
from cyclade.linear.panels.dense import DensePanel
from cyclade.linear.panels.sparse import SparsePanel

Array = NDArray[Any]
Past = tuple[Array, Array]


class BlockPanel(Protocol):
    """What descent over blocks asks of a model; the panels below say how they do it."""

    x: Array
    R: Array
    chosen: Array

    def include(self, blocks: Array) -> None:
        """Prepare these blocks; `start` must follow."""

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        """Begin at x, where the (w-centred) residual is R, (n,) or (n, T).

        `gradient` holds the gradient and the slope in the intercept there, where they are known. A
        `GroupPanel` then needs R only for its change: see there.
        """

    def slopes(self, blocks: Array) -> Array:
        """A R in the place of the coefficients of these blocks (and anything elsewhere)."""

    def choose(self, blocks: Array) -> None:
        """The blocks to cycle over, in that order."""
        self.chosen = blocks

    def cycles(
        self, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        """Cycle over them; the number of cycles, and the largest ‖δ_k‖ L_k of the last.

        The point after each cycle is written to the next row of the past.
        """

    def loss(self) -> float:
        """½‖R‖²."""
        R = self.residual()
        return 0.5 * float(np.vdot(R, R))

    def residual(self) -> Array:
        """R in float64, in the shape it was given in."""


class GroupPanel(BlockPanel):
    """Groups of the columns of a panel, with their Hessians A_k A_kᵀ.

    These are kept as eigenvectors Q and eigenvalues D if `rotated`, else as matrices Q and their
    largest eigenvalues. Memory is reserved for all groups at once and written where needed. Groups
    larger than `max_hessian` columns have only a bound on the largest eigenvalue.

    From a start where the gradient is known, correlations are those of the start, in float64, plus
    those with the change of R. So columns and R may be in float32, which takes half the time where
    columns come from main memory: rounding errors are relative to the change, and vanish with it.
    """

    def __init__(
        self, columns: DensePanel | SparsePanel, order: Array, starts: Array, rotated: bool
    ) -> None:
        self.columns, self.order, self.starts, self.rotated = columns, order, starts, rotated
        tuning, sizes = columns.tuning, np.diff(starts)
        self.max_hessian, self.inner = tuning.max_group_hessian, tuning.group_inner_steps
        stored = np.where(sizes <= self.max_hessian, sizes**2, 0)
        self.q0 = np.concatenate([[0], np.cumsum(stored)])
        self.Q, self.D = np.empty(int(self.q0[-1])), np.zeros(int(starts[-1]))
        self.means, self.begun = np.zeros(int(starts[-1])), np.empty(0)
        self.place = np.full(sizes.size, -1)  # of each group's first column in the panel

    def include(self, blocks: Array) -> None:
        new = blocks[self.place[blocks] < 0]
        if not new.size:
            return
        sizes = np.diff(self.starts)[new]
        members = [self.order[self.starts[k] : self.starts[k + 1]] for k in new]
        at = self.columns.extend(np.concatenate(members))
        first = at[0] + np.cumsum(sizes) - sizes
        self.place[new] = first
        for m in np.unique(sizes):
            ks, begins = new[sizes == m], first[sizes == m]
            own, at = (first[:, None] + np.arange(m) for first in (self.starts[ks], begins))
            self.means[own] = self.columns.means[at]
            if m > self.max_hessian:
                for entries, columns in zip(own, at, strict=True):
                    self.D[entries] = self._bound(columns)
                continue
            H = self.columns.hessians(at)
            entries = self.q0[ks][:, None] + np.arange(m * m)
            if self.rotated:
                values, H = np.linalg.eigh(H)
                self.D[own] = np.maximum(values, 0.0)
            else:
                self.D[own] = np.maximum(np.linalg.eigvalsh(H)[:, -1:], 0.0)
            self.Q[entries] = H.reshape(-1, m * m)

    def _bound(self, at: Array) -> float:
        """A bound on the largest eigenvalue of A Aᵀ over the columns `at`."""
        columns = self.columns
        return largest_eigenvalue(lambda v: columns.correlate(at, columns.product(v, at)), at.size)

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        R = R.reshape(-1)  # of one output, perhaps as (n, 1)
        if gradient is None:
            self.begun, self.c = np.zeros_like(R), np.zeros(x.size)
        else:
            g, slope = gradient
            self.begun, self.c = R, self.means * slope - g
        self.columns.start(R - self.begun, np.zeros(self.columns.cols.size))
        self.x, self.R, self.storage = x, self.columns.R, self.columns.storage

    def slopes(self, blocks: Array) -> Array:
        out, sizes = np.zeros(self.x.size), np.diff(self.starts)[blocks]
        spread = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = np.repeat(self.place[blocks], sizes) + spread
        entries = np.repeat(self.starts[blocks], sizes) + spread
        out[entries] = self.c[entries] + self.columns.correlations(at)
        return out

    def cycles(
        self, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        return group.cycles(
            *self.storage, self.R, self.c, self.x, self.starts, self.place, self.chosen,
            self.Q, self.q0, self.D, table, self.rotated, self.inner, max_cycles, tolerance, *past,
        )  # fmt: skip

    def residual(self) -> Array:
        return np.asarray(self.begun + self.columns.residual())


class RowPanel(BlockPanel):
    """Dense columns for T outputs with the same weights; block j is row j of a (p, T) matrix."""

    def __init__(self, columns: DensePanel, p: int, T: int) -> None:
        self.columns, self.T, self.place = columns, T, np.full(p, -1)

    def include(self, blocks: Array) -> None:
        new = blocks[self.place[blocks] < 0]
        if new.size:
            self.place[new] = self.columns.extend(new)

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        self.R = np.ascontiguousarray(R.T, self.columns.dtype)
        self.x = x.reshape(-1, self.T)

    def slopes(self, blocks: Array) -> Array:
        out = np.zeros(self.x.shape)
        out[blocks] = self.columns.rows(self.place[blocks]) @ self.R.T
        return out.ravel()

    def choose(self, blocks: Array) -> None:
        self.columns.choose(self.place[blocks])

    def cycles(
        self, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        own = self.columns
        return rows.shared_cycles(
            own.A, self.R, self.x, own.L, own.cols, own.order, own.G, table[:, 0], max_cycles,
            tolerance, *past,
        )  # fmt: skip

    def residual(self) -> Array:
        return self.R.T.astype(np.float64)


class OutputPanel(BlockPanel):
    """Columns of X as they are, for weights W (n, T) that differ by output.

    The kernel works on U = W (t − z). `parameters` are those of a scalar penalty if `entrywise`,
    else rows are penalised by their norms.
    """

    def __init__(
        self, design: Any, W: Array, centred: bool, entrywise: bool, parameters: Any
    ) -> None:
        self.design, self.centred = design, centred
        self.storage: tuple[bool, Array, Array, Array, Array] = design.storage
        self.entrywise, self.parameters = entrywise, parameters
        shape = (design.p, W.shape[1])
        self.D, self.sums, self.means = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.known = np.zeros(design.p, bool)
        self.dense = design.is_dense
        self.W = np.ascontiguousarray(W.T, design.dtype) if self.dense else W
        self.root = np.sqrt(W)

    def include(self, blocks: Array) -> None:
        new = blocks[~self.known[blocks]]
        if not new.size:
            return
        self.known[new] = True
        if self.dense:
            A = self.storage[1][new]
            self.sums[new], self.D[new] = A @ self.W.T, (A * A) @ self.W.T
        else:
            rows.sparse_moments(*self.storage[2:], new, self.W, self.sums, self.D)
        if self.centred:
            mass = self.W.sum(axis=1 if self.dense else 0)
            self.means[new] = self.sums[new] / np.maximum(mass, np.finfo(self.W.dtype).tiny)
            self.D[new] = np.maximum(self.D[new] - self.means[new] * self.sums[new], 0.0)
        else:
            self.sums[new] = 0.0

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        self.x, U = x.reshape(self.D.shape), self.root * R
        if self.dense:
            self.R = np.ascontiguousarray(U.T, self.W.dtype)
        else:
            self.R = np.vstack([U, np.zeros((1, U.shape[1]))])

    def slopes(self, blocks: Array) -> Array:
        out = np.zeros(self.x.shape)
        rows.weighted_dots(*self.storage, blocks, self.R, self.sums, out)
        return out.ravel()

    def cycles(
        self, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        return rows.weighted_cycles(
            *self.storage, self.W, self.R, self.x, self.D, self.sums, self.means,
            self.chosen, table[:, 0], self.parameters, self.entrywise, max_cycles, tolerance, *past,
        )  # fmt: skip

    def residual(self) -> Array:
        if self.dense:
            return np.asarray(self.R.T / self.root, np.float64)
        return np.asarray((self.R[:-1] + self.R[-1] * self.W) / self.root)


class ClassPanel(BlockPanel):
    """Columns of X as they are, for T classes and a model with the whole Hessian of every row of X.

    The model around z is Σ_i [φ'_i·d_i + ½ s_i d_iᵀ(diag(p_i) − p_i p_iᵀ) d_i] for changes d of z.
    R holds minus its gradient in z, (n, T), and in a last row what the intercepts moved by. Dense
    columns are taken less their means if there are intercepts. `D` are diagonals above the
    Hessians of the rows of x.
    """

    def __init__(self, design: Any, p: Array, s: Array, centred: bool, penalty: Any) -> None:
        self.design, self.p, self.s, self.penalty = design, p, s, penalty
        self.storage: tuple[bool, Array, Array, Array, Array] = design.storage
        self.D, self.means = np.zeros((design.p, p.shape[1])), np.zeros(design.p)
        self.centred, self.inverse = centred, np.empty((0, 0))
        self.bounds = np.empty(p.shape)
        classes.bounds(p, s, self.bounds)
        if centred:
            corner = np.diag(s @ p) - p.T @ (s[:, None] * p)
            corner += np.trace(corner) / len(corner) ** 2  # moving all alike changes nothing
            self.inverse = np.linalg.inv(corner)

    def include(self, blocks: Array) -> None:
        self.included = blocks
        if self.design.is_dense:
            A = self.storage[1][blocks]
            if self.centred:
                self.means[blocks] = A @ self.s / self.s.sum()
                A = A - self.means[blocks][:, None]
            self.D[blocks] = (A * A) @ self.bounds
        else:
            sums = np.empty(self.D.shape)
            rows.sparse_moments(*self.storage[2:], blocks, self.bounds, sums, self.D)

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        """Begin at x, where minus the gradient in z is R."""
        self.x, self.R = x.reshape(self.D.shape), np.vstack([R, np.zeros(R.shape[1])])
        self.x0, self.R0 = self.x[self.included], self.R.copy()

    def slopes(self, blocks: Array) -> Array:
        return self._slopes(blocks, self.R)

    def _slopes(self, blocks: Array, R: Array) -> Array:
        out = np.zeros(self.x.shape)
        classes.correlations(*self.storage, self.means, blocks, R, out)
        return out.ravel()

    def cycles(
        self, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        return classes.cycles(
            *self.storage, self.means, self.s, self.p, self.inverse, self.R, self.x, self.D,
            self.chosen, table[:, 0], self.penalty.parameters, self.penalty.entrywise, max_cycles,
            tolerance, *past,
        )  # fmt: skip

    def residual(self) -> Array:
        """U, which stands for the residual of other panels."""
        return self.R[:-1]

    def moved(self) -> Array:
        """What z changed by since the start."""
        dx, own = np.zeros(self.x.shape), self.included
        dx[own] = self.x[own] - self.x0
        return np.asarray(self.design.predict(dx) - self.means[own] @ dx[own] + self.R[-1])

    def loss(self) -> float:
        """The model less its value at the start: −½ Δx·(c₀ + c) with correlations c, c₀ there."""
        moved = self.included
        both = self._slopes(moved, self.R + self.R0).reshape(self.x.shape)[moved]
        out = -0.5 * float(np.vdot(self.x[moved] - self.x0, both))
        return out - 0.5 * float(self.R[-1] @ (self.R0[:-1] + self.R[:-1]).sum(axis=0))


def largest_eigenvalue(apply: Any, m: int) -> float:
    """λ_max of a large Hessian by power iteration, plus 5 % as that comes from below."""
    v = np.random.default_rng(0).standard_normal(m)
    value = 0.0
    for _ in range(50):
        v = apply(v / (np.linalg.norm(v) or 1.0))
        last, value = value, float(np.linalg.norm(v))
        if abs(value - last) <= 1e-3 * value:
            break
    return 1.05 * value
