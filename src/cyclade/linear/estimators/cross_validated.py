"""The choice of alpha by cross-validation, for every linear estimator."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from cyclade.linear.cv import Choice
from cyclade.linear.estimators.base import LinearModel
from cyclade.linear.estimators.checks import check_choice
from cyclade.linear.estimators.paths import CoefficientPath
from cyclade.linear.estimators.values import Fit, Problem
from cyclade.linear.losses import Squared
from cyclade.linear.losses.base import Array

Fold = tuple[Array, Array]


@dataclass(frozen=True)
class HeldOut:
    """Scores of a fold at every alpha, and how many of the fits there missed the tolerance."""

    scores: Array
    missed: int
    fits: int


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidated(LinearModel):
    """Paths on the folds, all over one grid; then the path on all rows down to the alpha chosen."""

    alphas: Any = None
    n_alphas: int = 100
    alpha_ratio: float = 1e-3
    cv: Any = None
    scoring: Any = None
    rule: str = "min"
    n_jobs: int | None = None

    def _choose_and_solve(self, problem: Problem) -> list[Any]:
        check_choice("rule", self.rule, ("min", "1se"))
        grid = self._grid(problem, self.alphas, self.n_alphas, self.alpha_ratio)
        folds = self._folds(problem)
        # Kernels let go of the interpreter lock, so that threads share X instead of copying it.
        run = Parallel(n_jobs=self.n_jobs, prefer="threads")
        tried = run(delayed(_held_out)(self, problem, grid, *fold) for fold in folds)
        scores = [fold.scores for fold in tried]
        missed = sum(fold.missed for fold in tried)
        if missed:  # said here, once: warnings from threads would repeat, or be lost
            fits = sum(fold.fits for fold in tried)
            self._warn(f"at {missed} of {fits} fits on the {len(folds)} folds", depth=2)
        weights = [np.sum(_weights(problem, test)) for _, test in folds]
        choice = Choice(grid, np.stack(scores, axis=1), np.array(weights))
        best = choice.index(self.rule)
        self.alphas_, self.alpha_ = grid, float(grid[best])
        self.alpha_min_ = float(grid[choice.index("min")])
        self.alpha_1se_ = float(grid[choice.index("1se")])
        self.score_path_, self.mean_score_, self.std_score_ = choice.scores, choice.mean, choice.std
        self._squared_errors = self.scoring is None and isinstance(problem.loss, Squared)
        return [Fit.on(found, best) for found in self._path(problem, grid[: best + 1])]

    def _folds(self, problem: Problem) -> list[Fold]:
        """Rows to fit and to hold out; ValueError where a fold cannot be fitted or scored."""
        splitter = check_cv(self.cv, problem.y, classifier=is_classifier(self))
        folds = list(splitter.split(np.zeros(len(problem.y)), problem.y))
        for train, test in folds:
            seen = problem.y[train][_weights(problem, train) > 0]
            if not len(seen) or not _weights(problem, test).any():
                raise ValueError("cv: all rows of a fold have zero sample_weight")
            if is_classifier(self):
                lost = np.setdiff1d(self.classes_, seen).tolist()
                if lost:
                    raise ValueError(
                        f"cv: the training rows of a fold lack class {lost[0]!r}; use fewer or "
                        "other folds"
                    )
        return folds

    @property
    def mse_path_(self) -> Array:
        """Mean squared errors on the held-out folds."""
        if not getattr(self, "_squared_errors", False):
            raise AttributeError(f"{type(self).__name__} has no mse_path_; see score_path_")
        return -self.score_path_

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the scores along alpha; see `cyclade.linear.plots.plot_cv`."""
        from cyclade.linear.plots import plot_cv

        return plot_cv(self, ax=ax, **options)


def _weights(problem: Problem, rows: Array) -> Array:
    if problem.sample_weight is None:
        return np.ones(len(problem.y))[rows]
    return problem.sample_weight[rows]


def _held_out(
    model: CrossValidated, problem: Problem, grid: Array, train: Array, test: Array
) -> HeldOut:
    """Scores of the path on `train`, measured on `test`."""
    results = model._path(problem.part(train), grid)
    scores = _scores(model, problem.part(test), grid, results)
    certificates = [certificate for result in results for certificate in result.certificates]
    return HeldOut(scores, sum(not c.reached for c in certificates), len(certificates))


def _scores(model: CrossValidated, outside: Problem, grid: Array, results: list[Any]) -> Array:
    """The score of every alpha on rows that were held out."""
    if model.scoring is None:
        return -np.array([_error(outside, results, k) for k in range(len(grid))])
    path = CoefficientPath.of(grid, results, model._shape)
    fitted, scorer = copy.copy(model), check_scoring(model, scoring=model.scoring)
    weights = {} if outside.sample_weight is None else {"sample_weight": outside.sample_weight}
    scores = []
    for k in range(len(grid)):
        fitted.coef_, fitted.intercept_ = path.coefs[..., k], path.intercepts[..., k]
        scores.append(float(scorer(fitted, outside.X, outside.y, **weights)))
    return np.array(scores)


def _error(problem: Problem, results: list[Any], k: int) -> float:
    """The mean loss at the k-th alpha, over rows and outputs; twice that for the squared loss."""
    errors = []
    for number, (target, result) in enumerate(zip(problem.targets, results, strict=True)):
        z = problem.X @ result.coefs[..., k] + result.intercepts[..., k]
        offset = problem.offset_of(number)
        z = z if offset is None else z + offset
        outputs = target.shape[1] if target.ndim == 2 else 1
        values = problem.loss.value(target, z) / outputs
        errors.append(np.average(values, weights=problem.sample_weight))
    return float(np.mean(errors)) * (2.0 if isinstance(problem.loss, Squared) else 1.0)
