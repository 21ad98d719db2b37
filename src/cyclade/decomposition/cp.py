"""The CP decomposition of dense tensors by alternating exact least squares."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cyclade._checks import non_negative, real_array, require, whole_number
from cyclade.decomposition.base import Decomposition
from cyclade.decomposition.blocks import MOST_PASSES, Array, Separable, norm
from cyclade.linear.checks import check_flag

LETTERS = "abcdefghijklmnopqrstuvwxy"  # of modes, in einsum; z is that of components


class CP(Decomposition):
    """A dense tensor X of three or more ways as a sum of `rank` outer products (CANDECOMP/PARAFAC).

    F(A_1, …, A_N) = ½ ‖X − Σ_r a_r^1 ∘ … ∘ a_r^N‖² + ½ alpha Σ_n ‖A_n‖²,  A_n of shape (I_n, rank)

    The blocks are the factors. Given the others, A_n has the normal equations A_n (G_n + alpha I) =
    M_n, where M_n is X times the other factors (MTTKRP) and G_n the entrywise product of their
    Gram matrices. They are solved exactly (ALS); with `nonnegative`, cycles over the columns of A_n
    minimise exactly over each (HALS). F never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.decomposition import CP
    >>> X = np.einsum("i,j,k->ijk", [1.0, 2.0], [1.0, -1.0, 3.0], [2.0, 1.0])
    >>> model = CP(rank=1).fit(X)
    >>> bool(np.allclose(model.reconstruct(), X, atol=1e-4)), model.certificate_.reached
    (True, True)
    """

    rank: Annotated[int, "How many outer products."] = field(default=1, kw_only=False)
    nonnegative: Annotated[bool, "Whether all factors are ≥ 0."] = False
    alpha: Annotated[float, "Weight ≥ 0 of the squared factors."] = 0.0
    init: Annotated[
        Any,
        "{'svd', 'random'} or list of arrays",
        "Leading singular vectors of the unfoldings of X, normal entries, or factors given.",
    ] = "svd"

    factors_: Annotated[list[Array], "list of arrays of shape (I_n, rank)", "The A_n."] = field(
        init=False
    )
    reconstruction_err_: Annotated[float, "‖X − Σ_r a_r^1 ∘ … ∘ a_r^N‖."] = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit to the tensor X."""
        X = X if getattr(X, "dtype", None) == np.float32 else real_array("X", X)
        require(3 <= X.ndim <= len(LETTERS) and X.size > 0, "X", X, "a tensor of 3 or more ways")
        require(bool(np.isfinite(X).all()), "X", X, "a tensor of finite numbers")
        check_flag("nonnegative", self.nonnegative)
        k, alpha = whole_number("rank", self.rank, 1), non_negative("alpha", self.alpha)
        r = Separable(l2=alpha, positive=bool(self.nonnegative))
        descent = Alternating(X, self._start(X, k), r)
        self.reconstruction_err_ = float(np.sqrt(2.0 * self._fit(descent)))
        self.factors_ = descent.factors
        return self

    def reconstruct(self) -> Array:
        """Σ_r a_r^1 ∘ … ∘ a_r^N."""
        check_is_fitted(self)
        return outer(self.factors_)

    def _start(self, X: Array, k: int) -> list[Array]:
        if isinstance(self.init, str):
            require(self.init in ("svd", "random"), "init", self.init, "'svd', 'random' or factors")
            random = check_random_state(self.random_state)
            start = [random.standard_normal((size, k)) for size in X.shape]
            for mode in range(X.ndim if self.init == "svd" else 0):
                unfolded = np.moveaxis(X, mode, 0).reshape(X.shape[mode], -1)
                vectors = np.linalg.eigh(unfolded @ unfolded.T)[1][:, ::-1][:, :k]
                start[mode][:, : vectors.shape[1]] = vectors
            start = [abs(A) for A in start] if self.nonnegative else start
        else:
            shapes = [(size, k) for size in X.shape]
            start = [np.asarray(A) for A in self.init]
            ok = [A.shape for A in start] == shapes and all(np.isfinite(A).all() for A in start)
            require(ok, "init", self.init, f"'svd', 'random' or finite arrays of shapes {shapes}")
            negative = self.nonnegative and any((A < 0).any() for A in start)
            require(not negative, "init", self.init, "factors >= 0, as nonnegative=True")
        return [np.array(A, X.dtype, order="C") for A in start]


class Alternating:
    """F along a descent over the factors.

    X is read twice in a cycle: its product with the last factor serves all other modes.
    """

    def __init__(self, X: Array, factors: list[Array], r: Separable) -> None:
        self.X, self.factors, self.r = X, factors, r
        self.grams = [A.T @ A for A in factors]
        self._contract()

    def _contract(self) -> None:
        self.tail = self.X @ self.factors[-1]

    def cycle(self) -> None:
        """One minimisation over each factor."""
        last = self.X.ndim - 1
        for mode in range(last):
            self._minimise(mode, self._products(mode))
        head = np.tensordot(self.factors[0].T, self.X, 1)
        self.M = contracted(np.moveaxis(head, 0, -1), self.factors[1:], last - 1)
        self._minimise(last, self.M)
        self._balance()
        self._contract()

    def _balance(self) -> None:
        """Minimise the squares over the scales of a component in its factors: all norms equal."""
        norms = np.array([np.linalg.norm(A, axis=0) for A in self.factors])
        norms[:, (norms == 0).any(axis=0)] = 1.0
        scales = np.exp(np.log(norms).mean(axis=0)) / norms
        for A, scale in zip(self.factors, scales.astype(self.X.dtype), strict=True):
            A *= scale
        self.grams = [A.T @ A for A in self.factors]
        self.M /= scales[-1].astype(self.X.dtype)

    def _products(self, mode: int) -> Array:
        """M_n of a mode before the last."""
        return contracted(self.tail, self.factors[:-1], mode)

    def _gram(self, mode: int) -> Array:
        out = np.ones_like(self.grams[0])
        for other, gram in enumerate(self.grams):
            if other != mode:
                out = out * gram
        return out

    def _minimise(self, mode: int, M: Array) -> None:
        A, G = self.factors[mode], self._gram(mode)
        if self.r.positive:
            Z = np.ascontiguousarray(A.T)
            self.r.minimise(G, np.ascontiguousarray(M.T), Z, MOST_PASSES)
            A[:] = Z.T
        else:  # a move, so that directions in which G is singular stay as they are
            H = G + G.dtype.type(self.r.l2) * np.eye(len(G), dtype=G.dtype)
            A -= np.linalg.lstsq(H, (A @ H - M).T, rcond=None)[0].T
        self.grams[mode] = A.T @ A

    def measure(self) -> tuple[float, float]:
        """dist(0, ∂F) after a cycle, and the norm of all M_n, to which it is compared."""
        last = self.X.ndim - 1
        products = [self._products(mode) for mode in range(last)] + [self.M]
        gradients = [A @ self._gram(n) - products[n] for n, A in enumerate(self.factors)]
        distances = [self.r.distance(g, A) for g, A in zip(gradients, self.factors, strict=True)]
        return norm(distances), norm([norm(M) for M in products])

    def values(self) -> tuple[float, float]:
        """½ ‖X − Σ_r a_r^1 ∘ … ∘ a_r^N‖², and the penalty."""
        loss = 0.5 * norm(self.X - outer(self.factors)) ** 2
        return loss, sum(map(self.r.value, self.factors))


def contracted(T: Array, factors: list[Array], mode: int) -> Array:
    """T with components last, contracted with all factors but that of `mode`."""
    ways = LETTERS[: len(factors)]
    for other in reversed(range(len(factors))):
        if other != mode:
            left = ways.replace(ways[other], "")
            T = np.einsum(f"{ways}z,{ways[other]}z->{left}z", T, factors[other])
            ways = left
    return T


def outer(factors: list[Array]) -> Array:
    """Σ_r a_r^1 ∘ … ∘ a_r^N."""
    left = factors[0]
    for A in factors[1:-1]:
        left = (left[:, None, :] * A[None, :, :]).reshape(-1, A.shape[1])
    return (left @ factors[-1].T).reshape([len(A) for A in factors])
