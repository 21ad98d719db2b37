"""Dictionary learning: sparse codes on atoms of length one."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cyclade._checks import non_negative, real_array, require, whole_number
from cyclade.decomposition.base import MatrixDecomposition, factors
from cyclade.decomposition.blocks import Array, Separable, UnitBall


class DictionaryLearning(MatrixDecomposition):
    """X ≈ UV with sparse codes U and atoms V, the rows of V, in the unit ball.

    F(U, V) = ½ ‖X − UV‖² + alpha ‖U‖₁  over U (n, k) and V (k, p) with ‖v_t‖ ≤ 1,

    the objective of scikit-learn's. The blocks are the columns of U (a lasso with one coefficient
    for each row) and the atoms. Each is minimised over exactly:

        u_t ← soft((X − Σ_{s≠t} u_s v_sᵀ) v_t, alpha) / ‖v_t‖²
        v_t ← z / max(1, ‖z‖),  z = (X − Σ_{s≠t} u_s v_sᵀ)ᵀ u_t / ‖u_t‖²

    `transform` solves the lasso of each row on the atoms. Missing entries are not taken.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.decomposition import DictionaryLearning
    >>> rng = np.random.default_rng(0)
    >>> atoms = np.linalg.qr(rng.standard_normal((6, 6)))[0][:3]
    >>> X = rng.standard_normal((200, 3)) * (rng.random((200, 3)) < 0.3) @ atoms
    >>> model = DictionaryLearning(n_components=3, alpha=0.01, random_state=0).fit(X)
    >>> abs(model.components_ @ atoms.T).max(axis=1).round(2)
    array([1., 1., 1.])
    """

    n_components: Annotated[int | None, "int or None", "k; None for as many as X has columns."] = (
        field(default=None, kw_only=False)
    )
    alpha: Annotated[float, "λ of the codes."] = 1.0
    dict_init: Annotated[
        Any, "array of shape (n_components, p)", "First atoms; None draws rows of X."
    ] = None
    tol: Annotated[float, "As of the others, but finer: atoms may be nearly parallel."] = 1e-5
    _missing = False

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit to the rows of X and return their codes."""
        X, r = self._complete(X, reset=True)
        k = X.shape[1] if self.n_components is None else self.n_components
        k = whole_number("n_components", k, 1)
        codes = np.zeros((X.shape[0], k), X.dtype)
        descent = self._descent(X, None, codes, self._atoms(X, k), r, UnitBall())
        self._fit(descent)
        codes, self.components_ = factors(descent)
        return codes

    def transform(self, X: Any) -> Array:
        """The sparse codes of rows of X, which may be new."""
        check_is_fitted(self)
        X, r = self._complete(X, reset=False)
        return self._codes(X, None, r)

    def _complete(self, X: Any, reset: bool) -> tuple[Any, Separable]:
        return self._checked(X, None, reset)[0], Separable(l1=non_negative("alpha", self.alpha))

    def _atoms(self, X: Any, k: int) -> Array:
        """Rows of X of length one, as many as there are, and random ones."""
        if self.dict_init is not None:
            V = real_array("dict_init", self.dict_init)
            ok = V.shape == (k, X.shape[1]) and bool(np.isfinite(V).all())
            require(ok, "dict_init", V, f"an array of shape {(k, X.shape[1])} of finite numbers")
            V = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1.0)
        else:
            random = check_random_state(self.random_state)
            V = random.standard_normal((k, X.shape[1]))
            rows = X[random.permutation(X.shape[0])[:k]]
            rows = rows.toarray() if sparse.issparse(rows) else rows
            nonzero = rows[rows.any(axis=1)]
            V[: len(nonzero)] = nonzero
            V /= np.linalg.norm(V, axis=1, keepdims=True)
        return np.asarray(V, X.dtype)
