"""What all linear estimators share: data in, a certified solution out, scikit-learn's manners.

An estimator declares its parameters (see `declare`), its loss and its penalty. `Regressor` and
`Classifier` (classifier.py) know targets, `Single` has one alpha, and `CrossValidated`, mixed in,
chooses it.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Integral
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import validate_data

from cyclade._checks import non_negative, positive, require, whole_number
from cyclade.linear import api
from cyclade.linear.api import lam_max, unannounced
from cyclade.linear.checks import (
    between,
    check_flag,
    check_gram,
    check_offset,
    check_weights,
    chunked,
    in_chunks,
    is_constant,
    numbers,
)
from cyclade.linear.estimators.declare import RegressorMixin
from cyclade.linear.estimators.fitted import CoefficientPath, FittedModel, text_named
from cyclade.linear.estimators.frames import encoded
from cyclade.linear.losses import Array, Loss, SquaredHinge
from cyclade.linear.penalties import BlockPenalty, Box
from cyclade.linear.penalties.scalar import weighted
from cyclade.linear.results import PathResult, worst

if TYPE_CHECKING:
    from typing_extensions import Self

solve, solve_path = unannounced(api.solve), unannounced(api.path)  # `_told` warns
Tolerance = Annotated[
    float,
    "Relative tolerance of the certificate: the duality gap over the objective at zero where the "
    "problem is convex and its loss has a conjugate, else the distance from zero to the "
    "subdifferential over the slope of the penalty at zero, such as alpha times l1_ratio (where "
    "that is 0, over the largest gradient of the null model). With its default, the squared hinge "
    "is fitted to 1e-10, and float32 X, which is rounded, to 1e-4 where a distance is measured. "
    "Beyond that a tolerance is met as far as float32 allows, with a warning if not.",
]
Encoded = tuple[Array, Array | None]  # targets and weights


@dataclass(frozen=True)
class Data:
    """Data that passed all checks. Each of the `targets` is a separate fit over the same X."""

    X: Any
    y: Array  # as given, for scorers
    targets: list[Array]
    sample_weight: Array | None
    offset: Array | None
    loss: Loss
    penalty: Any  # at some λ; `at` sets it
    groups: Array | None = None  # for splitters
    checkpoint: str | None = None  # where a path over these data keeps what is done
    gathered: Array | None = None  # weights on the client, for tables in chunks

    @property
    def weights(self) -> Array:
        """Sample weights on the client, ones where none were given."""
        if self.gathered is not None:
            return self.gathered
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    def at(self, alpha: float | None) -> Any:
        """The penalty at λ = alpha; at zero only the sign of coefficients can be constrained."""
        if alpha == 0.0 and not isinstance(self.penalty, Box):
            return Box(0.0 if getattr(self.penalty, "positive", False) else -np.inf, np.inf)
        return self.penalty if alpha is None else self.penalty.scaled(alpha)

    def part(self, rows: Array) -> Data:
        """The same on some of the rows."""
        return replace(
            self,
            X=rows_of(self.X, rows),
            y=self.y[rows],
            targets=[target[rows] for target in self.targets],
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
            offset=None if self.offset is None else self.offset[rows],
        )

    def offset_of(self, k: int) -> Array | None:
        """The offset of fit k, in the shape of its predictions."""
        if self.offset is None or self.offset.ndim == 1 or len(self.targets) == 1:
            return self.offset
        return self.offset[:, k]


def rows_of(X: Any, rows: Array) -> Any:
    """Some rows of X; dense columns that lie in a row still do so, and need no further copy."""
    by_columns = isinstance(X, np.ndarray) and X.flags.f_contiguous
    return X.T.take(rows, axis=1).T if by_columns else X[rows]


@cache
def arguments(form: Any) -> list[str]:
    """The arguments of a penalty besides λ."""
    return [name for name in inspect.signature(form).parameters if name != "lam"]


class LinearModel(FittedModel):
    """min over x, c of (1/Σ s_i) Σ s_i φ(y_i, a_i·x + c + offset_i) + r(x)."""

    fit_intercept: Annotated[bool, "Whether to fit an unpenalised intercept."] = True
    standardize: Annotated[
        bool,
        "Whether columns are divided by their (weighted) standard deviations for the fit, so that "
        "the penalty treats all units alike. `coef_` is for X as given, F is that of the fit.",
    ] = False
    penalty_weights: Annotated[
        Any,
        "array of one number per feature or group, or dict",
        "Factors w >= 0 of alpha: one per feature (in both parts of an elastic net), or per group; "
        "or, where features have penalties of their own, a dict by names, where others have 1. "
        "Zero leaves a feature or group unpenalised.",
    ] = None
    tol: Tolerance = 1e-6
    max_iter: Annotated[int, "Largest number of passes."] = 100_000
    formula: Annotated[
        Any,
        "str",
        "What the columns of the fit are made of, where X is a dataframe: as in "
        '"age + C(region) + age:income", in the grammar of formulaic; see `FrameEncoder`.',
    ] = None
    relaxed: Annotated[
        bool,
        "Whether the features that the penalty selects are fitted again without it, as in the "
        "relaxed lasso. The certificate is then that of the second fit.",
    ] = False
    warm_start: Annotated[bool, "Whether `fit` starts from the solution of the last one."] = False
    verbose: Annotated[bool, "Whether the solver reports its progress."] = False

    # What a family of models says.

    _phi: ClassVar[Loss]
    _form: ClassVar[Any]  # of the penalty; arguments besides λ are parameters of that name
    _adapts: ClassVar[bool] = False  # whether the penalty depends on the rows
    _multi_output: ClassVar[bool] = False  # whether y may have several columns
    _takes_chunks: ClassVar[bool] = True
    _single_output: ClassVar[bool] = True  # whether it may have one
    _lengths: ClassVar[tuple[int, ...] | None] = None  # of a table's chunks, if y alone says them
    _positive_only: ClassVar[bool] = False
    _alpha_ratio: ClassVar[float] = 1e-3  # of a path, where none is given
    _targets: ClassVar[str] = "X[:, 0] + 0.1 * rng.standard_normal(60)"  # in the twin's example

    def _loss(self, y: Array, sample_weight: Array | None) -> Loss:
        return self._phi

    def _penalty(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        """The penalty, at any λ."""
        return self._form(1.0, **{name: getattr(self, name) for name in arguments(self._form)})

    def _penalised(self, X: Any, y: Array, sample_weight: Array | None) -> Any:
        """The penalty with `penalty_weights`, at any λ."""
        penalty = self._penalty(X, y, sample_weight)
        if self.penalty_weights is None:
            return penalty
        names = getattr(self, "feature_names_in_", None)
        return weighted(penalty, self.penalty_weights, X.shape[1], names)

    def _alpha(self, data: Data) -> float | None:
        """λ; None leaves the penalty as it is."""
        if self.alpha is None:  # no number would suit all units
            own = not isinstance(getattr(self, "penalty", ""), str)
            return None if own else 0.1 * largest_alpha(self, data, "alpha")
        if not hasattr(data.penalty, "scaled"):
            name = type(data.penalty).__name__
            raise ValueError(f"alpha must be None: {name} lacks scaled(lam) and has its own λ")
        return non_negative("alpha", self.alpha)

    def _encode(self, y: Array, sample_weight: Array | None) -> Encoded:
        """Targets as the loss takes them, and weights with what the classes weigh."""
        raise NotImplementedError

    def _separate(self, y: Array, loss: Loss, penalty: Any) -> list[Array]:
        """One target per separate fit."""
        raise NotImplementedError

    def _shape(self, coefs: list[Array], intercepts: list[Any]) -> tuple[Array, Any]:
        """coef_ and intercept_ from the solutions of the separate fits."""
        raise NotImplementedError

    # What is then done with it.

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)
            The data, which is not copied where that can be avoided. Or a table in chunks, a Dask
            array or dataframe or `RowChunks`, which is never held as a whole.
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
        return self._fitted(self._data(X, y, sample_weight, offset))._told()

    def _fitted(self, data: Data) -> Self:
        """Set the attributes of a fit."""
        start = perf_counter()
        self._had_offset, self._n_rows = data.offset is not None, len(data.y)
        self._look_at_scales(data)
        solutions = self._fit(data)
        self._starts = [(s.coef, s.intercept) for s in solutions]
        coef, self.intercept_ = self._shape(*map(list, zip(*self._starts, strict=True)))
        self.coef_ = coef if not self.standardize else (coef / self._scale).astype(coef.dtype)
        self.fit_time_ = perf_counter() - start
        self.certificate_ = worst([s.certificate for s in solutions])
        self.objective_ = float(sum(solution.objective for solution in solutions))
        self.n_iter_ = max(1, *(int(solution.passes) for solution in solutions))
        return self

    def _look_at_scales(self, data: Data) -> None:
        """Keep the standard deviations of columns, from some rows, and warn where they are far off.

        Only of dense columns: those of sparse ones say how often they are met.
        """
        self.__dict__.pop("_deviations", None)
        if in_chunks(data.X):
            return
        n, p = data.X.shape
        rows = np.linspace(0, n - 1, min(n, max(50, 100_000 // p)), dtype=np.int64)
        if isinstance(data.X, np.ndarray):
            found = rows_of(data.X, rows).std(axis=0, dtype=np.float64)
        else:
            found = np.sqrt(mean_variance_axis(data.X[rows].astype(np.float64), axis=0)[1])
        self._deviations = np.asarray(found * self._scale, np.float64)
        found = found[found > 1e-12 * found.max(initial=0.0)]
        unlike = found.size > 1 and found.max() > 1e3 * found.min()
        unpenalised = getattr(self, "alpha", None) == 0.0
        if unlike and isinstance(data.X, np.ndarray) and not (self.standardize or unpenalised):
            warnings.warn(
                f"{type(self).__name__}: columns of X differ by {found.max() / found.min():.0e} in "
                "scale, and the penalty asks more of small ones: standardize=True, or scale X",
                UserWarning,
                stacklevel=4,
            )

    def _told(self) -> Self:
        """Warn of what a fit did not reach; `fit` calls this last."""
        for text in self._shortfalls():
            self._warn(text, depth=2)
        return self

    def _shortfalls(self) -> list[str]:
        """What did not reach its tolerance, in words."""
        now = self.certificate_
        if now.reached:
            return []
        return [f"its {now.kind} is {now.value:.2e}, the tolerance {now.tolerance:.2e}"]

    def path(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        alphas: Any = None,
        n_alphas: int = 100,
        alpha_ratio: float | None = None,
    ) -> CoefficientPath:
        """Solutions at many alphas, each started from the one before; the estimator is left alone.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for `fit`.
        alphas : array or int, default=None
            Values of alpha, or how many; None takes `n_alphas`, from the smallest at which all
            coefficients are zero down to `alpha_ratio` times that, evenly in the logarithm.
        n_alphas : int, default=100
            How many.
        alpha_ratio : float, default=None
            The smallest alpha over the largest; None is 1e-3 (0.05 for `CoxRegression` and
            `SqrtLasso`).

        Returns
        -------
        CoefficientPath
            With alphas, coefs, intercepts, certificates and `plot`.
        """
        model = self.__class__(**self.get_params(deep=False))
        data = model._data(X, y, sample_weight, offset)
        ratio = self._alpha_ratio if alpha_ratio is None else alpha_ratio
        grid = model._grid(data, alphas, n_alphas, ratio)
        names = getattr(model, "feature_names_in_", None)
        result = CoefficientPath.of(grid, model._paths(data, grid), model._shape, names)
        if model.standardize:
            result = replace(result, coefs=result.coefs / np.reshape(model._scale, (-1, 1)))
        missed = sum(not certificate.reached for certificate in result.certificates)
        if missed:
            model._warn(f"at {missed} of {len(grid)} alphas")
        return result

    def inference(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Any:
        """Standard errors, p-values and intervals; see `cyclade.linear.inference`."""
        from cyclade.linear.statistics.intervals import inference

        return inference(self, X, y, sample_weight, **options)

    def _data(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Data:
        """Check parameters and data."""
        positive("tol", self.tol)
        whole_number("max_iter", self.max_iter, 1)
        for name in ("fit_intercept", "standardize", "relaxed", "warm_start", "verbose"):
            check_flag(name, getattr(self, name))
        flag = getattr(self, "positive", False)
        some = "True or False; bounds of single features are penalties.Box(lower, upper)"
        require(isinstance(flag, (bool, np.bool_, int)), "positive", flag, some)
        if in_chunks(X):
            if not self._takes_chunks:
                raise ValueError(f"X must be in memory, not in chunks, for {type(self).__name__}")
            if self.formula is not None:
                raise ValueError("formula must be None for tables in chunks")
            data: Data = chunked("estimators").table_data(self, X, y, sample_weight, offset)
            return data
        X, y = self._validated(X, y, accept_sparse=("csr", "csc"))
        # In float64 whatever X is: rounded as X is, a y far from zero would lose what X explains.
        weights = check_weights(sample_weight, X.shape[0], np.float64)
        targets, weights = self._encode(y, weights)
        self._scale = 1.0
        if self.standardize:  # an unpenalised intercept makes up for columns that are not centred
            from sklearn.preprocessing import StandardScaler

            scaler = StandardScaler(with_mean=False).fit(X, sample_weight=weights)
            X, self._scale = scaler.transform(X), scaler.scale_
        return self._checked(X, y, targets, weights, offset)

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Any, Array]:
        several = self.__sklearn_tags__().target_tags.multi_output
        dtypes = (np.float64, np.float32)
        with text_named(X):
            if hasattr(X, "columns") or hasattr(self, "encoder_") or getattr(self, "formula", None):
                X = encoded(self, X, options.get("reset", True))
            if hasattr(self, "encoder_"):  # whose matrix has no names to compare
                self.__dict__.pop("feature_names_in_", None)
            X, y = validate_data(self, X, y, dtype=dtypes, multi_output=several, **options)
        self._name_features()
        return X, y

    def _checked(self, X: Any, given: Array, y: Array, weights: Any, offset: Any) -> Data:
        check_gram(getattr(self, "precompute", "auto"), X.shape[1])
        loss = self._loss(y, weights)
        penalty = self._penalised(X, y, weights)
        targets = self._separate(y, loss, penalty)
        for target in targets:
            loss.check(target)
        offset = check_offset(offset, self._predictions(len(given), targets, loss), np.float64)
        return Data(X, given, targets, weights, offset, loss, penalty)

    def _predictions(self, n: int, targets: list[Array], loss: Loss) -> tuple[int, ...]:
        """The shape of the linear predictions."""
        if loss.target == "classes":
            return (n, len(self.classes_))
        if len(targets) > 1:
            return (n, len(targets))
        return (n, *targets[0].shape[1:])

    def _options(self, data: Data, k: int) -> dict[str, Any]:
        return {
            "sample_weight": data.sample_weight,
            "offset": data.offset_of(k),
            "fit_intercept": self.fit_intercept,
            "tol": self._tolerance(data),
            "max_iter": self.max_iter,
            "verbose": self.verbose,
            "precompute": getattr(self, "precompute", "auto"),
        }

    def _tolerance(self, data: Data) -> float:
        """One default for all estimators, by the problem; what a user asks for beyond it is tried.

        Gradients of float32 columns are rounded at 1e-7 of themselves, not of alpha. Steps on the
        squared hinge do not end exactly, and four digits more take one or two of them.
        """
        if self.tol < LinearModel.tol:
            return self.tol
        convex = data.loss.convex and getattr(data.penalty, "convex", False)
        dual = convex and hasattr(data.loss, "conjugate")
        if not (dual or in_chunks(data.X)) and data.X.dtype == np.float32:
            return max(self.tol, 1e-4)
        tight = isinstance(data.loss, SquaredHinge) and self.tol == LinearModel.tol
        return 1e-10 if tight else self.tol

    def _fit(self, data: Data) -> list[Any]:
        """One solution for each separate fit."""
        self.alpha_ = self._alpha(data)
        penalty = data.at(self.alpha_)
        starts = enumerate(self._warm_starts(data))
        solutions = [self._solve(data, k, penalty, *start) for k, start in starts]
        if self.relaxed:
            solutions = [self._refitted(data, k, found) for k, found in enumerate(solutions)]
        # A number as default may be too large for the data: say so, as nobody chose it.
        default = type(self).__dataclass_fields__["alpha"].default
        if self.alpha == default is not None and not any(s.coef.any() for s in solutions):
            largest = largest_alpha(self, data)
            if default > largest:
                warnings.warn(
                    f"{type(self).__name__}: alpha={default:g}, the default, selects no feature; "
                    f"alphas below {largest:.3g} do (None takes a tenth of that)",
                    UserWarning,
                    stacklevel=4,
                )
        return solutions

    def _solve(self, data: Data, k: int, penalty: Any, coef: Any, intercept: Any) -> Any:
        start = {"coef": coef, "intercept": intercept}
        return solve(data.X, data.targets[k], data.loss, penalty, **start, **self._options(data, k))

    def _path(self, data: Data, grid: Array) -> list[Any]:
        found = []
        for k, y in enumerate(data.targets):
            kept = None if data.checkpoint is None else f"{data.checkpoint}-{k}"
            options = {"alphas": grid, "checkpoint": kept, **self._options(data, k)}
            found.append(solve_path(data.X, y, data.loss, data.penalty, **options))
        return found

    def _paths(self, data: Data, grid: Array) -> list[Any]:
        """The path of each separate fit, relaxed where that is asked for."""
        paths = self._path(data, grid)
        if not self.relaxed:
            return paths
        points = range(len(grid))
        return [
            PathResult.of(grid, [self._refitted(data, k, path.at(at)) for at in points])
            for k, path in enumerate(paths)
        ]

    def _refitted(self, data: Data, k: int, found: Any) -> Any:
        """The fit without a penalty on the features of `found`."""
        on = np.flatnonzero(np.reshape(found.coef, (len(found.coef), -1)).any(axis=1))
        if not len(on):
            return found
        y, options = data.targets[k], {**self._options(data, k), "precompute": "auto"}
        some = chunked("estimators").some_columns(data.X, on) if in_chunks(data.X) else None
        X = data.X[:, on] if some is None else some
        again = solve(X, y, data.loss, data.at(0.0), **options)
        coef = np.zeros_like(found.coef)
        coef[on] = again.coef
        return replace(again, coef=coef, passes=found.passes + again.passes)

    def _grid(self, data: Data, alphas: Any, n_alphas: int, alpha_ratio: float) -> Array:
        """Descending alphas; one grid for all separate fits."""
        if not hasattr(data.penalty, "scaled"):
            name = type(data.penalty).__name__
            raise ValueError(f"penalty: {name} lacks scaled(lam), which a path needs")
        if isinstance(alphas, Integral):
            n_alphas, alphas = whole_number("n_alphas", alphas, 1), None
        if alphas is not None:
            given = numbers("alphas", alphas, np.float64)
            valid = given.ndim <= 1 and given.size > 0 and bool((given > 0).all())
            require(valid, "alphas", alphas, "one or more numbers > 0 in one list")
            return np.ascontiguousarray(np.unique(given)[::-1])
        count = whole_number("n_alphas", n_alphas, 1)
        between("alpha_ratio", alpha_ratio)
        return np.asarray(largest_alpha(self, data) * np.geomspace(1.0, alpha_ratio, count))

    def _warm_starts(self, data: Data) -> list[tuple[Any, Any]]:
        cold: list[tuple[Any, Any]] = [(None, None)] * len(data.targets)
        if not self.warm_start or not hasattr(self, "_starts"):
            return cold
        shape = (data.X.shape[1], *self._predictions(1, data.targets[:1], data.loss)[1:])
        fits = len(self._starts) == len(cold) and self._starts[0][0].shape == shape
        return self._starts if fits else cold

    def _warn(self, measured: str, depth: int = 1) -> None:
        """Warn whoever called the method that is `depth` calls above this one."""
        warnings.warn(
            f"{type(self).__name__} stopped without a certificate of optimality ({measured}): "
            "raise max_iter or tol, or scale the columns of X",
            ConvergenceWarning,
            stacklevel=2 + depth,
        )

    def __sklearn_tags__(self) -> Any:
        """Sparse X is fine; what y may be is said by the family."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._multi_output
        tags.target_tags.single_output = self._single_output
        tags.target_tags.positive_only = self._positive_only
        return tags


class Regressor(RegressorMixin, LinearModel):
    """Targets are numbers. With several outputs and a penalty on coordinates, fits are separate."""

    _multi_output = True

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """The mean of y given X: the inverse link of Xx + c + offset."""
        return np.asarray(self._inverse_link(self._linear(X, offset)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """R² of the predictions; `offset` is that of these rows, needed where the fit had one."""
        from sklearn.metrics import r2_score

        predicted = self.predict(X, offset=self._offset_for_score(offset))
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def _inverse_link(self, z: Array) -> Array:
        return z

    def _encode(self, y: Array, sample_weight: Array | None) -> Encoded:
        return numbers("y", y, np.float64), sample_weight

    def _separate(self, y: Array, loss: Loss, penalty: Any) -> list[Array]:
        together = y.ndim == 1 or isinstance(penalty, BlockPenalty)
        targets = [y] if together else [np.ascontiguousarray(column) for column in y.T]
        # y of shape (n, 1) gives predictions of that shape, though the fit is that of a vector
        self._one_column = y.ndim == 2 and targets[0].ndim == 1
        return targets

    def _shape(self, coefs: list[Array], intercepts: list[Any]) -> tuple[Array, Any]:
        if self._one_column:
            return np.stack(coefs), np.array(intercepts)
        coef, intercept = coefs[0], intercepts[0]
        return (coef, float(intercept)) if coef.ndim == 1 else (coef.T, np.asarray(intercept))


class Single(LinearModel):
    """One alpha."""

    alpha: Annotated[
        float | None,
        "float",
        "λ; 0 leaves all coefficients unpenalised. None takes a tenth of the smallest λ at which "
        "all coefficients are zero.",
    ] = field(default=None, kw_only=False)


def largest_alpha(model: Any, data: Data, name: str = "alphas") -> float:
    """The smallest alpha at which all coefficients of all separate fits are zero."""
    if not hasattr(data.penalty, "lam_max"):
        penalty = type(data.penalty).__name__
        raise ValueError(f"{name} must be given: {penalty} lacks lam_max(g0)")
    weights, intercept = data.sample_weight, model.fit_intercept
    largest = max(
        0.0
        if intercept and data.offset_of(k) is None and isinstance(y, np.ndarray) and is_constant(y)
        else lam_max(data.X, y, data.loss, data.penalty, weights, data.offset_of(k), intercept)
        for k, y in enumerate(data.targets)
    )
    if largest == np.inf:
        raise ValueError(f"{name} must be given: no alpha makes all coefficients zero")
    return largest or 1.0  # zero: all coefficients are zero at every alpha
