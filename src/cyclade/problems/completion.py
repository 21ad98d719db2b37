"""Matrix completion: a low-rank matrix from some of its entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from cyclade.blocks import Blocks, Layout
from cyclade.problems.base import Floats, Indices, Problem, Rng, as_table, same_length
from cyclade.regularisers import NuclearNorm, SquaredL2


class _Observed(Problem):
    """A matrix seen at the entries (rows_i, columns_i), with values y_i."""

    def __init__(self, rows: Any, columns: Any, y: Any, shape: tuple[int, int]) -> None:
        self.y: Floats = as_table("y", y, 1)
        self.rows, self.columns = np.asarray(rows), np.asarray(columns)
        self.n, self.shape = len(self.y), (int(shape[0]), int(shape[1]))
        same_length(self.n, rows=self.rows, columns=self.columns)
        for name, index, size in (
            ("rows", self.rows, self.shape[0]),
            ("columns", self.columns, self.shape[1]),
        ):
            if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= size:
                raise ValueError(f"{name} must be integers between 0 and {size - 1}")

    def _entries(self, idx: Indices | None) -> tuple[Indices, Indices, Floats]:
        idx = self._chosen(idx)
        if idx is None:
            return self.rows, self.columns, self.y
        return self.rows[idx], self.columns[idx], self.y[idx]


class MatrixCompletion(_Observed):
    """f(U, V) = (1/n) Σ_i ½ (u_{rᵢ}ᵀ v_{cᵢ} − y_i)² over n observed entries (rᵢ, cᵢ).

    x is a dict of U (rows, k) and V (columns, k), each a block; by default
    r = (lam/2)(‖U‖² + ‖V‖²), which at its minimum is lam times the nuclear norm of UVᵀ.

    f is quadratic in U given V, and couples only entries of one row of U. So Λ_U is a diagonal,
    constant on each row r of U: the sum of ‖v_c‖²/n over the entries seen in that row. It bounds
    the curvature, and rows seen often do not slow down rows seen seldom.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.problems import MatrixCompletion
    >>> M = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> rows, columns = np.nonzero(np.arange(12).reshape(4, 3) % 5 != 0)  # all but three entries
    >>> problem = MatrixCompletion(rows, columns, M[rows, columns], M.shape, rank=1, lam=1e-6)
    >>> result = problem.minimize(tol=1e-6)
    >>> np.round(problem.matrix(result.x), 2)
    array([[ 1., -1., 2.],
           [ 2., -2., 4.],
           [ 3., -3., 6.],
           [ 4., -4., 8.]])
    """

    def __init__(
        self,
        rows: Any,
        columns: Any,
        y: Any,
        shape: tuple[int, int],
        rank: int,
        *,
        lam: float = 0.0,
        reg: Any = None,
    ) -> None:
        super().__init__(rows, columns, y, shape)
        if rank < 1:
            raise ValueError(f"rank must be at least 1, got {rank}")
        self.rank, self.blocks = rank, None
        self.reg = SquaredL2(lam) if reg is None else reg
        self.layout = Layout.of(
            {"U": np.zeros((self.shape[0], rank)), "V": np.zeros((self.shape[1], rank))}
        )

    def matrix(self, x: dict[str, Floats]) -> Floats:
        """The completed matrix UVᵀ."""
        return x["U"] @ x["V"].T

    def x0(self, rng: Rng = 0) -> dict[str, Floats]:
        """Normal entries, scaled so that UVᵀ is about as large as the entries seen."""
        generator = np.random.default_rng(rng)
        scale = (np.mean(self.y**2) / self.rank) ** 0.25
        U, V = (scale * generator.standard_normal((size, self.rank)) for size in self.shape)
        return {"U": U, "V": V}

    def fun(self, x: dict[str, Floats], idx: Indices | None = None) -> float:
        """The mean of ½ (u_rᵀ v_c − y)² over the entries idx."""
        return 0.5 * float(np.mean(self._residual(x, idx) ** 2))

    def jac(self, x: dict[str, Floats], idx: Indices | None = None) -> dict[str, Floats]:
        """The gradient in U and V."""
        return {"U": self.block_jac(x, 0, idx), "V": self.block_jac(x, 1, idx)}

    def block_jac(self, x: dict[str, Floats], j: int, idx: Indices | None = None) -> Floats:
        """The gradient in U (j = 0) or V (j = 1)."""
        rows, columns, y = self._entries(idx)
        weighted = self._residual(x, idx)[:, None] / len(y)
        if j == 0:
            return _summed(weighted * x["V"][columns], rows, self.shape[0])
        return _summed(weighted * x["U"][rows], columns, self.shape[1])

    def local_L(self, j: int, now: Blocks) -> Floats:
        """A diagonal that bounds the curvature in U given V, or in V given U."""
        here, there = (self.rows, self.columns) if j == 0 else (self.columns, self.rows)
        lengths = np.square(now.get(1 - j)).sum(axis=1)[there] / self.n
        trace = np.bincount(here, lengths, minlength=self.shape[j])
        floor = 1e-2 * trace.mean() or 1.0  # for rows that were never seen, where f is flat
        return np.repeat(np.maximum(trace, floor)[:, None], self.rank, axis=1)

    def torch_fun(self, x: Any, idx: Any = None) -> Any:
        """`fun` in torch; autograd differentiates it."""
        import torch

        chosen = None if idx is None else np.asarray(idx.cpu())
        rows, columns, y = map(torch.as_tensor, self._entries(chosen))
        U, V = x["U"], x["V"]
        rows, columns, y = rows.to(U.device), columns.to(U.device), y.to(U.device, U.dtype)
        return 0.5 * ((U[rows] * V[columns]).sum(1) - y).square().mean()

    def _residual(self, x: dict[str, Floats], idx: Indices | None) -> Floats:
        rows, columns, y = self._entries(idx)
        product: Floats = np.einsum("ik,ik->i", x["U"][rows], x["V"][columns])
        return product - y


def _summed(terms: Floats, index: Indices, size: int) -> Floats:
    """Row s of the result is the sum of the terms whose index is s."""
    out = np.empty((size, terms.shape[1]))
    for t in range(terms.shape[1]):
        out[:, t] = np.bincount(index, terms[:, t], minlength=size)
    return out


class NuclearCompletion(_Observed):
    """f(X) = (1/n) Σ_i ½ (X_{rᵢcᵢ} − y_i)² over n observed entries, r = lam ‖X‖_*: convex.

    The whole matrix X is one block, with the nuclear norm. L = (the most often that one entry was
    observed) / n, exactly.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.problems import NuclearCompletion
    >>> M = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> rows, columns = np.nonzero(np.arange(12).reshape(4, 3) % 5 != 0)  # all but three entries
    >>> problem = NuclearCompletion(rows, columns, M[rows, columns], M.shape, lam=0.03)
    >>> problem.minimize(tol=1e-7).x.round(1)  # all entries are shrunk a little
    array([[ 1. , -1. , 2. ],
           [ 1.9, -1.9, 3.8],
           [ 3. , -2.9, 5.9],
           [ 3.9, -3.8, 7.8]])
    """

    def __init__(
        self, rows: Any, columns: Any, y: Any, shape: tuple[int, int], *, lam: float
    ) -> None:
        super().__init__(rows, columns, y, shape)
        self.blocks, self.reg = None, NuclearNorm(lam)
        self.layout = Layout.of(np.zeros(self.shape))
        flat = np.ravel_multi_index((self.rows, self.columns), self.shape)
        self._most = int(np.bincount(flat).max())

    def x0(self, rng: Rng = 0) -> Floats:
        """The zero matrix, whatever `rng`."""
        return np.zeros(self.shape)

    def fun(self, x: Floats, idx: Indices | None = None) -> float:
        """The mean of ½ (X_rc − y)² over the entries idx."""
        rows, columns, y = self._entries(idx)
        return 0.5 * float(np.mean((x[rows, columns] - y) ** 2))

    def jac(self, x: Floats, idx: Indices | None = None) -> Floats:
        """The gradient in X, zero where nothing was observed."""
        rows, columns, y = self._entries(idx)
        gradient = np.zeros(self.shape)
        np.add.at(gradient, (rows, columns), (x[rows, columns] - y) / len(y))
        return gradient

    @property
    def L(self) -> list[float]:
        """The number of times the most observed entry was observed, over n."""
        return [self._most / self.n]
