"""Low-rank matrix completion by alternating exact least squares."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from cyclade._checks import non_negative, require, whole_number
from cyclade.decomposition.base import MatrixDecomposition, factors
from cyclade.decomposition.blocks import Array, Entries, Separable


class Balanced(Entries):
    """Ends each cycle by minimising over all U T, V T⁻ᵀ, which have the same product.

    With UVᵀ = P diag(s) Qᵀ these are P diag(√s) and Q diag(√s), whose squares sum to 2 Σ s.
    Cycles over U and V alone take some 1/alpha turns to come there.
    """

    def cycle(self) -> None:
        """One minimisation over U, V and T."""
        super().cycle()
        if self.b is not None:
            (P, R), (Q, T) = np.linalg.qr(self.A), np.linalg.qr(self.B)
            left, s, right = np.linalg.svd(R @ T.T)
            self.A[:], self.B[:] = P @ (left * np.sqrt(s)), Q @ (right.T * np.sqrt(s))


class MatrixCompletion(MatrixDecomposition):
    """A matrix X of low rank from some of its entries: x_ij ≈ u_i·v_j.

    F(U, V) = ½ Σ_seen s_ij (u_i·v_j − x_ij)² + ½ alpha (‖U‖² + ‖V‖²)

    At its minimum over U and V the penalty is alpha times the nuclear norm of UVᵀ. The blocks are
    the u_i and the v_j; each is minimised over exactly, by its normal equations of k unknowns. So
    is F over all U and V of the same product, at the end of each cycle.

    Missing are NaN in a dense X, and what a sparse X does not store: a stored zero is seen. A row
    or column of which nothing is seen gets zeros where alpha > 0. Triples go in as
    `scipy.sparse.csr_array((values, (rows, columns)), shape)`, which sums repeated pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.decomposition import MatrixCompletion
    >>> X = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> X[0, 2] = X[3, 0] = np.nan
    >>> model = MatrixCompletion(rank=1, alpha=1e-6, tol=1e-8, random_state=0).fit(X)
    >>> model.predict([0, 3], [2, 0]).round(3)
    array([2., 4.])
    """

    rank: Annotated[int, "k, at most min(n, p)."] = field(default=1, kw_only=False)
    alpha: Annotated[float, "Weight ≥ 0 of the squared factors."] = field(
        default=0.1, kw_only=False
    )

    row_factors_: Annotated[Array, "array of shape (n, k)", "U; Vᵀ is `components_`."] = field(
        init=False
    )
    _absent_is_zero = False
    _on_entries = Balanced

    def fit_transform(self, X: Any, y: Any = None, weights: Any = None) -> Array:
        """Fit as `fit` does, and return U."""
        X, S, r = self._entries(X, weights, reset=True)
        k = whole_number("rank", self.rank, 1, min(X.shape))
        descent = self._descent(X, S, *self._start(X, S, k), r, r)
        self._fit(descent)
        self.row_factors_, self.components_ = factors(descent)
        return self.row_factors_

    def transform(self, X: Any, weights: Any = None) -> Array:
        """Factors of rows of X, which may be new, given `components_`."""
        check_is_fitted(self)
        return self._codes(*self._entries(X, weights, reset=False))

    def predict(self, rows: Any, cols: Any) -> Array:
        """Entries (rows_e, cols_e) of UVᵀ for the rows that were fitted."""
        check_is_fitted(self)
        sizes = len(self.row_factors_), self._n_features
        rows, cols = (
            place(name, index, size)
            for name, index, size in zip(("rows", "cols"), (rows, cols), sizes, strict=True)
        )
        require(rows.shape == cols.shape, "cols", cols, f"of the shape {rows.shape} of rows")
        product = self.row_factors_[rows] * self.components_.T[cols]
        return np.asarray(product.sum(axis=1))

    @property
    def _n_features(self) -> int:
        return int(self.components_.shape[1])

    def _start(self, X: Any, S: Any, k: int) -> tuple[Array, Array]:
        """Singular vectors of what is seen, scaled up for what is not, and a little noise."""
        random = check_random_state(self.random_state)
        U, s, V = randomized_svd(S.multiply(X).tocsr(), k, random_state=random)
        s = np.sqrt(s * (X.shape[0] * X.shape[1] / S.sum()))
        noise = 0.01 * s.max() / np.sqrt(max(X.shape))
        U, V = (Z + noise * random.standard_normal(Z.shape) for Z in (U * s, (V.T * s).T))
        return U.astype(X.dtype), V.astype(X.dtype)

    def _entries(self, X: Any, weights: Any, reset: bool) -> tuple[Any, Any, Separable]:
        r = Separable(l2=non_negative("alpha", self.alpha))
        X, S = self._checked(X, weights, reset)
        S = sparse.csr_matrix(np.ones(X.shape, X.dtype)) if S is None else S
        return sparse.csr_matrix(X), S, r


def place(name: str, index: Any, size: int) -> Array:
    """An index of so many rows or columns."""
    index = np.asarray(index)
    ok = index.ndim == 1 and index.dtype.kind in "iu" and ((index >= 0) & (index < size)).all()
    require(bool(ok), name, index, f"a vector of integers between 0 and {size - 1}")
    return np.asarray(index)
