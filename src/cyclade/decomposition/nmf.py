"""Non-negative matrix factorisation, also with missing and weighted entries."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from cyclade._checks import fraction, non_negative, require, whole_number
from cyclade.decomposition.base import MatrixDecomposition, factors
from cyclade.decomposition.blocks import Array, Separable

INITS = ("random", "nndsvd", "nndsvda", "custom")


class NMF(MatrixDecomposition):
    """X ≈ WH with W, H ≥ 0, for X of shape (n, p), some of whose entries may be missing.

    F(W, H) = ½ Σ s_ij (x_ij − (WH)_ij)² + l1_ratio (p alpha_W ‖W‖₁ + n alpha_H ‖H‖₁)
              + ½ (1 − l1_ratio) (p alpha_W ‖W‖² + n alpha_H ‖H‖²)

    over W (n, k), H (k, p) ≥ 0: the objective of scikit-learn's `NMF`. The blocks are the columns
    of W and the rows of H. Each is minimised over exactly, so F never rises (HALS):

        w_t ← max(0, (X − Σ_{u≠t} w_u h_uᵀ) h_t − l1) / (‖h_t‖² + l2).

    NaN in a dense X is missing; so are entries of weight zero. Missing entries cost nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.decomposition import NMF
    >>> X = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 2.0])
    >>> X[0, 0] = np.nan
    >>> model = NMF(n_components=1, tol=1e-6).fit(X)
    >>> model.inverse_transform(model.transform(X)).round(3)[0]
    array([1. , 0.5, 2. ])
    >>> model.certificate_.reached
    True
    """

    n_components: Annotated[int | None, "int or None", "k; None for as many as X has columns."] = (
        field(default=None, kw_only=False)
    )
    init: Annotated[
        str | None,
        "{'random', 'nndsvd', 'nndsvda', 'custom'} or None",
        "The start; None is 'nndsvda' where k ≤ min(n, p) and nothing is missing, else 'random'. "
        "'custom' takes W and H from `fit_transform`.",
    ] = None
    alpha_W: Annotated[float, "Weight of the penalty of W."] = 0.0
    alpha_H: Annotated[float | str, "float or 'same'", "That of H; 'same' is `alpha_W`."] = "same"
    l1_ratio: Annotated[float, "The part of the penalties that is l1; the rest is squared."] = 0.0

    reconstruction_err_: Annotated[float, "√ Σ s_ij (x_ij − (WH)_ij)² at the end."] = field(
        init=False
    )
    n_components_: Annotated[int, "k."] = field(init=False)

    def fit_transform(
        self, X: Any, y: Any = None, weights: Any = None, W: Any = None, H: Any = None
    ) -> Array:
        """Fit as `fit` does, and return W; `init="custom"` starts at W and H."""
        X, S = self._nonnegative(X, weights, reset=True)
        (n, p), k = X.shape, self.n_components
        k = p if k is None else whole_number("n_components", k, 1)
        w, h = self._penalties(n, p)
        descent = self._descent(X, S, *self._start(X, S, k, W, H), w, h)
        self.reconstruction_err_ = float(np.sqrt(2.0 * self._fit(descent)))
        (W, self.components_), self.n_components_ = factors(descent), k
        return np.asarray(W)

    def transform(self, X: Any, weights: Any = None) -> Array:
        """W for rows of X, which may be new, given H."""
        check_is_fitted(self)
        X, S = self._nonnegative(X, weights, reset=False)
        return self._codes(X, S, self._penalties(1, X.shape[1])[0])

    def _nonnegative(self, X: Any, weights: Any, reset: bool) -> tuple[Any, Any]:
        X, S = self._checked(X, weights, reset)
        if X.size and X.min() < 0:
            raise ValueError("Negative values in data passed to NMF: X must hold numbers >= 0")
        return X, S

    def _penalties(self, n: int, p: int) -> tuple[Separable, Separable]:
        ratio, alpha_W = fraction("l1_ratio", self.l1_ratio), non_negative("alpha_W", self.alpha_W)
        same = isinstance(self.alpha_H, str) and self.alpha_H == "same"
        alpha_H = alpha_W if same else non_negative("alpha_H", self.alpha_H)
        return (
            Separable(p * alpha_W * ratio, p * alpha_W * (1 - ratio), positive=True),
            Separable(n * alpha_H * ratio, n * alpha_H * (1 - ratio), positive=True),
        )

    def _start(self, X: Any, S: Any, k: int, W: Any, H: Any) -> tuple[Array, Array]:
        init = self.init
        if init is None:
            init = "nndsvda" if k <= min(X.shape) and S is None else "random"
        require(init in INITS, "init", init, f"None or one of {', '.join(map(repr, INITS))}")
        if init == "custom":
            return given("W", W, (X.shape[0], k), X.dtype), given("H", H, (k, X.shape[1]), X.dtype)
        for name, value in (("W", W), ("H", H)):
            require(value is None, name, value, "None unless init='custom'")
        random = check_random_state(self.random_state)
        if init == "random":
            mean = X.mean() if S is None else S.multiply(X).sum() / S.sum()
            scale = np.sqrt(mean / k)
            H = scale * abs(random.standard_normal((k, X.shape[1])))
            W = scale * abs(random.standard_normal((X.shape[0], k)))
        else:
            if S is not None or k > min(X.shape):
                raise ValueError(
                    f"init={init!r} needs n_components <= min(n, p) = {min(X.shape)} and an X with "
                    "no missing or weighted entries; use init='random'"
                )
            W, H = nndsvd(X, k, random, X.mean() if init == "nndsvda" else 0.0)
        return W.astype(X.dtype, copy=False), H.astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def given(name: str, Z: Any, shape: tuple[int, int], dtype: Any) -> Array:
    """A start that was given."""
    Z = np.asarray(Z, dtype) if Z is not None else np.empty(0)
    ok = Z.shape == shape and bool(np.isfinite(Z).all()) and bool((Z >= 0).all())
    require(ok, name, Z, f"an array of shape {shape} with finite numbers >= 0")
    return np.asarray(Z)


def nndsvd(X: Any, k: int, random: Any, fill: float) -> tuple[Array, Array]:
    """The positive or negative parts of k pairs of singular vectors, zeros filled with `fill`."""
    U, s, V = randomized_svd(X, k, random_state=random)
    W, H = np.empty_like(U), np.empty_like(V)
    for t in range(k):
        pairs = [(np.maximum(sign * U[:, t], 0), np.maximum(sign * V[t], 0)) for sign in (1, -1)]
        sizes = [np.linalg.norm(u) * np.linalg.norm(v) for u, v in pairs]
        (u, v), size = max(zip(pairs, sizes, strict=True), key=lambda pair: pair[1])
        scale = np.sqrt(s[t] * size) if size else 0.0
        W[:, t] = scale * u / (np.linalg.norm(u) or 1.0)
        H[t] = scale * v / (np.linalg.norm(v) or 1.0)
    for Z in (W, H):
        Z[1e-6 * Z.max() >= Z] = fill  # signs of less are rounding
    return W, H
