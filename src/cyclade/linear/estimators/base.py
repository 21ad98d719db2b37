"""What all linear estimators share: data in, a certified solution out, scikit-learn's manners.

An estimator is a dataclass of its parameters (so `__init__` stores and does nothing else) and two
answers: which loss, which penalty. `Single` adds one `alpha`; `CrossValidated` chooses it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from cyclade.linear.api import path as solve_path
from cyclade.linear.api import solve
from cyclade.linear.estimators.checks import (
    check_count,
    check_flag,
    check_number,
    check_offset,
    check_weights,
    numbers,
)
from cyclade.linear.estimators.paths import CoefficientPath, worst
from cyclade.linear.estimators.texts import CHOICE, CHOSEN, COMMON, FITTED
from cyclade.linear.estimators.values import Problem
from cyclade.linear.losses import Loss
from cyclade.linear.losses.base import Array
from cyclade.linear.penalties import L1, BlockPenalty, Rows

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(BaseEstimator):  # type: ignore[misc]
    """min over x, c of (1/Σ s_i) Σ s_i φ(y_i, a_i·x + c + offset_i) + r(x)."""

    fit_intercept: bool = True
    tol: float = 1e-6
    max_iter: int = 20_000
    warm_start: bool = False
    verbose: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill in what the docstrings of all estimators share."""
        super().__init_subclass__(**kwargs)
        for mark, text in [
            ("{common}", COMMON),
            ("{fitted}", FITTED),
            ("{choice}", CHOICE),
            ("{chosen}", CHOSEN),
        ]:
            cls.__doc__ = (cls.__doc__ or "").replace(mark, text)

    # What a family of models says.

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        raise NotImplementedError

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        """The penalty, at any λ."""
        raise NotImplementedError

    def _encode(
        self, y: Array, sample_weight: Array | None, dtype: Any
    ) -> tuple[Array, Array | None]:
        """Targets as the loss takes them, and weights with what the classes weigh."""
        raise NotImplementedError

    def _separate(self, y: Array, loss: Loss, penalty: Any) -> list[Array]:
        """One target per separate fit."""
        raise NotImplementedError

    def _shape(self, coefs: list[Array], intercepts: list[Any]) -> tuple[Array, Any]:
        """coef_ and intercept_ from the solutions of the separate fits."""
        raise NotImplementedError

    def _choose_and_solve(self, problem: Problem) -> list[Any]:
        """One solution for each separate fit."""
        raise NotImplementedError

    # What is then done with it.

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)
            The data, which is not copied where that can be avoided.
        y : array of shape (n,) or (n, n_outputs)
            The targets.
        sample_weight : array of shape (n,), default=None
            Weights s_i >= 0; a weight of 2 is the row given twice.
        offset : array of shape (n,) or (n, n_outputs), default=None
            Known part of the linear predictions, added to Xx + c.

        Returns
        -------
        self
        """
        problem = self._problem(X, y, sample_weight, offset)
        solutions = self._choose_and_solve(problem)
        coefs = [solution.coef for solution in solutions]
        self.coef_, self.intercept_ = self._shape(coefs, [s.intercept for s in solutions])
        self.certificate_ = certificate = worst([s.certificate for s in solutions])
        self.objective_ = float(sum(solution.objective for solution in solutions))
        self.n_iter_ = max(1, *(int(solution.passes) for solution in solutions))
        self._starts = [(s.coef, s.intercept) for s in solutions]
        if not certificate.reached:
            self._warn(
                f"its {certificate.kind} is {certificate.value:.2e}, the tolerance "
                f"{certificate.tolerance:.2e}"
            )
        return self

    def path(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        alphas: Any = None,
        n_alphas: int = 100,
        alpha_ratio: float = 1e-3,
    ) -> CoefficientPath:
        """Solutions at many alphas, each started from the one before; the estimator is left alone.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for `fit`.
        alphas : array, default=None
            Values of alpha; None takes `n_alphas`, from the smallest at which all coefficients are
            zero down to `alpha_ratio` times that, evenly in the logarithm.
        n_alphas : int, default=100
            How many.
        alpha_ratio : float, default=1e-3
            The smallest alpha over the largest.

        Returns
        -------
        CoefficientPath
            With alphas, coefs, intercepts, certificates and `plot`.
        """
        model = self.__class__(**self.get_params(deep=False))
        problem = model._problem(X, y, sample_weight, offset)
        grid = model._grid(problem, alphas, n_alphas, alpha_ratio)
        found = model._path(problem, grid)
        names = getattr(model, "feature_names_in_", None)
        result = CoefficientPath.of(grid, found, model._shape, names)
        model._warn_of_path(result)
        return result

    def _problem(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Problem:
        check_number("tol", self.tol)
        check_count("max_iter", self.max_iter)
        for name in ("fit_intercept", "warm_start", "verbose"):
            check_flag(name, getattr(self, name))
        X, given = validate_data(
            self,
            X,
            y,
            accept_sparse=("csr", "csc"),
            dtype=(np.float64, np.float32),
            multi_output=self.__sklearn_tags__().target_tags.multi_output,
        )
        weights = check_weights(sample_weight, X.shape[0], X.dtype)
        y, weights = self._encode(given, weights, X.dtype)
        loss = self._loss(y, weights)
        penalty = self._penalty(X, y, weights)
        targets = self._separate(y, loss, penalty)
        for target in targets:
            loss.check(target)
        offset = check_offset(offset, self._predictions(X.shape[0], targets, loss), X.dtype)
        return Problem(X, given, targets, weights, offset, loss, penalty)

    def _predictions(self, n: int, targets: list[Array], loss: Loss) -> tuple[int, ...]:
        """The shape of the linear predictions."""
        if loss.target == "classes":
            return (n, len(self.classes_))
        if len(targets) > 1 or targets[0].ndim == 2:
            return (n, len(targets) if len(targets) > 1 else targets[0].shape[1])
        return (n,)

    def _options(self, problem: Problem, k: int) -> dict[str, Any]:
        return {
            "sample_weight": problem.sample_weight,
            "offset": problem.offset_of(k),
            "fit_intercept": self.fit_intercept,
            "tol": self._tolerance(problem),
            "max_passes": self.max_iter,
            "verbose": self.verbose,
        }

    def _tolerance(self, problem: Problem) -> float:
        """Slopes of float32 columns are rounded at 1e-7 of themselves, not of alpha."""
        convex = problem.loss.convex and getattr(problem.penalty, "convex", False)
        dual = convex and hasattr(problem.loss, "conjugate")
        single = problem.X.dtype == np.float32
        return max(self.tol, 1e-4) if single and not dual else self.tol

    def _solve(self, problem: Problem, alpha: float | None) -> list[Any]:
        penalty, starts = problem.at(alpha), self._warm(problem)
        return [
            solve(
                problem.X,
                target,
                problem.loss,
                penalty,
                coef=coef,
                intercept=intercept,
                **self._options(problem, k),
            )
            for k, (target, (coef, intercept)) in enumerate(
                zip(problem.targets, starts, strict=True)
            )
        ]

    def _warm(self, problem: Problem) -> list[tuple[Any, Any]]:
        cold: list[tuple[Any, Any]] = [(None, None)] * len(problem.targets)
        if not self.warm_start or not hasattr(self, "_starts"):
            return cold
        shape = (problem.X.shape[1], *self._predictions(1, problem.targets[:1], problem.loss)[1:])
        fits = len(self._starts) == len(cold) and self._starts[0][0].shape == shape
        return self._starts if fits else cold

    def _path(self, problem: Problem, grid: Array) -> list[Any]:
        return [
            solve_path(
                problem.X,
                target,
                problem.loss,
                problem.penalty,
                lams=grid,
                **self._options(problem, k),
            )
            for k, target in enumerate(problem.targets)
        ]

    def _grid(self, problem: Problem, alphas: Any, n_alphas: int, alpha_ratio: float) -> Array:
        """Descending alphas; one grid for all separate fits."""
        if not hasattr(problem.penalty, "scaled"):
            name = type(problem.penalty).__name__
            raise ValueError(f"penalty: {name} lacks scaled(lam), which a path needs")
        if alphas is not None:
            given = numbers("alphas", alphas, np.float64)
            if given.ndim > 1 or given.size == 0 or (given <= 0).any():
                raise ValueError(
                    f"alphas must hold one or more numbers > 0 in one list, got {alphas!r}"
                )
            return np.ascontiguousarray(np.unique(given)[::-1])
        count = check_count("n_alphas", n_alphas)
        if not 0 < check_number("alpha_ratio", alpha_ratio) < 1:
            raise ValueError(f"alpha_ratio must lie between 0 and 1, got {alpha_ratio!r}")
        if not hasattr(problem.penalty, "lam_max"):
            name = type(problem.penalty).__name__
            raise ValueError(f"alphas must be given: {name} lacks lam_max(g0)")
        largest = max(problem.penalty.lam_max(g) for g in self._null_gradients(problem))
        if largest == np.inf:
            raise ValueError("alphas must be given: no alpha makes all coefficients zero")
        if largest == 0.0:  # all coefficients are zero at every alpha
            largest = 1.0
        return np.asarray(largest * np.geomspace(1.0, alpha_ratio, count))

    def _null_gradients(self, problem: Problem) -> list[Array]:
        """The gradient at zero coefficients and the best intercept, for each separate fit."""
        n = problem.X.shape[0]
        nothing, penalty = np.zeros((n, 1)), (Rows if is_block(problem.penalty) else L1)(1.0)
        s = np.full(n, 1.0 / n) if problem.sample_weight is None else problem.sample_weight
        s, gradients = s / s.sum(dtype=np.float64), []
        for k, target in enumerate(problem.targets):
            options = {**self._options(problem, k), "verbose": False}
            null = solve(nothing, target, problem.loss, penalty, **options)
            shape = self._predictions(n, [target], problem.loss)
            offset = problem.offset_of(k)
            z = np.zeros(shape) + null.intercept + (0.0 if offset is None else offset)
            slope = (problem.loss.gradient(target, z).T * s).T
            gradients.append(np.asarray(problem.X.T @ slope, dtype=np.float64))
        return gradients

    def _linear(self, X: Any, offset: Any) -> Array:
        """Z = Xx + c + offset."""
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32)
        )
        z = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        offset = check_offset(offset, z.shape, z.dtype)
        return np.asarray(z if offset is None else z + offset)

    def _warn(self, measured: str, depth: int = 1) -> None:
        """Warn whoever called the method that is `depth` calls above this one."""
        warnings.warn(
            f"{type(self).__name__} stopped without a certificate of optimality ({measured}): "
            "raise max_iter or tol, or scale the columns of X",
            ConvergenceWarning,
            stacklevel=2 + depth,
        )

    def _warn_of_path(self, path: CoefficientPath) -> None:
        missed = sum(not certificate.reached for certificate in path.certificates)
        if missed:
            self._warn(f"at {missed} of {len(path.alphas)} alphas")

    def __sklearn_tags__(self) -> Any:
        """Sparse X is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def is_block(penalty: Any) -> bool:
    """Whether the penalty ties coefficients together."""
    return isinstance(penalty, BlockPenalty)
