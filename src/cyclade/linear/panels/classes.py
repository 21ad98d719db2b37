"""Rows of T classes under a Newton model with the whole Hessian, column by column.

The model around z is Σ_i [φ'_i·d_i + ½ s_i d_iᵀ(diag(p_i) − p_i p_iᵀ) d_i] for changes d of z. What
follows x is minus its gradient in z, U (n, T); d itself is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear.kernels import classes, rows
from cyclade.linear.panels.group import BlockPanel, Past

Array = NDArray[Any]


class ClassPanel(BlockPanel):
    """Columns of X as they are; dense ones less their means if there are intercepts.

    R holds U, and in its last row what the intercepts moved by. `D` are diagonals above the
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
