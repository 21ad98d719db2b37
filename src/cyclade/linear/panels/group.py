"""Panels that are cycled over block by block: groups of columns, or rows of T outputs.

Each stands at a point x, flat and block after block, of the model ½‖R‖² + r(x) with R = √w (t − z).
R is linear in x, so both can be extrapolated together.

=============  =====================================  ==================================
`GroupPanel`   groups of columns, one output          exact step in the eigenbasis of a group
`GroupPanel`   rows of T outputs, the same weights    exact step
`OutputPanel`  rows of T outputs, weights by output   exact step
`OutputPanel`  rows of T classes, the whole Hessian   under a diagonal above it
=============  =====================================  ==================================
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits
from cyclade.linear.kernels import group, rows
from cyclade.linear.kernels.storage import StoredX
from cyclade.linear.panels.dense import DensePanel
from cyclade.linear.panels.sparse import SparsePanel

Array = NDArray[Any]
Past = tuple[Array, Array]


class BlockPanel(Protocol):
    """What descent over blocks asks of a model; the panels below say how they do it."""

    x: Array
    R: Array

    def include(self, blocks: Array) -> None:
        """Prepare these blocks; `start` must follow."""

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        """Begin at x, where the (w-centred) residual is R, (n,) or (n, T).

        `gradient` holds the gradient and the slope in the intercept there, where they are known. A
        `GroupPanel` then needs R only for its change: see there.
        """

    def slopes(self, blocks: Array) -> Array:
        """A R in the place of the coefficients of these blocks (and anything elsewhere)."""

    def cycles(
        self, blocks: Array, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        """Cycle over these blocks, in order; the cycles, and the largest ‖δ_k‖ L_k of the last.

        The point after each cycle is written to the next row of the past.
        """

    def loss(self) -> float:
        """½‖R‖²."""
        R = self.residual()
        return 0.5 * float(np.vdot(R, R))

    def residual(self) -> Array:
        """R in float64, in the shape it was given in."""


class GroupPanel(BlockPanel):
    """Groups of the columns of a panel, with their Hessians A_k A_kᵀ; or rows of T outputs.

    These are kept as eigenvectors Q and eigenvalues D if `rotated`, else as matrices Q and their
    largest eigenvalues. Memory is reserved for all groups at once and written where needed. Groups
    larger than `max_hessian` columns have only a bound on the largest eigenvalue. The Hessian of a
    row is ‖a_j‖² times the identity, so it has no Q.

    From a start where the gradient is known, correlations are those of the start, in float64, plus
    those with the change of R. So columns and R may be in float32, which takes half the time where
    columns come from main memory: rounding errors are relative to the change, and vanish with it.
    """

    def __init__(
        self, columns: DensePanel | SparsePanel, order: Array, starts: Array, rotated: bool,
        T: int = 1,
    ) -> None:  # fmt: skip
        self.columns, self.order, self.starts, self.T = columns, order, starts, T
        tuning, sizes = columns.tuning, np.diff(starts)
        self.rotated, self.inner = rotated and T == 1, tuning.group_inner_steps
        self.max_hessian = math.isqrt(tuning.cache) if T == 1 else 0
        stored = np.where(sizes <= self.max_hessian, sizes**2, 0)
        self.q0 = np.concatenate([[0], np.cumsum(stored)])
        self.Q, self.D = np.empty(int(self.q0[-1])), np.zeros(int(starts[-1]))
        self.means = np.zeros(int(starts[-1]))
        self.place = np.full(sizes.size, -1)  # of each group's first column in the panel

    def include(self, blocks: Array) -> None:
        new = blocks[self.place[blocks] < 0]
        if not new.size:
            return
        own, at, _ = self._entries(new, self.columns.cols.size)
        self.place[new] = at[np.cumsum(np.diff(self.starts)[new]) - np.diff(self.starts)[new]]
        if self.T > 1:
            self.columns.extend(new)
            self.D[own] = self.columns.L[at]
        else:
            self.columns.extend(self.order[own])
            self._factorise(new)
        self.means[own] = self.columns.means[at]

    def _entries(self, blocks: Array, first: int | None = None) -> tuple[Array, Array, Array]:
        """The entries of these blocks; the column of the panel that each has, and its output.

        Blocks that come in have columns from `first` on.
        """
        sizes = np.diff(self.starts)[blocks]
        before = np.cumsum(sizes) - sizes
        within = np.arange(sizes.sum()) - np.repeat(before, sizes)
        begins = self.place[blocks] if first is None else first + before // self.T
        entries = np.repeat(self.starts[blocks], sizes) + within
        return entries, np.repeat(begins, sizes) + within // self.T, within % self.T

    def _factorise(self, new: Array) -> None:
        """Q and D of these groups."""
        sizes = np.diff(self.starts)[new]
        for m in np.unique(sizes):
            ks, begins = new[sizes == m], self.place[new[sizes == m]]
            own, at = (first[:, None] + np.arange(m) for first in (self.starts[ks], begins))
            if m > self.max_hessian:
                for entries, columns in zip(own, at, strict=True):
                    self.D[entries] = self._bound(columns)
                continue
            H = self.columns.hessians(at)
            if self.rotated:
                values, H = np.linalg.eigh(H)
                self.D[own] = np.maximum(values, 0.0)
            else:
                self.D[own] = np.maximum(np.linalg.eigvalsh(H)[:, -1:], 0.0)
            self.Q[self.q0[ks][:, None] + np.arange(m * m)] = H.reshape(-1, m * m)

    def _bound(self, at: Array) -> float:
        """A bound on the largest eigenvalue of A Aᵀ over the columns `at`."""
        columns = self.columns
        return largest_eigenvalue(lambda v: columns.correlate(at, columns.product(v, at)), at.size)

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        R, columns = R.reshape(len(R), -1).T, self.columns
        self.begun, self.c, self.x = np.zeros_like(R), np.zeros(x.size), x
        if gradient is not None:
            g, slope = gradient
            self.begun, self.c = R, self.means * np.resize(slope, x.size) - g
        starts = []
        for change in R - self.begun:
            columns.start(change, np.zeros(columns.cols.size))
            starts.append(columns.R)
        self.R = np.stack(starts)

    def slopes(self, blocks: Array) -> Array:
        out, (entries, at, output) = np.zeros(self.x.size), self._entries(blocks)
        for t, R in enumerate(self.R):
            own, self.columns.R = output == t, R
            out[entries[own]] = self.c[entries[own]] + self.columns.correlations(at[own])
        return out

    def cycles(
        self, chosen: Array, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        blocks = group.Blocks(self.starts, self.Q, self.q0, self.D, table, self.rotated, self.inner)
        return group.cycles(
            self.columns.storage, blocks, self.place, chosen, self.R, self.c, self.x, max_cycles,
            tolerance, past,
        )  # fmt: skip

    def residual(self) -> Array:
        out = self.begun.copy()
        for t, R in enumerate(self.R):
            self.columns.R = R
            out[t] += self.columns.residual()
        return out.T if self.T > 1 else out[0]


class OutputPanel(BlockPanel):
    """Columns of X as they are, for outputs with weights W (n, T) of their own, or for classes.

    The kernel works on U, minus the gradient in z of the model

        Σ_i [−u_i·d_i + ½ d_iᵀ(diag(w_i) − w_i p_iᵀ) d_i]   for changes d of z,

    and `D` are diagonals above the Hessians of the rows of x. Outputs do not meet: there is no p, U
    is W (t − z), and intercepts are profiled out. Classes have probabilities p, and intercepts that
    move along; the last row of R tells by how much. Their columns are stored as sparse ones, dense
    ones with all of their entries, less their means if there are intercepts.
    """

    def __init__(
        self, design: Any, W: Array, centred: bool, penalty: Any, p: Array | None = None
    ) -> None:
        self.design, self.centred, self.penalty = design, centred, penalty
        self.X: StoredX = design.storage
        n, T = W.shape
        self.D, self.sums, self.means = np.zeros((3, design.p, T))
        self.known, self.centres = np.zeros(design.p, bool), np.zeros(design.p)
        self.dense, self.classes = design.is_dense and p is None, p is not None
        self.W = np.ascontiguousarray(W.T, design.dtype) if self.dense else W
        self.P, self.inverse = np.empty((n, 0)) if p is None else p, np.empty((0, 0))
        self.root, self.bounds = np.sqrt(W), W
        if p is not None:
            s = W.sum(axis=1)
            self.bounds = s[:, None] * bounds(p)
            if centred:
                corner = np.diag(W.sum(axis=0)) - p.T @ W
                corner += np.trace(corner) / T**2  # moving all alike changes nothing
                self.inverse = np.linalg.inv(corner)

    def include(self, blocks: Array) -> None:
        new = blocks[~self.known[blocks]]
        if not new.size:
            return
        self.known[new] = True
        if self.dense:
            A = self.X.A[new]
            self.sums[new], self.D[new] = A @ self.W.T, (A * A) @ self.W.T
        else:
            if self.classes and self.design.is_dense:
                self._as_sparse(new)
            rows.sparse_moments(self.X, new, self.bounds, self.sums, self.D)
        if self.centred and not self.classes:
            mass = self.W.sum(axis=1 if self.dense else 0)
            self.means[new] = self.sums[new] / np.maximum(mass, np.finfo(self.W.dtype).tiny)
            self.D[new] = np.maximum(self.D[new] - self.means[new] * self.sums[new], 0.0)
        else:
            self.sums[new] = 0.0

    def _as_sparse(self, blocks: Array) -> None:
        """Store these dense columns, which are in order, as sparse ones."""
        A, n = self.design.storage.A[blocks], self.design.n
        if self.centred:
            s = self.W.sum(axis=1)
            self.centres[blocks] = A @ s / s.sum()
            A = A - self.centres[blocks][:, None]
        at = np.zeros(self.design.p + 1, np.uint64)
        at[blocks + 1] = n
        rows_of = np.tile(np.arange(n, dtype=np.uint32), blocks.size)
        nothing = np.empty((0, 0), A.dtype)
        self.X = StoredX(False, nothing, A.reshape(-1), rows_of, np.cumsum(at))

    def start(self, R: Array, x: Array, gradient: tuple[Array, Any] | None = None) -> None:
        """Begin at x, where R is the residual; of classes, minus the gradient in z."""
        self.x, U = x.reshape(self.D.shape), R if self.classes else self.root * R
        if self.dense:
            self.R = np.ascontiguousarray(U.T, self.W.dtype)
        else:
            self.R = np.vstack([U, np.zeros(U.shape[1])])
        if self.classes:
            self.own = np.flatnonzero(self.known)
            self.x0, self.R0 = self.x[self.own], self.R.copy()

    def slopes(self, blocks: Array) -> Array:
        return self._slopes(blocks, self.R)

    def _slopes(self, blocks: Array, R: Array) -> Array:
        out = np.zeros(self.x.shape)
        rows.weighted_dots(self.X, blocks, R, self.sums, out)
        return out.ravel()

    def cycles(
        self, chosen: Array, table: Array, max_cycles: int, tolerance: float, past: Past
    ) -> tuple[int, float]:
        outputs = rows.Outputs(self.X, self.W, self.P, self.inverse, self.D, self.sums, self.means)
        return rows.weighted_cycles(
            outputs, chosen, self.R, self.x, table[:, 0], self.penalty.parameters,
            self.penalty.entrywise, max_cycles, tolerance, past,
        )  # fmt: skip

    def residual(self) -> Array:
        """Of classes U, which stands for it."""
        if self.dense:
            return np.asarray(self.R.T / self.root, np.float64)
        if self.classes:
            return self.R[:-1]
        return np.asarray((self.R[:-1] + self.R[-1] * self.W) / self.root)

    def moved(self) -> Array:
        """What z changed by since the start, for classes."""
        dx = np.zeros(self.x.shape)
        dx[self.own] = self.x[self.own] - self.x0
        return np.asarray(self.design.predict(dx) - self.centres @ dx + self.R[-1])

    def loss(self) -> float:
        """Of classes less its value at the start: −½ Δx·(c₀ + c), c and c₀ the correlations."""
        if not self.classes:
            return super().loss()
        both = self._slopes(self.own, self.R + self.R0).reshape(self.x.shape)[self.own]
        out = -0.5 * float(np.vdot(self.x[self.own] - self.x0, both))
        return out - 0.5 * float(self.R[-1] @ (self.R0[:-1] + self.R[:-1]).sum(axis=0))


def bounds(p: Array) -> Array:
    """Diagonals above diag(p_i) − p_i p_iᵀ, for probabilities p.

    With q the largest of p_i it is p_t (1 + q), and q (1 − q²) where p_t = q. For any v,
    Σ p v² − (Σ p v)² ≤ Σ out v²: of the v with given q v_top and Σ over the others w = Σ p_t v_t
    the worst has equal v_t, and then the difference is the square of w √(1 + q/(1 − q)) + q v_top
    √(1 − q).
    """
    every, top = np.arange(len(p)), p.argmax(axis=1)
    out, others = p * (1.0 + p.max(axis=1, keepdims=True)), p.copy()
    others[every, top] = 0.0
    out[every, top] *= others.sum(axis=1)
    return np.asarray(out)


def largest_eigenvalue(apply: Any, m: int) -> float:
    """λ_max of a large Hessian by power iteration, plus 5 % as that comes from below."""
    v = np.random.default_rng(0).standard_normal(m)
    value = 0.0
    for _ in range(limits.STEPS):
        v = apply(v / (np.linalg.norm(v) or 1.0))
        last, value = value, float(np.linalg.norm(v))
        if abs(value - last) <= 1e-3 * value:
            break
    return 1.05 * value
