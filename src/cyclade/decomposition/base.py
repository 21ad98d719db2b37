"""What the estimators share: checks, cycles until the certificate holds, and codes of rows."""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Annotated, Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from cyclade._checks import non_negative, real_array, require, whole_number
from cyclade.decomposition.blocks import Array, Entries, Products, Separable
from cyclade.linear.estimators.declare import Declared
from cyclade.linear.results import Certificate

EVERY = 5  # cycles between measurements


class Decomposition(Declared):
    """Cycles of exact block minimisation, with a certificate at the point that is returned."""

    tol: Annotated[
        float,
        "Stop once dist(0, ∂F) is at most `tol` times the norm of what the data alone give the "
        "gradient.",
    ] = 1e-4
    max_iter: Annotated[int, "Largest number of cycles over all blocks."] = 1_000
    random_state: Annotated[
        int | np.random.RandomState | None,
        "int, RandomState or None",
        "What random starts are drawn from.",
    ] = None

    certificate_: Annotated[
        Certificate, "dist(0, ∂F) at the factors returned, in the Euclidean norm over all entries."
    ] = field(init=False)
    objective_: Annotated[float, "F at the factors returned."] = field(init=False)
    n_iter_: Annotated[int, "Cycles made."] = field(init=False)

    def _descend(self, descent: Any) -> tuple[int, Certificate]:
        """Cycle until dist(0, ∂F) is small; a warning where it does not become so.

        A descent has `cycle`; `measure`, dist(0, ∂F) and the size it is compared to; and `values`,
        the loss and the penalties.
        """
        tol, most = non_negative("tol", self.tol), whole_number("max_iter", self.max_iter, 1)
        for done in range(1, most + 1):
            descent.cycle()
            if done % EVERY == 0 or done == most:
                distance, size = descent.measure()
                if not distance > tol * size:  # or NaN, of which no more can come
                    break
        found = Certificate("distance", distance, tol * size)
        if not found.reached:
            warnings.warn(
                f"{type(self).__name__} stopped after {done} cycles without a certificate of "
                f"stationarity ({found}): raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        return done, found

    def _fit(self, descent: Any) -> float:
        """Descend, and return the loss without the penalties."""
        self.n_iter_, self.certificate_ = self._descend(descent)
        loss, penalty = map(float, descent.values())
        self.objective_ = loss + penalty
        return loss


class MatrixDecomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Decomposition):  # type: ignore[misc]
    """X ≈ W H: rows of X become rows of W, with H in `components_`."""

    components_: Annotated[Array, "array of shape (n_components, p)", "H."] = field(init=False)
    _absent_is_zero = True  # in a sparse X
    _missing = True  # whether entries may be
    _on_entries = Entries  # F where not all of X is seen

    def fit(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit to X, (n, p); `options` as in `fit_transform`."""
        self.fit_transform(X, y, **options)
        return self

    def inverse_transform(self, X: Any) -> Array:
        """The product of codes X, (n, n_components), with the components."""
        check_is_fitted(self)
        return np.asarray(X @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._missing
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked(self, X: Any, weights: Any, reset: bool) -> tuple[Any, Any]:
        """X (zero where missing), and weights as a sparse matrix where not all of X is seen."""
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset,
            ensure_all_finite="allow-nan" if self._missing else True,
        )  # fmt: skip
        if sparse.issparse(X):
            if np.isnan(X.data).any():
                raise ValueError("X: a sparse X must not hold NaN; give weights, or a dense X")
            if not self._absent_is_zero:
                pattern = sparse.csr_matrix((np.ones_like(X.data), X.indices, X.indptr), X.shape)
                weights = pattern if weights is None else pattern.multiply(self._shaped(weights, X))
        elif np.isnan(X).any():
            seen = ~np.isnan(X)
            pattern = sparse.csr_matrix(seen, dtype=X.dtype)
            weights = pattern if weights is None else pattern.multiply(self._shaped(weights, X))
            X = np.where(seen, X, X.dtype.type(0))
        if weights is None:
            return X, None
        S = sparse.csr_matrix(self._shaped(weights, X), dtype=X.dtype)
        require(np.isfinite(S.data).all() and (S.data >= 0).all(), "weights", weights,
                "finite numbers >= 0")  # fmt: skip
        S.sum_duplicates()
        S.eliminate_zeros()
        if S.nnz == 0:
            raise ValueError("X must have an entry that is not missing, with weights > 0")
        if S.nnz == X.shape[0] * X.shape[1] and (S.data == 1.0).all():
            return X, None
        return X, S

    def _shaped(self, weights: Any, X: Any) -> Any:
        if not sparse.issparse(weights):
            mask = getattr(weights, "dtype", None) in (bool, np.bool_)
            weights = real_array("weights", weights * 1.0 if mask else weights)
        require(weights.shape == X.shape, "weights", weights, f"of the shape {X.shape} of X")
        return weights

    def _codes(self, X: Any, S: Any, r: Separable) -> Array:
        """The rows w that minimise F for each row of X, given the components."""
        k, H = len(self.components_), self.components_.astype(X.dtype, copy=False)
        descent = self._descent(X, S, np.zeros((X.shape[0], k), X.dtype), H, r, None)
        self._descend(descent)
        return factors(descent)[0]

    def _descent(self, X: Any, S: Any, W: Array, H: Array, w: Separable, h: Any) -> Any:
        """F on all of X, or on entries; W and H are copied."""
        if S is None:
            return Products(X, np.array(W.T, order="C"), np.array(H, order="C"), w, h)
        W, H = np.array(W, order="C"), np.array(H.T, order="C")
        return self._on_entries(taken(X, S), S, W, H, w, h)


def factors(descent: Any) -> tuple[Array, Array]:
    """W and H."""
    if isinstance(descent, Products):
        return np.ascontiguousarray(descent.A.T), descent.B
    return descent.A, np.ascontiguousarray(descent.B.T)


def taken(X: Any, S: Any) -> Any:
    """The entries of X where S has some, zeros among them, as a matrix with the pattern of S."""
    rows = np.repeat(np.arange(S.shape[0]), np.diff(S.indptr))
    values = np.asarray(X[rows, S.indices], S.dtype).ravel()
    return sparse.csr_matrix((values, S.indices, S.indptr), shape=S.shape)
