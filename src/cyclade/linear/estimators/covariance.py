"""Sparse inverse covariance matrices in scikit-learn's manner."""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Annotated, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.covariance import EmpiricalCovariance, log_likelihood
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from cyclade.linear.checks import check_flag, check_weights, numbers
from cyclade.linear.estimators.declare import Declared
from cyclade.linear.graphical import GraphicalSolution, graphical_lasso
from cyclade.linear.losses import Array
from cyclade.linear.results import Certificate


class GraphicalLasso(Declared, EmpiricalCovariance):  # type: ignore[misc]
    """A sparse inverse covariance matrix, the objective of scikit-learn's `GraphicalLasso`.

    F = −log det Θ + tr SΘ + alpha Σ_{i≠j} |Θ_ij|, S the covariance of the rows. The certificate is
    a duality gap that holds, of `tol` per variable.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GraphicalLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> X[:, 1] += X[:, 0]
    >>> np.argwhere(np.triu(GraphicalLasso(alpha=0.2).fit(X).precision_, 1))
    array([[0, 1]])
    """

    alpha: Annotated[float, "λ of the entries off the diagonal."] = field(
        default=0.1, kw_only=False
    )
    assume_centered: Annotated[bool, "Whether the means of columns are zero."] = False
    tol: Annotated[float, "The duality gap to reach, per variable."] = 1e-6
    max_iter: Annotated[int, "Largest number of Newton steps."] = 1_000

    covariance_: Annotated[Array, "array of shape (p, p)", "The inverse of Θ."] = field(init=False)
    precision_: Annotated[Array, "array of shape (p, p)", "Θ."] = field(init=False)
    location_: Annotated[Array, "array of shape (p,)", "Means."] = field(init=False)
    certificate_: Annotated[Certificate, "The duality gap of F."] = field(init=False)
    objective_: Annotated[float, "F at Θ."] = field(init=False)
    n_iter_: Annotated[int, "Newton steps."] = field(init=False)

    store_precision = True  # scikit-learn's `score` asks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to the covariance of the rows of X; a row of weight 2 is the row twice."""
        means, S = self._moments(*self._checked(X, sample_weight))
        return self._kept(means, self._along(S, [self.alpha])[0])

    def path(self, X: Any, alphas: Any, sample_weight: Any = None) -> list[GraphicalSolution]:
        """Solutions at decreasing alphas, each started from the one before."""
        S = self._moments(*self._checked(X, sample_weight))[1]
        return self._along(S, np.sort(numbers("alphas", alphas, np.float64))[::-1])

    def _checked(self, X: Any, sample_weight: Any) -> tuple[Array, Array | None]:
        check_flag("assume_centered", self.assume_centered)
        X = validate_data(self, X, dtype=np.float64, ensure_min_features=2, ensure_min_samples=2)
        return X, check_weights(sample_weight, len(X), np.float64)

    def _moments(self, X: Array, weights: Array | None) -> tuple[Array, Array]:
        s = np.full(len(X), 1.0 / len(X)) if weights is None else weights / weights.sum()
        means = np.zeros(X.shape[1]) if self.assume_centered else s @ X
        A = (X - means) * np.sqrt(s)[:, None]
        return means, A.T @ A

    def _along(self, S: Array, alphas: Any) -> list[GraphicalSolution]:
        """Each started from the one before."""
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "start": None}
        found = []
        for alpha in alphas:
            found.append(graphical_lasso(S, alpha, **options))
            options["start"] = found[-1].precision
        return found

    def _kept(self, means: Array, found: GraphicalSolution) -> Any:
        self.location_, self.covariance_, self.precision_ = means, found.covariance, found.precision
        self.certificate_, self.objective_ = found.certificate, found.objective
        self.n_iter_ = max(1, found.passes)
        if not found.certificate.reached:
            warnings.warn(
                f"{type(self).__name__} stopped without a certificate of optimality "
                f"({found.certificate}): raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self


class GraphicalLassoCV(GraphicalLasso):
    """`GraphicalLasso` with alpha by cross-validation of the Gaussian log-likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from cyclade.linear import GraphicalLassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> X[:, 1] += X[:, 0]
    >>> bool(0.0 < GraphicalLassoCV().fit(X).alpha_ < 0.5)
    True
    """

    alpha: Any = field(init=False)
    alphas: Annotated[
        Any,
        "int or array",
        "How many alphas, from the largest |S_ij| down to 0.01 of it; or which.",
    ] = 20
    cv: Annotated[Any, "int, splitter or iterable of (train, test)", "The folds."] = 5
    n_jobs: Annotated[int | None, "int", "Folds that run at once, as in joblib."] = None

    alpha_: Annotated[float, "The alpha that was chosen."] = field(init=False)
    alphas_: Annotated[Array, "array", "The alphas tried, descending."] = field(init=False)
    score_path_: Annotated[
        Array, "array of shape (n_alphas, n_folds)", "Log-likelihoods of the held-out rows."
    ] = field(init=False)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Choose alpha on the folds and fit with it."""
        from sklearn.model_selection import check_cv

        X, weights = self._checked(X, sample_weight)
        means, S = self._moments(X, weights)
        largest = float(np.max(abs(S - np.diag(np.diag(S)))))
        self.alphas_ = (
            largest * np.geomspace(1.0, 0.01, int(self.alphas))
            if np.ndim(self.alphas) == 0
            else np.sort(numbers("alphas", self.alphas, np.float64))[::-1]
        )

        def held_out(train: Array, test: Array) -> list[float]:
            inside, outside = (
                self._moments(X[rows], None if weights is None else weights[rows])[1]
                for rows in (train, test)
            )
            fits = self._along(inside, self.alphas_)
            return [float(log_likelihood(outside, fit.precision)) for fit in fits]

        folds = list(check_cv(self.cv).split(X))
        run = Parallel(n_jobs=self.n_jobs, prefer="threads")
        self.score_path_ = np.array(run(delayed(held_out)(*fold) for fold in folds)).T
        best = int(np.argmax(self.score_path_.mean(axis=1)))
        self.alpha_ = float(self.alphas_[best])
        return self._kept(means, self._along(S, self.alphas_[: best + 1])[-1])
