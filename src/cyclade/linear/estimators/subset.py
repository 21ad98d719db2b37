"""Best subset selection in scikit-learn's manner."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from scipy import sparse

from cyclade._checks import choice, whole_number
from cyclade.linear import Certificate, Solution
from cyclade.linear.best_subset import Fit, best_subsets
from cyclade.linear.estimators.base import Data, Regressor
from cyclade.linear.estimators.fitted import CoefficientPath
from cyclade.linear.losses import Array, Squared


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

    def _separate(self, y: Array, loss: Any, penalty: Any) -> list[Array]:
        self._one_column = False
        return [np.ravel(y)]

    def _fit(self, data: Data) -> list[Any]:
        from cyclade.linear.statistics.criteria import cost_of_features

        choice("criterion", self.criterion, ("aic", "bic", "ebic"))
        fits, means, target_mean, looked = self._subsets(data)
        n, p = float(data.weights.sum()), data.X.shape[1]
        rest = np.array([fit.rest for fit in fits])
        with np.errstate(divide="ignore"):
            self.criterion_path_ = n * np.log(rest) + cost_of_features(
                self.criterion, np.arange(len(fits)), n, p
            )
        self.objective_path_ = 0.5 * rest
        self.supports_ = [np.sort(fit.members) for fit in fits]
        self.size_ = (
            len(fits) - 1 if self.size is not None else int(np.argmin(self.criterion_path_))
        )
        self.alpha_ = None
        return [self._solution(fits[self.size_], p, means, target_mean, looked)]

    def path(
        self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None, **options: Any
    ) -> CoefficientPath:
        """Coefficients of every size from the largest down to 0; `alphas` are the sizes."""
        model = self.__class__(**self.get_params(deep=False))
        data = model._data(X, y, sample_weight, offset)
        fits, means, mean, looked = model._subsets(data)
        p = data.X.shape[1]
        all_sizes = [model._solution(fit, p, means, mean, looked) for fit in fits[::-1]]
        sizes = np.arange(len(fits) - 1.0, -1.0, -1.0)
        coefs = np.stack([found.coef for found in all_sizes], axis=1)
        intercepts = np.array([found.intercept for found in all_sizes])
        names = getattr(model, "feature_names_in_", None)
        return CoefficientPath(
            sizes, coefs, intercepts, [found.certificate for found in all_sizes], names
        )

    def _subsets(self, data: Data) -> tuple[list[Fit], Array, float, int]:
        """The supports, the means of columns and of y, and how many members were looked at."""
        X, s = data.X, data.weights / data.weights.sum()
        y = np.asarray(data.targets[0], np.float64)
        y = y if data.offset is None else y - data.offset
        p, rows = X.shape[1], int(np.count_nonzero(s))
        most = self.size
        if most is None and self.max_size is None:
            n = max(float(data.weights.sum()), 3.0)
            most = max(int(n / max(np.log(p) * np.log(np.log(n)), 1.0)), 1)
        elif most is None:
            most = whole_number("max_size", self.max_size, 0, p)
        else:
            whole_number("size", self.size, 0, p)
        most = min(most, p, max(rows - 1 - self.fit_intercept, 0))
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
        q = np.asarray(columns.T @ (s * (y - mean)))
        square = float(s @ (y - mean) ** 2)
        fits, looked = best_subsets(row, q, diagonal, square, most)
        self._gradient = float(np.max(abs(q), initial=1e-300))
        self._slopes = [
            float(
                np.max(
                    abs(q[f.members] - np.stack([row(j) for j in f.members])[:, f.members] @ f.beta)
                )
            )
            if f.members.size
            else 0.0
            for f in fits
        ]
        return fits, means, mean, looked

    def _solution(self, fit: Fit, p: int, means: Array, mean: float, looked: int) -> Solution:
        coef = np.zeros(p)
        coef[fit.members] = fit.beta
        slope = self._slopes[len(fit.members)]
        certificate = Certificate("distance", slope, 1e-6 * self._gradient)
        return Solution(coef, mean - float(means @ coef), 0.5 * fit.rest, certificate, looked)
