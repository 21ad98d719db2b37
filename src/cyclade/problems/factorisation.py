"""Non-negative matrix factorisation."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cyclade.blocks import Blocks, Layout
from cyclade.problems.base import (
    Floats,
    Indices,
    Problem,
    Rng,
    as_table,
    positive_or_one,
)
from cyclade.regularisers import NonNegative


class NMF(Problem):
    """f(W, H) = (1/n) Σ_i ½ ‖v_i − w_i H‖² = ‖V − WH‖² / 2n over W, H ≥ 0, for V of shape (n, p).

    With ``blocks="factors"``, x is a dict of W (n, k) and H (k, p), each a block. With
    ``blocks="components"`` the blocks are the k columns of W and then the k rows of H, and x is one
    vector, Wᵀ and H flattened end to end; `factors` reads either. f is quadratic in each block, so
    its curvature there is known given the other blocks: ‖HHᵀ‖/n and ‖WᵀW‖/n, or ‖h_r‖²/n and
    ‖w_r‖²/n. The latter are exact in every direction, so that P-CCD minimises over each component
    in turn: that is the method known as HALS.

    A term f_i sees only row i of W, with a curvature in it that is n times that of f. So the
    stochastic methods need an η of about b/n.

    Example
    -------
    >>> import numpy as np
    >>> from cyclade.problems import NMF
    >>> V = np.outer([1.0, 2.0, 3.0], [1.0, 0.5]) + np.outer([0.0, 1.0, 0.0], [0.0, 1.0])
    >>> problem = NMF(V, rank=2, blocks="components")
    >>> result = problem.minimize(tol=1e-7)
    >>> W, H = problem.factors(result.x)
    >>> result.success, bool(np.abs(V - W @ H).max() < 1e-5), bool(min(W.min(), H.min()) >= 0)
    (True, True, True)
    """

    def __init__(
        self,
        V: Any,
        rank: int,
        *,
        blocks: Literal["factors", "components"] = "factors",
        reg: Any = None,
    ) -> None:
        self.V = as_table("V", V, 2)
        if (self.V < 0).sum():
            raise ValueError("V must not be negative")
        if rank < 1:
            raise ValueError(f"rank must be at least 1, got {rank}")
        if blocks not in ("factors", "components"):
            raise ValueError(f"blocks must be 'factors' or 'components', got {blocks!r}")
        self.n, self.p = self.V.shape
        self.rank = rank
        self.by_components = blocks == "components"
        self.blocks = [self.n] * rank + [self.p] * rank if self.by_components else None
        self.reg = NonNegative() if reg is None else reg
        self.layout = Layout.of(
            self._packed(np.zeros((self.n, rank)), np.zeros((rank, self.p))), self.blocks
        )

    def factors(self, x: Any) -> tuple[Floats, Floats]:
        """W and H."""
        if not self.by_components:
            return x["W"], x["H"]
        cut = self.rank * self.n
        return x[:cut].reshape(self.rank, self.n).T, x[cut:].reshape(self.rank, self.p)

    def x0(self, rng: Rng = 0) -> Any:
        """|N(0, 1)| entries, scaled so that WH is about as large as V."""
        generator = np.random.default_rng(rng)
        scale = np.sqrt(self.V.mean() / self.rank)
        W = scale * np.abs(generator.standard_normal((self.n, self.rank)))
        return self._packed(W, scale * np.abs(generator.standard_normal((self.rank, self.p))))

    def fun(self, x: Any, idx: Indices | None = None) -> float:
        """The mean of ½ ‖v_i − w_i H‖² over idx."""
        V, W, H = self._sampled(x, idx)
        return 0.5 * float(np.sum(np.square(W @ H - V))) / len(W)

    def jac(self, x: Any, idx: Indices | None = None) -> Any:
        """The gradient in W and H, structured like x."""
        V, W, H = self._sampled(x, idx)
        residual = np.asarray(W @ H - V) / len(W)
        return self._packed(self._spread(residual @ H.T, idx), W.T @ residual)

    def block_jac(self, x: Any, j: int, idx: Indices | None = None) -> Floats:
        """The gradient in one factor or component, without forming WH."""
        V, W, H = self._sampled(x, idx)
        k, b = self.rank, len(W)
        if not self.by_components:
            if j == 0:
                return self._spread((W @ (H @ H.T) - V @ H.T) / b, idx)
            gradient: Floats = ((W.T @ W) @ H - W.T @ V) / b
            return gradient
        if j < k:
            return self._spread((W @ (H @ H[j]) - V @ H[j]) / b, idx)
        w = W[:, j - k]
        row: Floats = ((w @ W) @ H - w @ V) / b
        return row

    def local_L(self, j: int, now: Blocks) -> float:
        """The curvature in block j, given the other blocks."""
        if self.by_components:
            other = now.get((j + self.rank) % (2 * self.rank))
            return positive_or_one(float(other @ other) / self.n)
        other = now.get(1 - j)
        gram = other @ other.T if j == 0 else other.T @ other
        return positive_or_one(float(np.linalg.eigvalsh(gram)[-1]) / self.n)

    def torch_fun(self, x: Any, idx: Any = None) -> Any:
        """`fun` in torch, for a dense V; autograd differentiates it."""
        import torch

        W, H = self.factors(x)
        V: Any = torch.as_tensor(self.V)
        V = V.to(H.device, H.dtype)
        if idx is not None and len(idx) != self.n:
            V, W = V[idx], W[idx]
        return 0.5 * (W @ H - V).square().sum() / len(W)

    def _sampled(self, x: Any, idx: Indices | None) -> tuple[Any, Floats, Floats]:
        W, H = self.factors(x)
        idx = self._chosen(idx)
        return (self.V, W, H) if idx is None else (self.V[idx], W[idx], H)

    def _spread(self, rows: Floats, idx: Indices | None) -> Floats:
        """The gradient of all of W (or of a column) from that of the sampled rows."""
        idx = self._chosen(idx)
        if idx is None:
            return rows
        full = np.zeros((self.n, *rows.shape[1:]))
        np.add.at(full, idx, rows)
        return full

    def _packed(self, W: Floats, H: Floats) -> Any:
        if self.by_components:
            return np.concatenate([W.T.reshape(-1), H.reshape(-1)])
        return {"W": W, "H": H}
