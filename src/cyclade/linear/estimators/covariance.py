"""The graphical lasso: a sparse inverse covariance matrix, with a duality gap that holds.

    min over Θ ≻ 0 of  −log det Θ + tr SΘ + alpha Σ_{i≠j} w_ij |Θ_ij|

By Newton steps whose directions come from cyclic descent on the free entries (Hsieh et al. 2014).
Variables that no |S_ij| > alpha w_ij joins are apart in Θ: each component is a problem of its own
(Witten, Friedman and Simon 2011).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse.csgraph import connected_components
from sklearn.covariance import EmpiricalCovariance, log_likelihood
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from cyclade._checks import non_negative, positive, whole_number
from cyclade.linear.checks import check_flag, check_weights, numbers
from cyclade.linear.estimators.declare import Declared
from cyclade.linear.kernels.covariance import newton_direction
from cyclade.linear.losses import Array
from cyclade.linear.results import Certificate
from cyclade.linear.threads import one_thread

HALVINGS = 30


@dataclass(frozen=True)
class GraphicalSolution:
    """A sparse precision matrix Θ, its inverse, F there, and the gap."""

    precision: Array
    covariance: Array
    objective: float
    certificate: Certificate
    passes: int


def graphical_lasso(
    S: Any,
    alpha: float,
    *,
    weights: Any = None,
    start: Any = None,
    tol: float = 1e-6,
    max_iter: int = 1_000,
) -> GraphicalSolution:
    """A sparse inverse of a covariance matrix.

    Parameters
    ----------
    S : array of shape (p, p)
        The empirical covariance, with a positive diagonal; it may be singular.
    alpha : float
        λ ≥ 0 of the entries off the diagonal; zero needs an S that can be inverted.
    weights : array of shape (p, p), default=None
        Factors w ≥ 0 of alpha, symmetric. The diagonal is never penalised.
    start : array of shape (p, p), default=None
        A precision matrix to start from.
    tol : float
        Stop at a duality gap of `tol` per variable.
    max_iter : int
        The most Newton steps of a component.

    Examples
    --------
    >>> found = graphical_lasso([[2.0, 0.5], [0.5, 1.0]], alpha=0.1)
    >>> found.covariance.round(3)
    array([[2. , 0.4],
           [0.4, 1. ]])
    >>> found.certificate.reached
    True
    """
    S, alpha = np.asarray(S, np.float64), non_negative("alpha", alpha)
    tol, max_iter = positive("tol", tol), whole_number("max_iter", max_iter, 1)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or not np.isfinite(S).all():
        raise ValueError(f"S must be a square matrix of finite numbers, got shape {S.shape}")
    if not np.allclose(S, S.T, atol=1e-8 * abs(S).max()) or (np.diag(S) <= 0.0).any():
        raise ValueError("S must be symmetric with a positive diagonal: drop constant columns")
    lam = np.full(S.shape, alpha) if weights is None else alpha * np.asarray(weights, np.float64)
    if lam.shape != S.shape or (lam < 0).any() or not np.array_equal(lam, lam.T):
        raise ValueError("weights must be symmetric, of the shape of S, and nowhere negative")
    np.fill_diagonal(lam, 0.0)
    p = len(S)
    theta, W = np.diag(1.0 / np.diag(S)), np.diag(np.diag(S))
    count, label = connected_components(abs(S) > lam, directed=False)
    F, gap, passes = 0.0, 0.0, 0
    for k in range(count):
        at = np.flatnonzero(label == k)
        box = np.ix_(at, at)
        first = theta[box] if start is None else np.asarray(start, np.float64)[box]
        with one_thread(0):
            found = component(S[box], lam[box], first, tol * at.size, max_iter)
        theta[box], W[box] = found[0], found[1]
        F, gap, passes = F + found[2], gap + found[3], max(passes, found[4])
    return GraphicalSolution(theta, W, F, Certificate("gap", gap, tol * p), passes)


def component(
    S: Array, lam: Array, theta: Array, tol: float, max_iter: int
) -> tuple[Array, Array, float, float, int]:
    """Θ, its inverse, F, the gap and the Newton steps of one component."""
    W, logdet = factored(theta)
    if logdet == -np.inf:
        theta = np.diag(1.0 / np.diag(S))
        W, logdet = factored(theta)
    F = -logdet + float(np.vdot(S, theta)) + float(np.vdot(lam, abs(theta)))
    for done in range(max_iter + 1):
        g = S - W
        gap = F - dual(S, lam, W)
        if gap <= max(tol, 1e-14 * (abs(F) + len(S))) or done == max_iter:
            break
        free = (theta != 0.0) | (abs(g) > lam)
        rows, cols = (index.astype(np.int64) for index in np.nonzero(np.triu(free)))
        near = np.where(theta != 0.0, abs(g + lam * np.sign(theta)), np.maximum(abs(g) - lam, 0.0))
        D = np.zeros_like(S)
        newton_direction(S, W, theta, lam, rows, cols, D, 2 + done**3, 0.05 * float(near.max()))
        fall = float(np.vdot(g, D)) + float(np.vdot(lam, abs(theta + D) - abs(theta)))
        t = 1.0
        for _ in range(HALVINGS):
            new = theta + t * D
            inverse, logdet = factored(new)
            lower = -logdet + float(np.vdot(S, new)) + float(np.vdot(lam, abs(new)))
            if lower <= F + 1e-3 * t * fall + 1e-15 * abs(F):
                break
            t *= 0.5
        else:
            break
        theta, W, F = new, inverse, lower
    return theta, W, F, max(gap, 0.0), done


def dual(S: Array, lam: Array, W: Array) -> float:
    """log det U + p at a feasible U near W: |U − S| ≤ Λ, positive definite.

    W is clipped into the box. Where that is not positive definite, it is mixed with S drawn towards
    its diagonal as far as the box allows, which is.
    """
    U = S + np.clip(W - S, -lam, lam)
    size = np.max(abs(S) * (1.0 - np.eye(len(S))), initial=0.0)
    off = (abs(S) > 0.0) & ~np.eye(len(S), dtype=bool)
    part = min(1.0, float(np.min(lam[off] / abs(S[off]), initial=np.inf))) if size else 1.0
    inside = (1.0 - part) * S + part * np.diag(np.diag(S))
    for share in (0.0, *0.5 ** np.arange(20.0, -1.0, -1.0)):
        F, failed = dpotrf((1.0 - share) * U + share * inside, lower=True)
        if not failed:
            return 2.0 * float(np.log(np.diag(F)).sum()) + len(S)
    return -np.inf


def factored(theta: Array) -> tuple[Array, float]:
    """The inverse and the log-determinant, which is −inf if Θ is not positive definite."""
    F, failed = dpotrf(theta, lower=True)
    if failed:
        return theta, -np.inf
    logdet = 2.0 * float(np.log(np.diag(F)).sum())
    half, _ = dpotri(F, lower=True)
    half = np.tril(half)
    return half + np.tril(half, -1).T, logdet


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

    alpha: Annotated[float, "λ off the diagonal."] = field(default=0.1, kw_only=False)
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
        A = X - means
        A[:, np.abs(A).max(axis=0) <= 1e-13 * np.abs(means)] = 0.0  # constant but for rounding
        A *= np.sqrt(s)[:, None]
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
