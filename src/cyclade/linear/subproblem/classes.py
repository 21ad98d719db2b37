"""Few columns of several classes: Newton models of the softmax loss on products of columns.

With probabilities p_i the multinomial loss of a row has the Hessian diag(p_i) − p_i p_iᵀ. For |W| T
up to a few thousand the whole model is formed in the space of the coefficients,
G = Σ_i s_i (a_i a_iᵀ) ⊗ (diag(p_i) − p_i p_iᵀ) with the intercepts eliminated, and minimised by
cycles and Newton steps. Away from zero the norm of a row x_k is smooth and curved, so these take
its Hessian λ_k/‖x_k‖ (I − x_k x_kᵀ/‖x_k‖²) too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.kernels import block_gram, group, linalg
from cyclade.linear.panels.protocols import Columns
from cyclade.linear.penalties.joined import norm_table
from cyclade.linear.problem import Problem
from cyclade.linear.state import State
from cyclade.linear.subproblem.gram import Gram

Array = NDArray[Any]


class Products:
    """A model in the space of the coefficients of W; as `group.Cycles`."""

    def __init__(self, problem: Problem, state: State, W: Array, damping: float) -> None:
        here: Any = state.loss_at
        self.penalty: Any = problem.penalty
        self.tuning, self.bordered, self.damping = problem.tuning, problem.fit_intercept, damping
        self.p, self.s, self.W, self.slope = here.p, problem.s, W, problem.slope(here)
        self.columns = columns_of(problem, state, W)
        self.at = np.searchsorted(self.columns.cols, W)
        self.x, self.begun = state.x.copy(), state.x.reshape(-1, self.penalty.T)[W]
        g = np.zeros((problem.design.p, self.penalty.T))
        centred = self.columns.slopes(here.slopes, self.at)
        g[W] = centred + self.columns.centres[self.at][:, None] * self.slope
        far = self.penalty.distances(W, self.x, g.reshape(-1))
        self.downhill, self.distance = -centred.reshape(-1), float(far.max(initial=0.0))

    def minimise(self, target: float, budget: int) -> int:
        """To a small part of the first distance: cycles on products are cheap."""
        G, b = self.products()
        T, W, x = self.penalty.T, self.W, self.begun.reshape(-1)
        gram: Any
        if self.penalty.entrywise:
            gram = Gram.of(G, b, x, np.repeat(W, T), self.penalty.scalar, self.tuning)
        else:
            gram = RowGram(G, b, x, T, np.ascontiguousarray(self.penalty.table[W, 0]))
        target = max(self.tuning.model_precision * self.distance, self.tuning.forcing * target)
        done = int(gram.minimise(target, min(limits.CYCLES, budget)))
        self.x.reshape(-1, T)[W] = gram.x.reshape(-1, T)
        return done

    def products(self) -> tuple[Array, Array]:
        """G and minus the gradient, both without the intercepts."""
        k, T, columns, at = self.at.size, self.p.shape[1], self.columns, self.at
        pairs = hessian_entries(self.p, self.damping * self.s)
        G = np.empty((k, T, k, T))
        for t in range(T):
            G[:, t, :, t] = columns.products(at, pairs[t * T + t])
            for v in range(t):  # of positive weights, which is half the work
                G[:, t, :, v] = G[:, v, :, t] = -columns.products(at, -pairs[t * T + v])
        G, b = G.reshape(k * T, k * T), self.downhill
        if self.bordered:
            self.border = columns.slopes(pairs.T, at).reshape(k * T, T)
            corner = pairs.sum(axis=1).reshape(T, T)
            corner += np.trace(corner) / T**2  # moving all classes alike changes nothing
            corner.flat[:: T + 1] += numerics.SOLVED * np.trace(corner)
            self.inverse = np.linalg.inv(corner)
            gone = self.inverse @ self.border.T
            G -= self.border @ gone
            b = b + self.slope @ gone
        return G, b

    def moved(self) -> Array:
        """From the columns at hand."""
        dx = self.x.reshape(-1, self.penalty.T)[self.W] - self.begun
        dz = self.columns.combine(self.at, dx)
        if self.bordered:
            dz -= self.inverse @ (self.slope + dx.reshape(-1) @ self.border)
        return dz


def hessian_entries(p: Array, s: Array) -> Array:
    """s_i p_it (δ_tv − p_iv), for all rows i in row tT + v of what is returned."""
    T = p.shape[1]
    out = -(s * p.T)[:, None] * p.T
    others = (1.0 - np.eye(T)) @ p.T  # 1 − p_it, without cancellation
    out[np.arange(T), np.arange(T)] = s * p.T * others
    return np.asarray(out.reshape(T * T, -1))


def columns_of(problem: Problem, state: State, W: Array) -> Columns:
    """The columns W (and perhaps others), less their means if there are intercepts; kept."""
    kept: Columns | None = state.kept.get("classes")
    if kept is None or not np.isin(W, kept.cols, assume_unique=True).all():
        kept = state.kept["classes"] = problem.design.unweighted(W, problem.fit_intercept)
    return kept


class RowGram:
    """½ xᵀGx − bᵀx + Σ_k λ_k‖x_k‖, by c = b − Gx and x; row k is x[m k : m (k + 1)].

    Examples
    --------
    >>> rows = RowGram(np.eye(2), np.array([6.0, 8.0]), np.zeros(2), 2, np.array([5.0]))
    >>> rows.minimise(1e-12, 100)
    2
    >>> rows.x
    array([3., 4.])
    """

    def __init__(self, G: Array, c: Array, x: Array, m: int, lam: Array) -> None:
        self.G, self.c, self.x, self.m, self.lam = G, c, x.copy(), m, lam
        self.rows = np.arange(lam.size)
        D, Q = np.linalg.eigh(G.reshape(lam.size, m, lam.size, m)[self.rows, :, self.rows])
        starts, q0 = (width * np.arange(lam.size + 1) for width in (m, m * m))
        table, D = norm_table(lam), np.maximum(D.reshape(-1), 0.0)
        self.blocks = group.Blocks(starts, Q.reshape(-1), q0, D, table, True, 1)

    def minimise(self, tolerance: float, max_cycles: int) -> int:
        """Cycles and Newton steps until no ‖δ_k‖ L_k exceeds the tolerance; the cycles made.

        A Newton step costs as many cycles as there are tens of entries, so it waits for these.
        """
        size = np.abs(self.c) + self.blocks.D.max(initial=0.0) * np.abs(self.x)
        tolerance = max(tolerance, numerics.EPS * float(size.max(initial=0.0)))
        done, wait = 0, 4 + self.x.size // 16
        while done < max_cycles:
            made, largest = self.cycles(min(wait, max_cycles - done), tolerance)
            done += made
            if largest <= tolerance:
                break
            if not (self.newton_step() and self.newton_step()):
                wait *= 2
        return done

    def cycles(self, max_cycles: int, tolerance: float) -> tuple[int, float]:
        """Cycles alone: how many were made, and the largest move of the last."""
        made, largest = block_gram.cycles(
            self.G[None], self.c, self.x, self.blocks, max_cycles, tolerance
        )
        return int(made), float(largest)

    def newton_step(self) -> bool:
        """Solve on the rows that are not zero, with the curvature of their norms there.

        Shorter steps are tried while the model does not fall; whether one was taken.
        """
        rows = np.flatnonzero(self.x.reshape(-1, self.m).any(axis=1))
        if not rows.size:
            return False
        S, lam = (self.m * rows[:, None] + np.arange(self.m)).reshape(-1), self.lam[rows]
        x, slope, H = self.x[S], np.empty(S.size), self.G[np.ix_(S, S)]
        block_gram.curved(H, x, self.m, lam, slope)
        H.flat[:: S.size + 1] += numerics.SOLVED * float(H.diagonal().max())
        factor = linalg.cholesky(H)
        if factor is None:
            return False
        full, before = linalg.solve(factor, self.c[S] - slope), self.norms(self.x)
        Gd, there = full @ self.G[S], self.x.copy()
        for t in limits.LENGTHS:
            there[S] = x + t * full
            change = t * float(full @ (0.5 * t * Gd[S] - self.c[S])) + self.norms(there) - before
            if change < 0:
                self.x[S] += t * full
                self.c -= t * Gd
                return True
        return False

    def norms(self, x: Array) -> float:
        """Σ_k λ_k‖x_k‖."""
        return float(group.total(x, self.blocks.starts, self.blocks.table, self.rows))
