"""The choice of alpha by cross-validation: `class LassoCV(CrossValidated, Lasso)`."""

from __future__ import annotations

import copy
import inspect
from dataclasses import MISSING, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import is_classifier
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping

from cyclade._checks import choice
from cyclade.linear.api import paths_on_folds
from cyclade.linear.checks import check_groups, chunked, in_chunks
from cyclade.linear.estimators.base import Data, LinearModel
from cyclade.linear.estimators.fitted import CoefficientPath
from cyclade.linear.losses import Array, Squared
from cyclade.linear.threads import one_thread

if TYPE_CHECKING:
    from typing_extensions import Self

Fold = tuple[Array, Array]
HeldOut = tuple[Array, list[bool]]  # scores of a fold at every alpha; which fits met the tolerance


EXAMPLE = """

Examples
--------
>>> import numpy as np
>>> from cyclade.linear import {name}
>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((60, 10))
>>> y = {y}
>>> model = {name}({options}n_alphas=20, rule="1se").fit(X, y)
>>> model.alpha_ == model.alpha_1se_ >= model.alpha_min_
True
>>> model.score(X, y) > 0.5
True
"""


class CrossValidated(LinearModel):
    """Paths on the folds, all over one grid; then the path on all rows down to the alpha chosen.

    Mixed in before an estimator with one alpha, it takes that parameter away. Where there is an
    `l1_ratio`, several may be given in a list.
    """

    alpha: Any = field(init=False)
    alphas: Annotated[
        Any,
        "array or int",
        "Values of alpha to try, or how many; None takes `n_alphas` of them, spaced evenly in the "
        "logarithm. "
        "Must be given where no alpha makes all coefficients zero (`l1_ratio=0`).",
    ] = None
    n_alphas: Annotated[int, "How many alphas are tried."] = 100
    alpha_ratio: Annotated[
        float,
        "The smallest alpha over the largest, which is the smallest with all coefficients zero.",
    ] = 1e-3
    cv: Annotated[
        Any,
        "int, splitter or iterable of (train, test)",
        "The folds: that many (stratified for classes), or as given. None makes 5, or fewer where "
        "no class (or all of y) has 5 rows.",
    ] = None
    scoring: Annotated[
        Any,
        "str or callable",
        "A scorer of scikit-learn. None is minus the mean loss on the held-out fold: minus the "
        "mean squared error for the squared loss, minus half the deviance for a distribution's.",
    ] = None
    rule: Annotated[
        Literal["min", "1se"],
        '{"min", "1se"}',
        '"min" takes the alpha with the best mean score, "1se" the largest alpha within one '
        "standard error of it.",
    ] = "min"
    n_jobs: Annotated[int | None, "int", "Folds that run at once, as in joblib."] = None
    checkpoint: Annotated[
        Any,
        "str or path",
        "A folder that holds what is done of every path; the same `fit` goes on from it.",
    ] = None

    alpha_: Annotated[float, "The alpha that was chosen."] = field(init=False)
    l1_ratio_: Annotated[
        Any, "float", "The `l1_ratio` used: of several, the one with the best mean score."
    ] = field(init=False)
    alpha_min_: Annotated[float, 'What the rule "min" chooses.'] = field(init=False)
    alpha_1se_: Annotated[float, 'What the rule "1se" chooses.'] = field(init=False)
    alphas_: Annotated[Array, "array of shape (n_alphas,)", "The alphas tried, descending."] = (
        field(init=False)
    )
    score_path_: Annotated[
        Array,
        "array of shape (n_alphas, n_folds)",
        "Scores on the held-out folds, higher is better.",
    ] = field(init=False)
    mean_score_: Annotated[
        Array,
        "array of shape (n_alphas,)",
        "Their mean over folds, weighted by what the folds weigh.",
    ] = field(init=False)
    std_score_: Annotated[
        Array, "array of shape (n_alphas,)", "The standard error of that mean."
    ] = field(init=False)
    mse_path_: Annotated[
        Array,
        "array of shape (n_alphas, n_folds)",
        "Minus `score_path_`, for estimators with the squared loss and no `scoring`.",
    ] = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A twin has no parameters that its estimator has not; its docstring ends with an example.

        Of two bases a dataclass takes the fields of the first.
        """
        single: Any = cls.__bases__[-1]
        for known in fields(single):
            if not known.init and known.default is not MISSING and known.name not in vars(cls):
                cls.__annotations__[known.name] = Any
                setattr(cls, known.name, field(init=False, default=known.default))
        if issubclass(single, LinearModel) and "Examples" not in (cls.__doc__ or ""):
            options = "l1_ratio=[0.5, 1.0], " if hasattr(single, "l1_ratio") else ""
            example = EXAMPLE.format(name=cls.__name__, y=single._targets, options=options)
            cls.__doc__ = inspect.cleandoc(cls.__doc__ or "") + example
        super().__init_subclass__(**kwargs)

    # `groups` is for the splitter; see `get_metadata_routing`.
    __metadata_request__fit = {"groups": UNUSED}  # noqa: RUF012

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None, groups: Any = None
    ) -> Self:
        """Choose alpha on the folds and fit the model with it.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for the estimator with one alpha.
        groups : array of shape (n,), default=None
            Labels of rows that belong together, for a `cv` such as `GroupKFold`.

        Returns
        -------
        self
        """
        ratio = getattr(self, "l1_ratio", None)
        ratios = [ratio] if np.ndim(ratio) == 0 else list(ratio)  # type: ignore[arg-type]
        if not ratios:
            raise ValueError("l1_ratio must be a number or a list of one or more, got []")
        parameters, tried, cv = self.get_params(deep=False), [], self.cv
        for ratio in ratios:  # on the same folds
            model = copy.copy(self)
            vars(model).update({"cv": cv} if ratio is None else {"cv": cv, "l1_ratio": ratio})
            data = model._data(X, y, sample_weight, offset)
            data = replace(data, groups=check_groups(groups, len(data.y)))
            model.cv = cv = model._folds(data)
            tried.append(model._fitted(data))
        best = max(tried, key=lambda model: float(np.nanmax(model.mean_score_)))
        found = {**vars(best), "l1_ratio_": getattr(best, "l1_ratio", None), **parameters}
        vars(self).clear()
        vars(self).update(found)
        self._reached: list[bool] = [one for model in tried for one in model._reached]
        return self._told()

    def _shortfalls(self) -> list[str]:
        """Those of the folds are told together: of threads, or one by one, they would repeat."""
        missed, of_all = self._reached.count(False), len(self._reached)
        folds = f"at {missed} of {of_all} fits on the {self.score_path_.shape[1]} folds"
        return [folds] * (missed > 0) + super()._shortfalls()

    def _choice(self) -> list[str]:
        at = int(np.flatnonzero(self.alphas_ == self.alpha_)[0])
        kind = "minus the mean loss" if self.scoring is None else str(self.scoring)
        kind = "minus the mean squared error" if hasattr(self, "mse_path_") else kind
        return [
            f"score {self.mean_score_[at]:.4g} ± {self.std_score_[at]:.2g} ({kind}), rule "
            f'"{self.rule}", {self.score_path_.shape[1]} folds, {len(self.alphas_)} {self._chosen}s'
        ]

    def get_metadata_routing(self) -> MetadataRouter:
        """`groups` goes to the splitter, as in scikit-learn's estimators with cross-validation."""
        from sklearn.model_selection import check_cv

        mapping = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(splitter=check_cv(self.cv), method_mapping=mapping)

    def _fit(self, data: Data) -> list[Any]:
        choice("rule", self.rule, ("min", "1se"))
        grid = self._grid(data, self.alphas, self.n_alphas, self.alpha_ratio)
        folds, model = self._folds(data), copy.copy(self)
        if np.ndim(getattr(self, "precompute", "auto")) == 2:  # those are the products of all rows
            model.precompute = "auto"
        # Kernels let go of the interpreter lock, so that threads share X instead of copying it.
        # Folds side by side share the cores, so BLAS has one thread within each, in all they do.
        parallel = effective_n_jobs(self.n_jobs) > 1
        with one_thread(0 if parallel or in_chunks(data.X) else data.X.size):
            run = Parallel(n_jobs=self.n_jobs, prefer="threads")
            tried = _held_out_at_once(model, data, grid, folds)
            tried = tried or run(
                delayed(_held_out)(model, self._kept(data, f"fold-{k}"), grid, *fold)
                for k, fold in enumerate(folds)
            )
        self._reached = [certified for _, fits in tried for certified in fits]
        scores = np.stack([scores for scores, _ in tried], axis=1)
        weights = np.array([data.weights[test].sum() for _, test in folds])
        self.score_path_, self.alphas_ = scores, grid
        self.mean_score_, self.std_score_, chosen = choose(scores, weights)
        self.alpha_min_, self.alpha_1se_ = (float(grid[chosen[rule]]) for rule in ("min", "1se"))
        best = chosen[self.rule]
        self.alpha_ = float(grid[best])
        self.__dict__.pop("mse_path_", None)
        if self.scoring is None and isinstance(data.loss, Squared):
            self.mse_path_ = -scores
        kept = self._kept(data, "all")
        return [found.at(best) for found in self._paths(kept, grid[: best + 1])]

    def _kept(self, data: Data, name: str) -> Data:
        """The same with a checkpoint for its path, if there is a folder for them."""
        if self.checkpoint is None:
            return data
        return replace(data, checkpoint=str(Path(self.checkpoint) / name))

    def _folds(self, data: Data) -> list[Fold]:
        """Rows to fit and to hold out; ValueError where a fold cannot be fitted or scored."""
        from sklearn.model_selection import check_cv

        cv = self.cv
        if cv is None:  # five folds, where that many rows (of the largest class) are there
            labels = data.y if is_classifier(self) else np.zeros(len(data.y))
            cv = max(2, min(5, int(np.unique(labels, return_counts=True)[1].max())))
        splitter = check_cv(cv, data.y, classifier=is_classifier(self))
        folds = list(splitter.split(np.zeros(len(data.y)), data.y, data.groups))
        weights = data.weights
        for train, test in folds:
            seen = data.y[train][weights[train] > 0]
            if not len(seen) or not weights[test].any():
                raise ValueError("cv: all rows of a fold have zero sample_weight")
            lost = np.setdiff1d(self.classes_, seen).tolist() if is_classifier(self) else []
            if lost:
                raise ValueError(
                    f"cv: the training rows of a fold lack class {lost[0]!r}; use fewer or other "
                    "folds"
                )
        return folds

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the scores along alpha; see `cyclade.linear.plots.plot_cv`."""
        from cyclade.linear.plots import plot_cv

        return plot_cv(self, ax=ax, **options)


def _held_out(model: CrossValidated, data: Data, grid: Array, train: Array, test: Array) -> HeldOut:
    """Scores of the path on `train`, measured on `test`."""
    part = data.part
    if in_chunks(data.X):
        part = partial(chunked("estimators").table_part, data, model._lengths)
    inside = part(train)
    if model._adapts:  # to no row that is held out; a copy, as other threads use the model
        penalty = copy.copy(model)._penalised(inside.X, inside.y, inside.sample_weight)
        inside = replace(inside, penalty=penalty)
    results = model._paths(inside, grid)
    scores = _scores(model, part(test), grid, results)
    return scores, [fit.reached for result in results for fit in result.certificates]


def _held_out_at_once(
    model: CrossValidated, data: Data, grid: Array, folds: list[Fold]
) -> list[HeldOut] | None:
    """The same for all folds from one pass over X, for least squares where that pays; or None."""
    plain = model.scoring is None and not (model._adapts or model.relaxed or in_chunks(data.X))
    alone = len(data.targets) == 1 and isinstance(data.loss, Squared) and data.penalty is not None
    if not (plain and alone and _partition(folds, len(data.y))):
        return None
    tests, options = [test for _, test in folds], model._options(data, 0)
    options.pop("verbose")
    found = paths_on_folds(data.X, data.targets[0], data.loss, data.penalty, tests, grid, **options)
    if found is None:
        return None
    return [(-errors, [True] * len(grid)) for _, errors in found]  # all of them are certified


def _partition(folds: list[Fold], n: int) -> bool:
    """Whether folds are disjoint, and each is fitted on all rows outside it, once each."""
    seen = np.zeros(n, np.int64)
    for train, test in folds:
        both = np.zeros(n, np.int64)
        np.add.at(both, np.concatenate([train, test]), 1)
        if not (both == 1).all():
            return False
        seen[test] += 1
    return bool((seen <= 1).all())


def _scores(model: CrossValidated, outside: Data, grid: Array, results: list[Any]) -> Array:
    """The score of every alpha on rows that were held out."""
    in_parts = in_chunks(outside.X)
    if model.scoring is None:
        times = -2.0 if isinstance(outside.loss, Squared) else -1.0
        errors = chunked("estimators").table_errors if in_parts else _errors
        return times * errors(outside, results)
    if in_parts:
        raise ValueError("scoring must be None for tables in chunks")
    from sklearn.metrics import check_scoring

    path = CoefficientPath.of(grid, results, model._shape)
    fitted, scorer = copy.copy(model), check_scoring(model, scoring=model.scoring)
    vars(fitted)["_own_offset"] = outside.offset  # scorers call predict with nothing but X
    vars(fitted).pop("feature_names_in_", None)  # which X has lost
    weights = {} if outside.sample_weight is None else {"sample_weight": outside.sample_weight}
    scores = []
    for k in range(len(grid)):
        fitted.coef_, fitted.intercept_ = path.coefs[..., k], path.intercepts[..., k]
        scores.append(float(scorer(fitted, outside.X, outside.y, **weights)))
    return np.array(scores)


def _errors(data: Data, results: list[Any]) -> Array:
    """The mean loss at every alpha, over rows and outputs."""
    errors = []
    for k, (y, result) in enumerate(zip(data.targets, results, strict=True)):
        (p, *outputs, L), offset = result.coefs.shape, data.offset_of(k)
        Z = (data.X @ result.coefs.reshape(p, -1)).reshape(-1, *outputs, L) + result.intercepts
        Z = np.ascontiguousarray(np.moveaxis(Z, -1, 0))
        Z = Z if offset is None else Z + offset
        means = [np.average(data.loss.value(y, z), weights=data.sample_weight) for z in Z]
        errors.append(np.array(means) / (y.shape[1] if y.ndim == 2 else 1))
    return np.asarray(np.mean(errors, axis=0))


def choose(scores: Array, weights: Array) -> tuple[Array, Array, dict[str, int]]:
    """Mean scores (L,) over folds of these weights, standard errors, and what each rule chooses.

    "min" chooses the best mean, "1se" the largest alpha within one standard error of it. Means that
    agree to seven digits count as equal, and the largest alpha of the best is taken: fits are no
    more exact than that, and rounding would choose among them.
    """
    mean = np.average(scores, axis=1, weights=weights)
    variance = np.average((scores - mean[:, None]) ** 2, axis=1, weights=weights)
    std = np.sqrt(variance / max(scores.shape[1] - 1, 1))
    if np.isnan(mean).all():
        raise ValueError("scoring: every alpha has a fold whose score is NaN")
    largest = np.nanmax(mean)
    best = int(np.argmax(mean >= largest - 1e-7 * abs(largest)))
    return mean, std, {"min": best, "1se": int(np.argmax(mean >= mean[best] - std[best]))}
