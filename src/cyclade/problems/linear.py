"""Problems of a linear prediction: f(x) = (1/n) Σ_i φ(y_i, a_iᵀx) + α Σ_t x_t² / (1 + x_t²)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cyclade._arrays import Array
from cyclade._minimize import minimize
from cyclade.blocks import Layout
from cyclade.linear import losses
from cyclade.linear.losses import Logistic, Loss, Squared
from cyclade.methods import Method, as_method
from cyclade.problems.residual import as_table, same_length
from cyclade.run.result import Result
from cyclade.sampling.orders import Greedy
from cyclade.steps import power_iteration
from cyclade.theory import Constants, quadratic_constants, quadratic_Lambda

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.integer[Any]]
Rng = np.random.Generator | int


class LinearProblem:
    """f(x) = (1/n) Σ_i φ(y_i, a_iᵀx) + α Σ_t x_t² / (1 + x_t²), any loss φ.

    `fun`, `jac` and `block_jac` take x and an integer array `idx`: the mean over those terms.
    Without `idx` they mean all n terms; so they do when `idx` has n entries, and then no data are
    copied.

    Parameters
    ----------
    A:
        The rows a_i: an (n, d) array or SciPy sparse matrix.
    y:
        n labels, targets or measurements, whatever the loss takes.
    loss:
        φ: an object or a name of `cyclade.linear.losses`, of one output.
    alpha:
        The weight α ≥ 0 of the nonconvex penalty. It is part of every f_i, and smooth.
    blocks:
        As in `cyclade.minimize`; a number m of contiguous blocks is cut down to d.
    reg:
        r, as in `cyclade.minimize`.

    L_j = sup|φ''| ‖A_{:,j}‖² / n + 2α bounds the curvature in block j everywhere, as the penalty's
    second derivative (2 − 6x²)/(1 + x²)³ lies in [−½, 2].

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.problems import LinearProblem, Squared
    >>> problem = LinearProblem([[1.0, 0.0], [0.0, 2.0]], [1.0, 4.0], Squared(), blocks=2)
    >>> problem.L
    [0.5, 2.0]
    >>> problem.minimize(tol=1e-8).x
    array([1., 2.])

    With a bounded φ (`Welsch`, `GemanMcClure`, `Tukey`) outliers stop mattering once they are far
    away, and f is not convex:

    >>> from cyclade import L1
    >>> A = np.random.default_rng(0).normal(size=(60, 8))
    >>> y = 3.0 * A[:, 0]
    >>> y[:10] = 100.0  # outliers
    >>> result = LinearProblem(A, y, "tukey", reg=L1(0.001)).minimize(tol=1e-6)
    >>> result.success, np.abs(result.x).round(2)
    (True, array([3., 0., 0., 0., 0., 0., 0., 0.]))
    """

    def __init__(
        self,
        A: Any,
        y: Any,
        loss: str | Loss,
        *,
        alpha: float = 0.0,
        blocks: Any = 10,
        reg: Any = None,
    ) -> None:
        self.A, self.y = as_table("A", A, 2), as_table("y", y, 1)
        self.n, self.d = self.A.shape
        same_length(self.n, y=self.y)
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {alpha}")
        self.loss = loss if isinstance(loss, Loss) else losses.get(loss)
        if self.loss.target == "classes":
            raise ValueError(f"loss: {self.loss!r} has several outputs, and a problem has one")
        self.loss.check(self.y)
        if isinstance(blocks, int) and not isinstance(blocks, bool):
            blocks = min(blocks, self.d)
        self.alpha, self.blocks, self.reg = float(alpha), blocks, reg
        self.layout = Layout.of(np.zeros(self.d), blocks)
        self._columns = self.layout.flat_index()
        self._last: tuple[Indices, Any, Floats] | None = None

    def x0(self, rng: Rng = 0) -> Floats:
        """The origin, whatever `rng`."""
        return np.zeros(self.d)

    def minimize(self, x0: Any = None, **options: Any) -> Result:
        """`cyclade.minimize` on this problem; `options` as there, but P-CCD is the default method.

        x0 defaults to ``self.x0(0)``, and L to `L`.
        """
        method = as_method(options.setdefault("method", "P-CCD"), True)
        start = self.x0() if x0 is None else x0
        joined = method.one_block and self.layout.m > 1
        order = method.order if options.get("order") is None else options["order"]
        greedy = isinstance(order, Greedy) or (isinstance(order, str) and order == "greedy")
        if not joined and not greedy:  # else all blocks are wanted at every point
            options.setdefault("block_jac", self.block_jac)
        if isinstance(options["method"], Method):
            options["method"] = replace(method, steps=self.L) if method.steps is None else method
        elif options.get("L") is None:
            options["L"] = self.L
        given = {"blocks": self.blocks, "reg": self.reg, "jac": self.jac, "n": self.n}
        return minimize(self.fun, start, **(given | options))

    def fun(self, x: Floats, idx: Indices | None = None) -> float:
        """The mean of f_i(x) over idx."""
        A, y = self._rows(idx)
        penalty = self.alpha * float((x * x / (1.0 + x * x)).sum()) if self.alpha else 0.0
        return float(self.loss.value(y, A @ x).mean()) + penalty

    def jac(self, x: Floats, idx: Indices | None = None) -> Floats:
        """The mean of ∇f_i(x) over idx."""
        A, y = self._rows(idx)
        return self._gradient(A, A, y, x, x)

    def block_jac(self, x: Floats, j: int, idx: Indices | None = None) -> Floats:
        """Block j of `jac`: one product with A and one with block j's columns."""
        (A, y), columns = self._rows(idx), self._columns[j]
        own = (self._by_columns if A is self.A else A)[:, columns]
        return self._gradient(own, A, y, x, x[columns])

    @cached_property
    def L(self) -> list[float] | None:
        """sup|φ''| ‖A_{:,j}‖² / n + 2α for each block; None where φ'' is unbounded.

        It is 1 where f is flat: then any step will do.
        """
        bound = self.loss.bound
        if not math.isfinite(bound):
            return None
        norms = [_squared_norm(self._by_columns[:, columns]) for columns in self._columns]
        return [bound * norm / self.n + 2.0 * self.alpha or 1.0 for norm in norms]

    def _gradient(self, own: Any, A: Any, y: Floats, x: Floats, own_x: Floats) -> Floats:
        """The gradient in the coordinates whose columns are `own`."""
        gradient: Floats = own.T @ (self.loss.gradient(y, A @ x) / len(y))
        if self.alpha:
            gradient = gradient + (2.0 * self.alpha) * own_x / (1.0 + own_x * own_x) ** 2
        return gradient

    def _rows(self, idx: Indices | None) -> tuple[Any, Floats]:
        """The rows in idx; a cycle asks for the same ones at every block, so they are kept."""
        if idx is None or len(idx) == self.n:
            return self.A, self.y
        if self._last is None or not np.array_equal(self._last[0], idx):
            A = self.A[idx]
            if self._sparse and A.shape[0] * A.shape[1] <= 2**20:  # dense is faster while small
                A = A.toarray()
            self._last = (np.array(idx), A, self.y[idx])
        return self._last[1:]

    @property
    def _sparse(self) -> bool:
        return not isinstance(self.A, np.ndarray)

    @cached_property
    def _by_columns(self) -> Any:
        return self.A.tocsc() if self._sparse else self.A


def _squared_norm(A: Any) -> float:
    """λ_max(AᵀA); by power iteration, with a margin of 2 %, where A has many columns."""
    if A.shape[1] > 1024:
        start = np.random.default_rng(0).standard_normal(A.shape[1])
        return 1.02 * power_iteration(lambda v: A.T @ (A @ v), start, 60)[0]
    gram = A.T @ A
    return float(np.linalg.eigvalsh(gram if isinstance(A, np.ndarray) else gram.toarray())[-1])


class LogisticRegression(LinearProblem):
    """f(x) = (1/n) Σ_i log(1 + exp(−y_i a_iᵀx)) + α Σ_t x_t² / (1 + x_t²), labels y_i = ±1.

    The penalty is nonconvex: it presses small weights to zero and leaves large ones alone. Other
    arguments as in `LinearProblem`; A may be sparse.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade import L1
    >>> from cyclade.problems import LogisticRegression
    >>> A = np.random.default_rng(0).normal(size=(100, 8))
    >>> problem = LogisticRegression(A, np.sign(A[:, 0]), alpha=0.05, blocks=4, reg=L1(0.1))
    >>> result = problem.minimize(tol=1e-6)
    >>> result.success, np.flatnonzero(result.x)
    (True, array([0]))
    """

    def __init__(
        self, A: Any, y: Any, *, alpha: float = 0.1, blocks: Any = 10, reg: Any = None
    ) -> None:
        super().__init__(A, y, Logistic(), alpha=alpha, blocks=blocks, reg=reg)


@dataclass(frozen=True)
class Intensity(Loss):
    """φ(y, z) = ¼ (z² − y)² of a measured intensity y ≥ 0. Its curvature 3z² − y has no bound.

    No parabola lies above it either, so the solvers of `cyclade.linear` have no use for it.

    >>> Intensity().gradient(np.ones(2), np.array([2.0, -1.0]))
    array([ 6., 0.])
    """

    convex = False

    def value(self, y: Array, z: Array) -> Array:
        """¼ (z² − y)²."""
        return 0.25 * (z * z - y) ** 2

    def gradient(self, y: Array, z: Array) -> Array:
        """(z² − y) z."""
        return (z * z - y) * z

    def second_derivative(self, y: Array, z: Array) -> Array:
        """3z² − y."""
        return 3.0 * z * z - y

    def check(self, y: Array) -> None:
        """Intensities are not negative."""
        if (y < 0).any():
            raise ValueError("Intensity: y must hold intensities, at least 0")


class PhaseRetrieval(LinearProblem):
    """f(x) = (1/n) Σ_i ¼ ((a_iᵀx)² − y_i)²: find x, up to sign, from real intensities y_i ≥ 0.

    The curvature is unbounded, so there is no L_j: `minimize` backtracks. `x0` is the spectral
    start: the leading eigenvector of (1/n) Σ_i y_i a_i a_iᵀ, as long as the mean intensity says.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.problems import PhaseRetrieval
    >>> A, x = np.random.default_rng(0).normal(size=(80, 4)), np.array([1.0, -2.0, 0.0, 0.5])
    >>> found = PhaseRetrieval(A, (A @ x) ** 2, blocks=2).minimize(tol=1e-8).x
    >>> np.abs(found).round(6)
    array([1. , 2. , 0. , 0.5])
    """

    def __init__(self, A: Any, y: Any, *, blocks: Any = 10, reg: Any = None) -> None:
        super().__init__(A, y, Intensity(), blocks=blocks, reg=reg)

    def x0(self, rng: Rng = 0) -> Floats:
        """The spectral start, by power iteration from a random vector; `rng` settles the sign."""
        v: Floats = np.random.default_rng(rng).standard_normal(self.d)
        for _ in range(100):
            v = self.A.T @ (self.y * (self.A @ v))
            v /= np.linalg.norm(v) or 1.0
        energy = float((self.A.multiply(self.A) if self._sparse else self.A**2).mean())
        scaled: Floats = v * np.sqrt(self.y.mean() / energy)
        return scaled


class PLQuadratic(LinearProblem):
    """f(x) = (1/n) Σ_i ½ (a_iᵀx − y_i)² with fewer independent a_i than coordinates, and r = 0.

    Its Hessian H = AᵀA/n is singular, so f is not strongly convex; yet it has the PŁ property

        ‖∇f(x)‖²_{Λ^{−1}} ≥ 2μ (f(x) − f*),

    where the largest μ is the smallest non-zero eigenvalue of Λ^{−1/2} H Λ^{−1/2}. With Λ_j = L_j I
    and L_j = ‖H_jj‖, everything the analysis needs is known exactly.

    Attributes: `hessian`; `f_star`; `x_star`, the least-norm minimiser; `mu`; `constants`, (L̂, L̃)
    of f; `expected`, the (L_j), (L̂, L̃) of Assumptions 6 and 7 for the terms f_i.

    Example
    -------
    >>> from cyclade.problems import PLQuadratic
    >>> problem = PLQuadratic([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [0.0, 2.0], blocks=[1, 2])
    >>> problem.L, problem.mu, problem.f_star
    ([1.0, 1.0], 2.0, 0.5)
    >>> problem.constants
    Constants(L_hat=2.618, L_tilde=1.0)
    """

    def __init__(self, A: Any, y: Any, *, blocks: Any = 10) -> None:
        super().__init__(A, y, Squared(), blocks=blocks)
        if self._sparse:
            raise TypeError("PLQuadratic needs a dense A: its constants are")
        self.hessian: Floats = self.A.T @ self.A / self.n
        self.x_star: Floats = np.linalg.lstsq(self.A, self.y, rcond=None)[0]
        self.f_star = self.fun(self.x_star)

    @classmethod
    def random(
        cls, n: int = 40, d: int = 12, rank: int = 6, *, blocks: Any = 4, rng: Rng = 0
    ) -> PLQuadratic:
        """A random instance of the given rank, its targets off the range of A."""
        if not 1 <= rank <= min(n, d):
            raise ValueError(f"rank must be between 1 and min(n, d) = {min(n, d)}, got {rank}")
        generator = np.random.default_rng(rng)
        A = generator.standard_normal((n, rank)) @ generator.standard_normal((rank, d))
        return cls(A / np.sqrt(rank), generator.standard_normal(n), blocks=blocks)

    @property
    def sizes(self) -> list[int]:
        """d^1, …, d^m."""
        return list(self.layout.sizes)

    @cached_property
    def mu(self) -> float:
        """The PŁ constant of f in the norm of Λ^{−1}, Λ_j = L_j I."""
        return self.pl_constant(self._checked_L)

    def pl_constant(self, Lambda: list[float]) -> float:
        """The PŁ constant in the norm of Λ^{−1}, for Λ_j = Lambda[j] I."""
        root = np.empty(self.d)
        for columns, value in zip(self._columns, Lambda, strict=True):
            root[columns] = np.sqrt(value)
        spectrum = np.linalg.eigvalsh(self.hessian / (root[:, None] * root))
        noise = self.d * np.finfo(float).eps * spectrum[-1]
        return float(spectrum[spectrum > 8.0 * noise][0])

    @cached_property
    def constants(self) -> Constants:
        """L̂ and L̃ of f (Assumption 3 with equality), for Λ_j = L_j I."""
        return quadratic_constants(self.hessian, self._checked_L, self.sizes)

    @cached_property
    def expected(self) -> tuple[list[float], Constants]:
        """The L_j of Assumption 6, and with them the L̂ and L̃ of Assumption 7."""
        terms = self.A[:, :, None] * self.A[:, None, :]
        Lambda = quadratic_Lambda(terms, self.sizes).tolist()
        return Lambda, quadratic_constants(terms, Lambda, self.sizes)

    @property
    def _checked_L(self) -> list[float]:
        assert self.L is not None
        return self.L
