"""Best subset selection in scikit-learn's manner."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from scipy import sparse

from cyclade._checks import choice, whole_number
from cyclade.linear import Certificate, Solution
from cyclade.linear.best_subset import best_subsets
from cyclade.linear.estimators.base import Data, Regressor
from cyclade.linear.estimators.cross_validated import CrossValidated
from cyclade.linear.losses import Array, Squared
from cyclade.linear.results import PathResult


class BestSubset(Regressor):
    """Least squares with at most `size` coefficients that are not zero.

    F = (1/2Σs_i) Σ s_i (y_i − a_i·x − c)² where ‖x‖_0 ≤ size

    No exchange of one member of the support for another column lowers F, all coefficients fitted
    again. That is no proof of a global minimum, which is hard to have. All sizes up to the largest
    are found on the way, and `size=None` takes the one with the least information criterion.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import BestSubset
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> y = X[:, 3] - 2.0 * X[:, 7] + rng.standard_normal(100)
    >>> np.flatnonzero(BestSubset().fit(X, y).coef_)
    array([3, 7])
    """

    size: Annotated[
        Any, "int", "The number of coefficients; None lets `criterion` choose among all sizes."
    ] = field(default=None, kw_only=False)
    max_size: Annotated[
        Any, "int", "The largest size where `size` is None; None is n/(log p · log log n), or p."
    ] = None
    criterion: Annotated[str, '{"aic", "bic", "ebic"}', "As in `select`."] = "ebic"
    # What has no meaning here.
    standardize: Any = field(init=False, default=False)
    penalty_weights: Any = field(init=False, default=None)
    relaxed: Any = field(init=False, default=False)
    warm_start: Any = field(init=False, default=False)
    verbose: Any = field(init=False, default=False)
    tol: Any = field(init=False, default=1e-6)
    max_iter: Any = field(init=False, default=1)

    size_: Annotated[int, "The number of coefficients that are not zero."] = field(init=False)
    supports_: Annotated[list[Array], "list", "The support of every size, from 0 on."] = field(
        init=False
    )
    objective_path_: Annotated[Array, "array", "F of every size."] = field(init=False)
    criterion_path_: Annotated[Array, "array", "The criterion of every size."] = field(init=False)

    _phi = Squared()
    _multi_output = False

    def _penalised(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        return None

    def _fit(self, data: Data) -> list[Any]:
        from cyclade.linear.statistics.criteria import cost_of_features

        choice("criterion", self.criterion, ("aic", "bic", "ebic"))
        fits = self._solutions(data, self._largest(data))
        n, sizes = float(data.weights.sum()), np.arange(len(fits))
        cost = cost_of_features(self.criterion, sizes, n, data.X.shape[1])
        with np.errstate(divide="ignore"):
            self.criterion_path_ = n * np.log(2.0 * self.objective_path_) + cost
        self.size_ = int(sizes[-1] if self.size is not None else np.argmin(self.criterion_path_))
        self.alpha_ = None
        return [fits[self.size_]]

    def _grid(self, data: Data, *_: Any) -> Array:
        """Every size from the largest down to 0."""
        return np.arange(min(self._largest(data), data.X.shape[1]), -1.0, -1.0)

    def _path(self, data: Data, grid: Array) -> list[Any]:
        fits = self._solutions(data, int(grid.max()))
        last = len(fits) - 1  # rows may be too few for more
        return [PathResult.of(grid, [fits[min(int(size), last)] for size in grid])]

    def _largest(self, data: Data) -> int:
        """The largest size that is looked for."""
        p, n = data.X.shape[1], max(float(data.weights.sum()), 3.0)
        if self.size is not None:
            return whole_number("size", self.size, 0, p)
        if self.max_size is not None:
            return whole_number("max_size", self.max_size, 0, p)
        return max(int(n / max(np.log(p) * np.log(np.log(n)), 1.0)), 1)

    def _solutions(self, data: Data, most: int) -> list[Solution]:
        """Those of all sizes from 0 to `most`, or as many as rows and columns tell apart."""
        X, s = data.X, data.weights / data.weights.sum()
        y = np.asarray(data.targets[0], np.float64)
        y = y if data.offset is None else y - data.offset
        p, rows = X.shape[1], int(np.count_nonzero(s))
        columns = X.tocsc() if sparse.issparse(X) else X
        squares = columns.multiply(columns) if sparse.issparse(X) else np.square(X, dtype=float)
        diagonal, means, mean = np.asarray(squares.T @ s), np.zeros(p), 0.0
        if self.fit_intercept:
            means, mean = np.asarray(columns.T @ s), float(s @ y)
            diagonal = np.maximum(diagonal - means**2, 0.0)
        known: dict[int, Array] = {}

        def row(j: int) -> Array:
            if j not in known:
                column = columns[:, [j]].toarray()[:, 0] if sparse.issparse(X) else X[:, j]
                known[j] = np.asarray(columns.T @ (s * column)) - means * means[j]
            return known[j]

        diagonal[diagonal <= 1e-12 * (diagonal + means**2)] = 0.0  # constant
        q, square = np.asarray(columns.T @ (s * (y - mean))), float(s @ (y - mean) ** 2)
        most = min(most, p, max(rows - 1 - self.fit_intercept, 0))
        fits, looked = best_subsets(row, q, diagonal, square, most)
        solutions, tolerance = [], 1e-6 * float(np.max(abs(q), initial=1e-300))
        for members, beta, rest in fits:
            coef, left = np.zeros(p), q[members]
            coef[members] = beta
            for j, b in zip(members, beta, strict=True):
                left = left - b * row(j)[members]
            certificate = Certificate("distance", float(abs(left).max(initial=0.0)), tolerance)
            intercept = mean - float(means @ coef)
            solutions.append(Solution(coef, intercept, 0.5 * rest, certificate, looked))
        self.supports_ = [np.sort(fit.members) for fit in fits]
        self.objective_path_ = np.array([found.objective for found in solutions])
        return solutions


class BestSubsetCV(CrossValidated, BestSubset):
    """`BestSubset` with its size by cross-validation: `alphas_` are the sizes, from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import BestSubsetCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> y = X[:, 3] - 2.0 * X[:, 7] + rng.standard_normal(100)
    >>> np.flatnonzero(BestSubsetCV(rule="1se").fit(X, y).coef_)
    array([3, 7])
    """

    # Sizes are tried, all up to the largest.
    size: Any = field(init=False, default=None)
    criterion: Any = field(init=False, default="ebic")
    alphas: Any = field(init=False, default=None)
    n_alphas: Any = field(init=False, default=None)
    alpha_ratio: Any = field(init=False, default=None)
    checkpoint: Any = field(init=False, default=None)

    def _grid(self, data: Data, *_: Any) -> Array:
        return super()._grid(data)[::-1]

    def _fit(self, data: Data) -> list[Any]:
        found = super()._fit(data)
        self.size_ = int(np.count_nonzero(found[0].coef))
        return found
